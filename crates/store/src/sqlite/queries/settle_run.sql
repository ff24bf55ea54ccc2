UPDATE runs
   SET outcome = ?2, ended_at = ?3, failed_node = ?4, failure_code = ?5, failure_reason = ?6,
       failure_details = ?7, outputs = ?8
 WHERE id = ?1 AND outcome IS NULL
