SELECT t.holder, p.json
  FROM tasks AS t
  LEFT JOIN parameters AS p ON p.task_id = t.id
 WHERE t.id = ?1
