SELECT id, state, type, queue
  FROM tasks
 WHERE id BETWEEN ?1 AND ?2
 ORDER BY id DESC
 LIMIT ?3
