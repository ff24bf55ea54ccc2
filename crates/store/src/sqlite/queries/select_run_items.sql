SELECT frame, node, item,
       outcome, ended_at, reused, failure_code, failure_reason, failure_details, result, fact
  FROM run_items
 WHERE run_id = ?1
 ORDER BY frame, node, item
