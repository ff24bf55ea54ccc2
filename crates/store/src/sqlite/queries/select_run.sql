-- The columns of scan_runs_*.sql, then the long ones.
SELECT r.id, r.name, r.workflow_id, r.workflow_version, r.definition_hash, r.client_id,
       r.retry_of, r.started_by, r.nodes, r.idempotency_key, r.fingerprint, r.created_at,
       r.began_at, r.outcome, r.ended_at, r.failed_node, r.failure_code, r.failure_reason,
       r.failure_details, r.outputs, d.inputs, d.definition
  FROM runs AS r
  LEFT JOIN run_definitions AS d ON d.run_id = r.id
 WHERE r.id = ?1
