-- The newest version, unless a number says which.
SELECT v.id, v.name, v.version, v.hash, v.author, v.comment, v.saved_at, w.deleted_at,
       v.definition
  FROM workflows AS w
  JOIN workflow_versions AS v
    ON v.tenant = w.tenant AND v.id = w.id AND v.version = coalesce(?3, w.newest)
 WHERE w.tenant = ?1 AND w.id = ?2
