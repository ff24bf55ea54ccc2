-- The task was live and stays so. The columns of a settlement are not named, so that the index of
-- live tasks is left alone.
UPDATE tasks
   SET state = ?1, wait_until = ?2, attempt = ?3, epoch = ?4, losses = ?5, holder = ?6,
       granted_at = ?7, expires_at = ?8, attempt_ends_at = ?9, wait_for = ?10,
       run_granted = coalesce(?12, run_granted)
 WHERE id = ?11 AND settled_at IS NULL AND epoch <= ?4
