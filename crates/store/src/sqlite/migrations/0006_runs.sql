-- What ties a task to its run: JSON. `run` is the id of a row of `runs`, `frame`, `node`, `item`
-- and `level` say which part of it, `step_id` is the author's id, `call` the middleware's call that
-- it answers. NULL for the many tasks that no run made. It never changes.
ALTER TABLE tasks ADD COLUMN link TEXT;

-- The worker that a task belongs to: JSON. It never changes.
ALTER TABLE tasks ADD COLUMN pin TEXT;

-- What a waiting task waits for, where `after_tasks` and its state do not tell.
ALTER TABLE tasks ADD COLUMN wait_for TEXT
    CHECK (wait_for IS NULL
        OR (state = 'WAITING' AND (wait_for = 'DELAY' OR wait_for = 'SIGNAL')));

-- What only few results have: whether there was nothing to do, and a JSON array of what the work
-- left behind.
ALTER TABLE tasks ADD COLUMN skipped INTEGER
    CHECK (skipped IS NULL OR (settled_at IS NOT NULL AND (skipped = 0 OR skipped = 1)));
ALTER TABLE tasks ADD COLUMN artifacts TEXT CHECK (artifacts IS NULL OR skipped IS NOT NULL);

-- One row per run, live or ended. The id is made as a task's is.
CREATE TABLE runs (
    id               INTEGER PRIMARY KEY,
    name             TEXT NOT NULL,
    workflow_id      TEXT NOT NULL,
    workflow_version INTEGER,
    definition_hash  TEXT NOT NULL,
    client_id        TEXT,
    retry_of         INTEGER,
    started_by       TEXT NOT NULL,
    nodes            INTEGER NOT NULL,
    idempotency_key  TEXT,
    fingerprint      INTEGER,
    created_at       INTEGER NOT NULL,
    -- NULL while the run is live.
    outcome          TEXT,
    ended_at         INTEGER,
    failed_node      TEXT,
    failure_code     TEXT,
    failure_reason   TEXT,
    -- The last columns, because they may be long.
    failure_details  TEXT,
    outputs          TEXT,
    -- Chains of OR, as in `tasks`.
    CHECK (outcome IS NULL
        OR outcome = 'SUCCEEDED' OR outcome = 'FAILED' OR outcome = 'CANCELLED'),
    CHECK ((outcome IS NULL) = (ended_at IS NULL)),
    CHECK (outcome IS NOT NULL OR (failed_node IS NULL AND failure_code IS NULL
        AND outputs IS NULL)),
    CHECK ((failure_code IS NULL) = (failure_reason IS NULL)),
    CHECK (failure_details IS NULL OR failure_code IS NOT NULL),
    CHECK ((idempotency_key IS NULL) = (fingerprint IS NULL))
) STRICT;

-- Recognises a repeated start: a key belongs to one run of its shard.
CREATE UNIQUE INDEX runs_key ON runs (id >> 40, idempotency_key)
 WHERE idempotency_key IS NOT NULL;

-- Finds what a restart needs without reading ended runs.
CREATE INDEX runs_live ON runs (id) WHERE outcome IS NULL;

-- Find what people look for.
CREATE INDEX runs_workflow ON runs (workflow_id, id);
CREATE INDEX runs_client ON runs (client_id, id) WHERE client_id IS NOT NULL;

-- What a run was made of, byte for byte. It never changes, so it stands apart from the rows that do.
CREATE TABLE run_definitions (
    run_id     INTEGER PRIMARY KEY,
    inputs     TEXT NOT NULL,
    definition TEXT NOT NULL
) STRICT;

-- The subgraphs that a run entered, from 1; 0 is the workflow itself and has no row. Those that a
-- middleware called for get an end of their own.
CREATE TABLE run_frames (
    run_id          INTEGER NOT NULL,
    number          INTEGER NOT NULL,
    graph           INTEGER NOT NULL,
    parent          INTEGER NOT NULL,
    node            INTEGER NOT NULL,
    item            INTEGER,
    caller_task     INTEGER,
    caller_epoch    INTEGER,
    request         TEXT,
    opened_at       INTEGER NOT NULL,
    outcome         TEXT,
    ended_at        INTEGER,
    reused          INTEGER,
    failure_code    TEXT,
    failure_reason  TEXT,
    failure_details TEXT,
    inputs          TEXT NOT NULL,
    result          TEXT,
    PRIMARY KEY (run_id, number),
    CHECK ((caller_task IS NULL) = (caller_epoch IS NULL)),
    CHECK ((caller_task IS NULL) = (request IS NULL)),
    CHECK (outcome IS NULL OR outcome = 'SUCCEEDED' OR outcome = 'FAILED' OR outcome = 'SKIPPED'
        OR outcome = 'BLOCKED' OR outcome = 'CANCELLED'),
    CHECK ((outcome IS NULL) = (ended_at IS NULL)),
    CHECK ((failure_code IS NULL) = (failure_reason IS NULL))
) STRICT, WITHOUT ROWID;

