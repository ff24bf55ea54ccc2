SELECT v.id, v.name, v.version, v.hash, v.author, v.comment, v.saved_at, w.deleted_at
  FROM workflows AS w
  JOIN workflow_versions AS v ON v.tenant = w.tenant AND v.id = w.id
 WHERE w.tenant = ?1 AND w.id = ?2
 ORDER BY v.version DESC
