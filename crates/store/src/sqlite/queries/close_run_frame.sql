UPDATE run_frames
   SET outcome = ?3, ended_at = ?4, reused = ?5, failure_code = ?6, failure_reason = ?7,
       failure_details = ?8, result = ?9, closed_fact = ?10
 WHERE run_id = ?1 AND number = ?2 AND outcome IS NULL
   AND EXISTS (SELECT 1 FROM runs WHERE id = ?1 AND outcome IS NULL)
