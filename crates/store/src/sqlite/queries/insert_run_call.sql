-- Only a live run's calls come to an end.
INSERT INTO run_calls (run_id, caller_task, caller_epoch, request, ended_at, failure_code,
                       failure_reason, failure_details, fact)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9
 WHERE EXISTS (SELECT 1 FROM runs WHERE id = ?1 AND outcome IS NULL)
