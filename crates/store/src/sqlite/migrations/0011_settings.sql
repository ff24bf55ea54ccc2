-- Queues that people paused. Moments are milliseconds since 1970.
CREATE TABLE pauses (
    shard     INTEGER NOT NULL,
    queue     TEXT NOT NULL,
    paused_by TEXT NOT NULL,
    paused_at INTEGER NOT NULL,
    PRIMARY KEY (shard, queue)
) STRICT, WITHOUT ROWID;

-- Workers that people drained. From `gone_by` on they are told to leave.
CREATE TABLE drains (
    shard      INTEGER NOT NULL,
    worker     TEXT NOT NULL,
    drained_by TEXT NOT NULL,
    drained_at INTEGER NOT NULL,
    gone_by    INTEGER,
    reason     TEXT,
    PRIMARY KEY (shard, worker)
) STRICT, WITHOUT ROWID;

-- Tools that workers were seen to have, with the first words of what they said.
CREATE TABLE verified_tools (
    shard       INTEGER NOT NULL,
    worker      TEXT NOT NULL,
    tool        TEXT NOT NULL,
    output      TEXT NOT NULL,
    verified_at INTEGER NOT NULL,
    PRIMARY KEY (shard, worker, tool)
) STRICT, WITHOUT ROWID;

-- A tenant that never submitted anything may have notes and no shard.
INSERT INTO shards (id, tenant, epoch)
SELECT abs(random()) % 8388608, tenant, 1
  FROM (SELECT DISTINCT tenant FROM notes WHERE kind IN ('pause', 'drain'))
 WHERE tenant NOT IN (SELECT tenant FROM shards);

-- Both were notes before. A note whose words cannot be read still holds: to grant what a person held
-- back is the worse mistake. A drain's note had no deadline and no name.
INSERT INTO pauses (shard, queue, paused_by, paused_at)
SELECT shards.id,
       notes.key,
       CASE json_type(notes.json, '$.by') WHEN 'text' THEN notes.json ->> '$.by' ELSE 'someone' END,
       CASE json_type(notes.json, '$.at') WHEN 'text'
           THEN coalesce(CAST(round(unixepoch(notes.json ->> '$.at', 'subsec') * 1000) AS INTEGER), 0)
           ELSE 0 END
  FROM notes
  JOIN shards ON shards.tenant = notes.tenant
 WHERE notes.kind = 'pause';

INSERT INTO drains (shard, worker, drained_by, drained_at, gone_by, reason)
SELECT shards.id,
       notes.key,
       'someone',
       CASE json_type(notes.json, '$.at') WHEN 'text'
           THEN coalesce(CAST(round(unixepoch(notes.json ->> '$.at', 'subsec') * 1000) AS INTEGER), 0)
           ELSE 0 END,
       NULL,
       CASE json_type(notes.json, '$.reason') WHEN 'text' THEN notes.json ->> '$.reason' END
  FROM notes
  JOIN shards ON shards.tenant = notes.tenant
 WHERE notes.kind = 'drain';

DELETE FROM notes WHERE kind IN ('pause', 'drain');
