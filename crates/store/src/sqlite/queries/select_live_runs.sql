-- The same columns as in select_run.sql. The index is named, so that a restart can never read the
-- runs that ended by a planner's mistake.
SELECT r.id, r.name, r.workflow_id, r.workflow_version, r.definition_hash, r.client_id,
       r.retry_of, r.started_by, r.nodes, r.idempotency_key, r.fingerprint, r.created_at,
       r.began_at, r.outcome, r.ended_at, r.failed_node, r.failure_code, r.failure_reason,
       r.failure_details, r.outputs, d.inputs, d.definition
  FROM runs AS r INDEXED BY runs_live
  LEFT JOIN run_definitions AS d ON d.run_id = r.id
 WHERE r.outcome IS NULL AND r.id BETWEEN ?1 AND ?2
 ORDER BY r.id
