-- Only a live run's nodes come to an end.
INSERT INTO run_nodes (outcome, ended_at, reused, failure_code, failure_reason, failure_details,
                       result, run_id, frame, node, fact)
SELECT ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?1, ?2, ?11, ?10
 WHERE EXISTS (SELECT 1 FROM runs WHERE id = ?1 AND outcome IS NULL)
