-- One counter per run numbers the facts that its state depends on, and a restart replays them in
-- that order. A run whose facts have no numbers is of an older version; the first restart sorts
-- and numbers them.
ALTER TABLE tasks ADD COLUMN run_begun INTEGER;
ALTER TABLE tasks ADD COLUMN run_granted INTEGER;
ALTER TABLE tasks ADD COLUMN run_settled INTEGER;
ALTER TABLE run_frames ADD COLUMN opened_fact INTEGER;
ALTER TABLE run_frames ADD COLUMN closed_fact INTEGER;
ALTER TABLE run_nodes ADD COLUMN fact INTEGER;

-- Nodes that are executed once per element, and how many elements they have.
CREATE TABLE run_lists (
    run_id INTEGER NOT NULL,
    frame  INTEGER NOT NULL,
    node   INTEGER NOT NULL,
    length INTEGER NOT NULL,
    fact   INTEGER NOT NULL,
    PRIMARY KEY (run_id, frame, node)
) STRICT, WITHOUT ROWID;

-- Elements that could not be begun. The others have a task or a subgraph.
CREATE TABLE run_items (
    run_id          INTEGER NOT NULL,
    frame           INTEGER NOT NULL,
    node            INTEGER NOT NULL,
    item            INTEGER NOT NULL,
    outcome         TEXT NOT NULL,
    ended_at        INTEGER NOT NULL,
    reused          INTEGER,
    failure_code    TEXT,
    failure_reason  TEXT,
    failure_details TEXT,
    result          TEXT,
    fact            INTEGER NOT NULL,
    PRIMARY KEY (run_id, frame, node, item)
) STRICT, WITHOUT ROWID;

-- Calls of `next` that ended before what they called for, or that could not begin anything: those
-- without a failure timed out. The others have a task or a subgraph.
CREATE TABLE run_calls (
    run_id          INTEGER NOT NULL,
    caller_task     INTEGER NOT NULL,
    caller_epoch    INTEGER NOT NULL,
    request         TEXT NOT NULL,
    ended_at        INTEGER NOT NULL,
    failure_code    TEXT,
    failure_reason  TEXT,
    failure_details TEXT,
    fact            INTEGER NOT NULL,
    PRIMARY KEY (run_id, caller_task, caller_epoch, request),
    CHECK ((failure_code IS NULL) = (failure_reason IS NULL))
) STRICT, WITHOUT ROWID;
