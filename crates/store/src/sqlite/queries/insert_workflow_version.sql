INSERT INTO workflow_versions (tenant, id, version, name, hash, author, comment, saved_at,
                               definition)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
