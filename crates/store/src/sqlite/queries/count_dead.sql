SELECT queue, count(*)
  FROM tasks INDEXED BY tasks_failed
 WHERE state IN ('DEAD', 'FAILED') AND state = 'DEAD' AND id BETWEEN ?1 AND ?2
 GROUP BY queue
 ORDER BY queue
