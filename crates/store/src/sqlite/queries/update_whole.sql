-- The task settles, or leaves its settled state by a requeue.
UPDATE tasks
   SET state = ?1, wait_until = ?2, attempt = ?3, epoch = ?4, losses = ?5, holder = ?6,
       granted_at = ?7, expires_at = ?8, attempt_ends_at = ?9, settled_at = ?10, report_key = ?11,
       failure_code = ?12, failure_reason = ?13, failure_details = ?14, result = ?15
 WHERE id = ?16 AND (settled_at IS NOT NULL) = ?17 AND epoch <= ?4
