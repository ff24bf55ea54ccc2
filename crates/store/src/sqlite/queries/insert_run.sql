INSERT INTO runs (id, name, workflow_id, workflow_version, definition_hash, client_id, retry_of,
                  started_by, nodes, idempotency_key, fingerprint, created_at, began_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
