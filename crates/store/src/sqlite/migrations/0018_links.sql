-- The part of a run that a task executes stands in columns instead of JSON: a third of the row was
-- that text, and each task of a run is written three times.
DROP VIEW task_overview;
CREATE TABLE new_tasks (
    id              INTEGER PRIMARY KEY,
    -- For lists, copied from the spec.
    type            TEXT NOT NULL,
    queue           TEXT NOT NULL,
    priority        INTEGER NOT NULL,
    -- A row of `task_specs`.
    spec_id         INTEGER NOT NULL,
    concurrency_key TEXT,
    idempotency_key TEXT,
    created_at      INTEGER NOT NULL,
    state           TEXT NOT NULL,
    wait_until      INTEGER,
    -- What a waiting task waits for, where `after_tasks` and its state do not tell.
    wait_for        TEXT,
    attempt         INTEGER NOT NULL,
    epoch           INTEGER NOT NULL,
    losses          INTEGER NOT NULL,
    holder          TEXT,
    granted_at      INTEGER,
    expires_at      INTEGER,
    attempt_ends_at INTEGER,
    settled_at      INTEGER,
    -- When the last holder of a settled task got it; `granted_at` is about leases that go on.
    held_since      INTEGER,
    report_key      BLOB,
    failure_code    TEXT,
    failure_reason  TEXT,
    -- The run that the task belongs to, and the numbers of its facts in it.
    run             TEXT,
    run_begun       INTEGER,
    run_granted     INTEGER,
    run_settled     INTEGER,
    -- The part of a run that the task executes: NULL for tasks that no run made. `run_call` is JSON;
    -- without a `run_id` it is the damaged text of an older version, which stays as it was.
    run_id          INTEGER,
    run_frame       INTEGER,
    run_node        INTEGER,
    run_item        INTEGER,
    run_level       INTEGER,
    run_step        BLOB,
    run_call        TEXT,
    -- JSON that never changes: the ids of the tasks before this one, and the worker that it belongs
    -- to. NULL for the many tasks that have none.
    after_tasks     TEXT,
    pin             TEXT,
    -- The last columns, because they may be long. `skipped` and `artifacts` are what only few
    -- results have.
    skipped         INTEGER,
    artifacts       TEXT,
    failure_details TEXT,
    result          TEXT,
    -- Chains of OR: for `IN` with three or more words SQLite builds a table anew with each row,
    -- which costs more than all the rest of the write.
    CHECK (state = 'WAITING' OR state = 'QUEUED' OR state = 'RETRYING' OR state = 'RUNNING'
        OR state = 'COMPLETED' OR state = 'FAILED' OR state = 'DEAD' OR state = 'STOPPED'),
    CHECK ((state = 'WAITING' OR state = 'RETRYING') = (wait_until IS NOT NULL)),
    CHECK (wait_for IS NULL
        OR (state = 'WAITING' AND (wait_for = 'DELAY' OR wait_for = 'SIGNAL'))),
    CHECK ((state = 'RUNNING') = (granted_at IS NOT NULL)),
    CHECK ((granted_at IS NOT NULL) = (expires_at IS NOT NULL)),
    CHECK (granted_at IS NULL OR holder IS NOT NULL),
    CHECK ((state = 'COMPLETED' OR state = 'FAILED' OR state = 'DEAD' OR state = 'STOPPED')
        = (settled_at IS NOT NULL)),
    CHECK (held_since IS NULL OR settled_at IS NOT NULL),
    CHECK (attempt >= 0 AND epoch >= attempt AND losses >= 0),
    CHECK (report_key IS NULL OR (settled_at IS NOT NULL AND length(report_key) = 16)),
    CHECK ((failure_code IS NULL) = (failure_reason IS NULL)),
    CHECK (skipped IS NULL OR (settled_at IS NOT NULL AND (skipped = 0 OR skipped = 1))),
    CHECK (artifacts IS NULL OR skipped IS NOT NULL),
    CHECK (result IS NULL OR state = 'COMPLETED'),
    CHECK ((run_id IS NULL) = (run_frame IS NULL) AND (run_id IS NULL) = (run_node IS NULL)
        AND (run_id IS NULL) = (run_level IS NULL) AND (run_id IS NULL) = (run_step IS NULL)),
    CHECK (run_id IS NOT NULL OR run_item IS NULL),
    CHECK (run_step IS NULL OR length(run_step) = 16)
) STRICT;

INSERT INTO new_tasks
SELECT id, type, queue, priority, spec_id, concurrency_key, idempotency_key, created_at, state,
       wait_until, wait_for, attempt, epoch, losses, holder, granted_at, expires_at,
       attempt_ends_at, settled_at, held_since, report_key, failure_code, failure_reason,
       run, run_begun, run_granted, run_settled,
       part ->> '$.run', part ->> '$.frame', part ->> '$.node', part ->> '$.item',
       part ->> '$.level', unhex(part ->> '$.step_id', '-'),
       iif(part IS NULL, link, nullif(part -> '$.call', 'null')),
       after_tasks, pin, skipped, artifacts, failure_details, result
  FROM (SELECT *, iif(json_valid(link), link, NULL) AS part FROM tasks);

DROP TABLE tasks;
ALTER TABLE new_tasks RENAME TO tasks;

-- As before: what a restart needs, what people look for, the tasks of a run. A lease touches none of
-- them, because its update sets neither `settled_at` nor a state that one of them names.
CREATE INDEX tasks_live ON tasks (id) WHERE settled_at IS NULL;
CREATE INDEX tasks_failed ON tasks (id, state, queue, type) WHERE state IN ('DEAD', 'FAILED');
CREATE INDEX tasks_run ON tasks (run, id) WHERE run IS NOT NULL;

-- As before.
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
       strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(tasks.granted_at, tasks.held_since) / 1000.0,
           'unixepoch') AS granted,
       strftime('%Y-%m-%dT%H:%M:%fZ', tasks.settled_at / 1000.0, 'unixepoch') AS settled,
       tasks.failure_code,
       tasks.failure_reason,
       tasks.run,
       tasks.run_id & 1099511627775 AS run_number,
       substr(lower(hex(run_step)), 1, 8) || '-' || substr(lower(hex(run_step)), 9, 4) || '-'
           || substr(lower(hex(run_step)), 13, 4) || '-' || substr(lower(hex(run_step)), 17, 4)
           || '-' || substr(lower(hex(run_step)), 21) AS node
  FROM tasks
  LEFT JOIN shards ON shards.id = tasks.id >> 40;
