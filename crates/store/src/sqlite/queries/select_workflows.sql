SELECT v.id, v.name, v.version, v.hash, v.author, v.comment, v.saved_at, w.deleted_at
  FROM workflows AS w
  JOIN workflow_versions AS v
    ON v.tenant = w.tenant AND v.id = w.id AND v.version = w.newest
 WHERE w.tenant = ?1 AND w.id >= coalesce(?2, '') AND w.id IS NOT ?2 AND w.deleted_at IS NULL
 ORDER BY w.id
 LIMIT ?3
