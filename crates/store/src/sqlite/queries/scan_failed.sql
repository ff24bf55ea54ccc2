SELECT id, state, type, queue
  FROM tasks INDEXED BY tasks_failed
 WHERE state IN ('DEAD', 'FAILED') AND id BETWEEN ?1 AND ?2
 ORDER BY id DESC
 LIMIT ?3