-- The ends of nodes that no single task tells. `reused` is the task of an earlier run that gave
-- the result.
CREATE TABLE run_nodes (
    run_id          INTEGER NOT NULL,
    frame           INTEGER NOT NULL,
    node            INTEGER NOT NULL,
    outcome         TEXT NOT NULL,
    ended_at        INTEGER NOT NULL,
    reused          INTEGER,
    failure_code    TEXT,
    failure_reason  TEXT,
    failure_details TEXT,
    result          TEXT,
    PRIMARY KEY (run_id, frame, node),
    CHECK (outcome = 'SUCCEEDED' OR outcome = 'FAILED' OR outcome = 'SKIPPED'
        OR outcome = 'BLOCKED' OR outcome = 'CANCELLED'),
    CHECK ((failure_code IS NULL) = (failure_reason IS NULL))
) STRICT, WITHOUT ROWID;

-- One row per workflow that someone saved. A deleted one is hidden; its versions stay.
CREATE TABLE workflows (
    tenant     TEXT NOT NULL,
    id         TEXT NOT NULL,
    newest     INTEGER NOT NULL CHECK (newest >= 1),
    deleted_at INTEGER,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

-- Every version of them, as authored. No row ever changes.
CREATE TABLE workflow_versions (
    tenant     TEXT NOT NULL,
    id         TEXT NOT NULL,
    version    INTEGER NOT NULL CHECK (version >= 1),
    name       TEXT NOT NULL,
    hash       TEXT NOT NULL,
    author     TEXT NOT NULL,
    comment    TEXT,
    saved_at   INTEGER NOT NULL,
    -- The last column, because it may be long.
    definition TEXT NOT NULL,
    PRIMARY KEY (tenant, id, version)
) STRICT, WITHOUT ROWID;

-- For people: tenants by name, moments in words, without the long columns.
CREATE VIEW run_overview AS
SELECT runs.id,
       shards.tenant,
       runs.id & 1099511627775 AS number,
       runs.name,
       runs.workflow_id,
       runs.workflow_version,
       coalesce(runs.outcome, 'LIVE') AS state,
       runs.nodes,
       runs.started_by,
       strftime('%Y-%m-%dT%H:%M:%fZ', runs.created_at / 1000.0, 'unixepoch') AS created,
       strftime('%Y-%m-%dT%H:%M:%fZ', runs.ended_at / 1000.0, 'unixepoch') AS ended,
       runs.failed_node,
       runs.failure_code,
       runs.failure_reason
  FROM runs
  LEFT JOIN shards ON shards.id = runs.id >> 40;

-- The same as before, with the run and the author's id of the node.
DROP VIEW task_overview;
CREATE VIEW task_overview AS
SELECT tasks.id,
       shards.tenant,
       tasks.type,
       tasks.queue,
       tasks.state,
       tasks.priority,
       tasks.attempt,
       tasks.holder,
       strftime('%Y-%m-%dT%H:%M:%fZ', tasks.created_at / 1000.0, 'unixepoch') AS created,
       strftime('%Y-%m-%dT%H:%M:%fZ', tasks.wait_until / 1000.0, 'unixepoch') AS waits_until,
       strftime('%Y-%m-%dT%H:%M:%fZ', tasks.granted_at / 1000.0, 'unixepoch') AS granted,
       strftime('%Y-%m-%dT%H:%M:%fZ', tasks.settled_at / 1000.0, 'unixepoch') AS settled,
       tasks.failure_code,
       tasks.failure_reason,
       tasks.run,
       tasks.link ->> '$.run' & 1099511627775 AS run_number,
       tasks.link ->> '$.step_id' AS node
  FROM tasks
  LEFT JOIN shards ON shards.id = tasks.id >> 40;
