SELECT id, state, type, queue
  FROM tasks INDEXED BY tasks_live
 WHERE settled_at IS NULL AND id BETWEEN ?1 AND ?2
 ORDER BY id DESC
 LIMIT ?3
