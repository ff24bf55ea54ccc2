-- Only a live run enters a subgraph.
INSERT INTO run_frames (run_id, number, graph, parent, node, item, caller_task, caller_epoch,
                        request, opened_at, inputs, opened_fact)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12
 WHERE EXISTS (SELECT 1 FROM runs WHERE id = ?1 AND outcome IS NULL)
