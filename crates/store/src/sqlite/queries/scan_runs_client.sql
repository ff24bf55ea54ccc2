SELECT id, name, workflow_id, workflow_version, definition_hash, client_id, retry_of, started_by,
       nodes, idempotency_key, fingerprint, created_at, began_at, outcome, ended_at,
       failed_node, failure_code, failure_reason
  FROM runs INDEXED BY runs_client
 WHERE client_id = ?4 AND id BETWEEN ?1 AND ?2
 ORDER BY id DESC
 LIMIT ?3
