-- A deleted workflow comes back with its next version.
INSERT INTO workflows (tenant, id, newest)
VALUES (?1, ?2, ?3)
    ON CONFLICT (tenant, id) DO UPDATE SET newest = excluded.newest, deleted_at = NULL
