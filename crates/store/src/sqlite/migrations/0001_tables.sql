-- One row per tenant. The epoch fences coordinators: a commit names it and fails when it moved.
CREATE TABLE shards (
    id     INTEGER PRIMARY KEY CHECK (id BETWEEN 0 AND 8388607),
    tenant TEXT NOT NULL UNIQUE,
    epoch  INTEGER NOT NULL CHECK (epoch >= 1)
) STRICT;

-- One row per task, live or settled. The id is the shard in the upper bits and a counter in the
-- lower 40, so rows lie in the order of submission. Moments are milliseconds since 1970.
CREATE TABLE tasks (
    id              INTEGER PRIMARY KEY,
    type            TEXT NOT NULL,
    queue           TEXT NOT NULL,
    priority        INTEGER NOT NULL,
    -- JSON: what differs from the default of lease_ttl_ms, timeout_ms, retry, tools, tags, package.
    spec            TEXT,
    concurrency_key TEXT,
    idempotency_key TEXT,
    created_at      INTEGER NOT NULL,
    state           TEXT NOT NULL,
    wait_until      INTEGER,
    attempt         INTEGER NOT NULL,
    epoch           INTEGER NOT NULL,
    losses          INTEGER NOT NULL,
    holder          TEXT,
    granted_at      INTEGER,
    expires_at      INTEGER,
    attempt_ends_at INTEGER,
    settled_at      INTEGER,
    report_key      BLOB,
    failure_code    TEXT,
    failure_reason  TEXT,
    -- The last column, because it may be long.
    result          TEXT,
    -- Chains of OR: for `IN` with three or more words SQLite builds a table anew with each row,
    -- which costs more than all the rest of the write.
    CHECK (state = 'WAITING' OR state = 'QUEUED' OR state = 'RETRYING' OR state = 'RUNNING'
        OR state = 'COMPLETED' OR state = 'FAILED' OR state = 'DEAD' OR state = 'STOPPED'),
    CHECK ((state = 'WAITING' OR state = 'RETRYING') = (wait_until IS NOT NULL)),
    CHECK ((state = 'RUNNING') = (granted_at IS NOT NULL)),
    CHECK ((granted_at IS NOT NULL) = (expires_at IS NOT NULL)),
    CHECK (granted_at IS NULL OR holder IS NOT NULL),
    CHECK ((state = 'COMPLETED' OR state = 'FAILED' OR state = 'DEAD' OR state = 'STOPPED')
        = (settled_at IS NOT NULL)),
    CHECK (attempt >= 0 AND epoch >= attempt AND losses >= 0),
    CHECK (report_key IS NULL OR (settled_at IS NOT NULL AND length(report_key) = 16)),
    CHECK ((failure_code IS NULL) = (failure_reason IS NULL)),
    CHECK (result IS NULL OR state = 'COMPLETED')
) STRICT;

-- Finds what a restart needs without reading settled history. A lease touches neither index,
-- because its update sets neither `settled_at` nor a state that one of them names.
CREATE INDEX tasks_live ON tasks (id) WHERE settled_at IS NULL;

-- Finds what people look for.
CREATE INDEX tasks_failed ON tasks (id, state, queue, type) WHERE state IN ('DEAD', 'FAILED');

-- The parameters of tasks whose parameters are not `{}`. They never change, so they stand apart
-- from the rows that do.
CREATE TABLE parameters (
    task_id INTEGER PRIMARY KEY,
    json    TEXT NOT NULL
) STRICT;

-- Attempts that did not settle their task, or that were lost when it settled.
CREATE TABLE ended_attempts (
    task_id        INTEGER NOT NULL,
    epoch          INTEGER NOT NULL,
    worker         TEXT NOT NULL,
    at             INTEGER NOT NULL,
    ending         TEXT NOT NULL
        CHECK (ending = 'FAILED' OR ending = 'EXPIRED' OR ending = 'TIMED_OUT'
            OR ending = 'UNDELIVERED' OR ending = 'STOPPED'),
    report_key     BLOB,
    failure_code   TEXT,
    failure_reason TEXT,
    PRIMARY KEY (task_id, epoch),
    CHECK ((ending = 'FAILED') = (report_key IS NOT NULL)),
    CHECK ((ending = 'FAILED') = (failure_code IS NOT NULL)),
    CHECK ((ending = 'FAILED') = (failure_reason IS NOT NULL))
) STRICT, WITHOUT ROWID;

-- Recognises a repeated submit. The fingerprint is a digest of what was asked.
CREATE TABLE idempotency (
    shard       INTEGER NOT NULL,
    key         TEXT NOT NULL,
    task_id     INTEGER NOT NULL,
    fingerprint INTEGER NOT NULL,
    PRIMARY KEY (shard, key)
) STRICT, WITHOUT ROWID;

-- Secrets are kept as SHA-256 digests alone.
CREATE TABLE tokens (
    token_id   TEXT PRIMARY KEY,
    tenant     TEXT NOT NULL,
    role       TEXT NOT NULL,
    digest     BLOB NOT NULL CHECK (length(digest) = 32),
    name       TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;

-- One row that is rewritten to find out whether the disk takes writes.
CREATE TABLE probe (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    written INTEGER NOT NULL
) STRICT;
INSERT INTO probe (id, written) VALUES (1, 0);

-- For people: tenants by name, moments in words, without the long columns.
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
       tasks.failure_reason
  FROM tasks
  LEFT JOIN shards ON shards.id = tasks.id >> 40;
