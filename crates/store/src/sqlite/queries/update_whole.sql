-- The task settles, or leaves its settled state by a requeue.
UPDATE tasks
   SET state = ?1, wait_until = ?2, attempt = ?3, epoch = ?4, losses = ?5, holder = ?6,
       granted_at = ?7, expires_at = ?8, attempt_ends_at = ?9, wait_for = ?10, settled_at = ?11,
       report_key = ?12, failure_code = ?13, failure_reason = ?14, failure_details = ?15,
       result = ?16, skipped = ?17, artifacts = ?18, held_since = ?19,
       run_granted = coalesce(?22, run_granted), run_settled = ?23
 WHERE id = ?20 AND (settled_at IS NOT NULL) = ?21 AND epoch <= ?4
