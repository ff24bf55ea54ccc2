SELECT caller_task, caller_epoch, request, ended_at, failure_code, failure_reason,
       failure_details, fact
  FROM run_calls
 WHERE run_id = ?1
 ORDER BY caller_task, caller_epoch, request
