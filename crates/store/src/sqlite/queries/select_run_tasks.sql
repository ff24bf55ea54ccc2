-- The same columns as in select_task.sql, all tasks that a run made or only the settled ones. The
-- index is named, so that the tasks of other runs are never read by a planner's mistake.
SELECT t.id, t.spec_id, t.concurrency_key, t.idempotency_key, t.created_at,
       t.state, t.wait_until, t.attempt, t.epoch, t.losses, t.holder, t.granted_at,
       t.expires_at, t.attempt_ends_at, t.settled_at, t.report_key, t.failure_code,
       t.failure_reason, t.failure_details, t.result, p.json, i.fingerprint, t.run,
       t.after_tasks, t.link, t.pin, t.wait_for, t.skipped, t.artifacts, t.held_since,
       t.run_begun, t.run_granted, t.run_settled
  FROM tasks AS t INDEXED BY tasks_run
  LEFT JOIN parameters AS p ON p.task_id = t.id
  LEFT JOIN idempotency AS i ON i.shard = t.id >> 40 AND i.key = t.idempotency_key
 WHERE t.run = ?1 AND t.id BETWEEN ?2 AND ?3
   AND t.link IS NOT NULL AND (NOT ?4 OR t.settled_at IS NOT NULL)
 ORDER BY t.id
