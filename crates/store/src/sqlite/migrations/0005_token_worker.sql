-- The one worker that a token speaks for; NULL for the many that speak for any.
ALTER TABLE tokens ADD COLUMN worker TEXT CHECK (worker IS NULL OR role = 'worker');
