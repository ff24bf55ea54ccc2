-- What a failed attempt leaves behind: JSON.
ALTER TABLE tasks ADD COLUMN failure_details TEXT;
ALTER TABLE ended_attempts ADD COLUMN failure_details TEXT;

-- The tasks that must complete before this one may start: a JSON array of their ids. NULL for the
-- many that wait for none. It never changes.
ALTER TABLE tasks ADD COLUMN after_tasks TEXT;
