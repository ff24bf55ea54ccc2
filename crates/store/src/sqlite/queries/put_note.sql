INSERT INTO notes (kind, tenant, key, json)
VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (kind, tenant, key) DO UPDATE SET json = excluded.json
