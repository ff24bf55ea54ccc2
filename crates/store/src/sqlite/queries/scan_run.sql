SELECT id, state, type, queue
  FROM tasks INDEXED BY tasks_run
 WHERE run = ?4 AND id BETWEEN ?1 AND ?2
 ORDER BY id DESC
 LIMIT ?3
