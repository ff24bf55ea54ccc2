-- The tasks that were asked for together.
ALTER TABLE tasks ADD COLUMN run TEXT;
CREATE INDEX tasks_run ON tasks (run, id) WHERE run IS NOT NULL;

-- Small things that a server remembers beside the tasks: the sessions of its workers, the keys
-- that sign their tokens, workers that people drained. One JSON document each.
CREATE TABLE notes (
    kind   TEXT NOT NULL,
    tenant TEXT NOT NULL,
    key    TEXT NOT NULL,
    json   TEXT NOT NULL CHECK (json_valid(json)),
    PRIMARY KEY (kind, tenant, key)
) STRICT, WITHOUT ROWID;
