SELECT t.id, t.spec_id, t.concurrency_key, t.idempotency_key, t.created_at,
       t.state, t.wait_until, t.attempt, t.epoch, t.losses, t.holder, t.granted_at,
       t.expires_at, t.attempt_ends_at, t.settled_at, t.report_key, t.failure_code,
       t.failure_reason, iif(octet_length(t.failure_details) <= ?2, t.failure_details, NULL),
       iif(octet_length(t.result) <= ?2, t.result, NULL),
       iif(octet_length(p.json) <= ?2, p.json, NULL), i.fingerprint, t.run,
       t.after_tasks, t.link, t.pin, t.wait_for, t.skipped, t.artifacts, t.held_since,
       t.run_begun, t.run_granted, t.run_settled,
       octet_length(p.json) > ?2 AS has_long_parameters
  FROM tasks AS t
  LEFT JOIN parameters AS p ON p.task_id = t.id
  LEFT JOIN idempotency AS i ON i.shard = t.id >> 40 AND i.key = t.idempotency_key
 WHERE t.id = ?1
