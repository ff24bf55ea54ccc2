-- When the first node of a run began; NULL until then.
ALTER TABLE runs ADD COLUMN began_at INTEGER;
