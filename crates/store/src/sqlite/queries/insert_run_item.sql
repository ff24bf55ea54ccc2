-- Only a live run's elements come to an end.
INSERT INTO run_items (outcome, ended_at, reused, failure_code, failure_reason, failure_details,
                       result, fact, run_id, frame, node, item)
SELECT ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?1, ?2, ?11, ?12
 WHERE EXISTS (SELECT 1 FROM runs WHERE id = ?1 AND outcome IS NULL)
