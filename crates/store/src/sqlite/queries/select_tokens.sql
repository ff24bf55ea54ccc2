SELECT token_id, tenant, role, digest, name, created_at, expires_at, revoked_at, worker
  FROM tokens
 ORDER BY created_at, token_id
