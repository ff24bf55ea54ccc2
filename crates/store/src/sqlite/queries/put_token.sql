INSERT INTO tokens (token_id, tenant, role, digest, name, created_at, expires_at, revoked_at,
                    worker)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
    ON CONFLICT (token_id) DO UPDATE
   SET tenant = excluded.tenant, role = excluded.role, digest = excluded.digest,
       name = excluded.name, created_at = excluded.created_at, expires_at = excluded.expires_at,
       revoked_at = excluded.revoked_at, worker = excluded.worker
