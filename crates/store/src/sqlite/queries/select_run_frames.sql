SELECT number, graph, parent, node, item, caller_task, caller_epoch, request, opened_at, inputs,
       outcome, ended_at, reused, failure_code, failure_reason, failure_details, result,
       closed_fact, opened_fact
  FROM run_frames
 WHERE run_id = ?1
 ORDER BY number
