-- Only a live run's lists begin.
INSERT INTO run_lists (run_id, frame, node, length, fact)
SELECT ?1, ?2, ?3, ?4, ?5
 WHERE EXISTS (SELECT 1 FROM runs WHERE id = ?1 AND outcome IS NULL)
