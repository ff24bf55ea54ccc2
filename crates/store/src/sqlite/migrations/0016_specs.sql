-- What tasks of one kind have in common: JSON that states every value, also where it is the default,
-- so that it means the same when a default of a later version is another one. All tasks that ask for
-- the same share a row, and no row ever changes.
CREATE TABLE task_specs (
    id   INTEGER PRIMARY KEY,
    json TEXT NOT NULL UNIQUE
) STRICT;

-- Before, a task's row told what differed from the defaults, which were these. JSON that cannot be
-- read stays as it is, here and below.
CREATE TABLE old_specs (type, queue, priority, spec, json, UNIQUE (type, queue, priority, spec));
INSERT INTO old_specs
SELECT type, queue, priority, spec,
       CASE json_valid(coalesce(spec, '{}')) WHEN 1 THEN json_object(
           'demand', json_object(
               'queue', queue,
               'task_type', type,
               'tools', json(coalesce(spec -> '$.tools', '[]')),
               'tags', json(coalesce(spec -> '$.tags', '{}')),
               'package', json(spec -> '$.package')),
           'priority', priority,
           'lease_ttl_ms', coalesce(spec ->> '$.lease_ttl_ms', 30000),
           'timeout_ms', spec ->> '$.timeout_ms',
           'retry', json_object(
               'max_attempts', coalesce(spec ->> '$.retry.max_attempts', 3),
               'backoff_ms', coalesce(spec ->> '$.retry.backoff_ms', 1000),
               'backoff_max_ms', coalesce(spec ->> '$.retry.backoff_max_ms', 60000)))
       ELSE spec END
  FROM (SELECT DISTINCT type, queue, priority, spec FROM tasks);
INSERT INTO task_specs (json) SELECT DISTINCT json FROM old_specs;

-- The table is made anew, because a column that is added can have no NOT NULL.
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
    -- JSON that never changes: the ids of the tasks before this one, the part of a run that it
    -- executes, the worker that it belongs to. NULL for the many tasks that have none.
    after_tasks     TEXT,
    link            TEXT,
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
    CHECK (result IS NULL OR state = 'COMPLETED')
) STRICT;

INSERT INTO new_tasks
SELECT id, type, queue, priority,
       (SELECT task_specs.id
          FROM old_specs
          JOIN task_specs ON task_specs.json = old_specs.json
         WHERE old_specs.type = tasks.type AND old_specs.queue = tasks.queue
           AND old_specs.priority = tasks.priority AND old_specs.spec IS tasks.spec),
       concurrency_key, idempotency_key, created_at, state, wait_until, wait_for, attempt, epoch,
       losses, holder, granted_at, expires_at, attempt_ends_at, settled_at, held_since, report_key,
       failure_code, failure_reason, run, run_begun, run_granted, run_settled, after_tasks,
       CASE json_valid(link) WHEN 1 THEN json_object(
           'run', link -> '$.run',
           'frame', coalesce(link ->> '$.frame', 0),
           'node', link -> '$.node',
           'item', link -> '$.item',
           'level', coalesce(link ->> '$.level', 0),
           'step_id', link -> '$.step_id',
           'call', CASE json_type(link, '$.call') WHEN 'object' THEN json_object(
               'caller', json_object('task', link -> '$.call.task', 'epoch', link -> '$.call.epoch'),
               'request', link -> '$.call.request') END)
       ELSE link END,
       CASE json_valid(pin) WHEN 1 THEN
           CASE json_type(pin, '$.key') WHEN 'text' THEN json_object('key', json_object(
               'key', pin -> '$.key',
               'is_hard', pin -> '$.hard',
               'ttl_ms', pin -> '$.ttl_ms'))
           ELSE json_object('worker', json_object(
               'worker', pin -> '$.worker',
               'is_hard', pin -> '$.hard',
               'wait_max_ms', pin -> '$.wait_max_ms',
               'because', pin -> '$.because')) END
       ELSE pin END,
       skipped, artifacts, failure_details, result
  FROM tasks;

DROP TABLE old_specs;
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
       tasks.link ->> '$.run' & 1099511627775 AS run_number,
       tasks.link ->> '$.step_id' AS node
  FROM tasks
  LEFT JOIN shards ON shards.id = tasks.id >> 40;

UPDATE run_bindings
   SET document = json_object(
           'bound', json((SELECT json_group_array(json_object(
                                     'package', value -> '$.package',
                                     'worker', value -> '$.worker',
                                     'since', value -> '$.since',
                                     'moved_from', value -> '$.moved_from'))
                            FROM json_each(document, '$.bound'))),
           'kept_from', json(coalesce(document -> '$.kept_from', '[]')),
           'fact', document -> '$.fact')
 WHERE json_valid(document);
