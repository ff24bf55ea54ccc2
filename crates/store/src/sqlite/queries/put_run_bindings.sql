-- Only a live run is bound.
INSERT INTO run_bindings (run_id, document)
SELECT ?1, ?2
 WHERE EXISTS (SELECT 1 FROM runs WHERE id = ?1 AND outcome IS NULL)
    ON CONFLICT (run_id) DO UPDATE SET document = excluded.document
