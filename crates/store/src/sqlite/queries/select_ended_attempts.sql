SELECT epoch, worker, at, ending, report_key, failure_code, failure_reason, failure_details
  FROM ended_attempts
 WHERE task_id = ?1
 ORDER BY epoch
