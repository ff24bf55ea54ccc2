-- Workflows that the clock starts. Moments are milliseconds since 1970, by the wall clock.
CREATE TABLE schedules (
    shard        INTEGER NOT NULL,
    id           TEXT NOT NULL,
    name         TEXT,
    workflow_id  TEXT NOT NULL,
    -- NULL is the newest.
    version      INTEGER,
    cron         TEXT NOT NULL,
    timezone     TEXT NOT NULL,
    inputs       TEXT NOT NULL,
    overlap      TEXT NOT NULL CHECK (overlap IN ('skip', 'queue', 'allow', 'cancel')),
    paused       INTEGER NOT NULL CHECK (paused IN (0, 1)),
    created_at   INTEGER NOT NULL,
    created_by   TEXT NOT NULL,
    -- Every moment up to this one is dealt with.
    handled_at   INTEGER NOT NULL,
    -- JSON lists of moments whose runs start when the run before has ended: the clock's, and those
    -- of the past that people asked for.
    waiting      TEXT NOT NULL CHECK (json_valid(waiting)),
    backfill     TEXT NOT NULL CHECK (json_valid(backfill)),
    newest_run   INTEGER,
    -- What came of the last moment: a run, or why there is none.
    last_due     INTEGER,
    last_run     INTEGER,
    last_problem TEXT,
    PRIMARY KEY (shard, id),
    CHECK ((last_due IS NULL) = (last_run IS NULL AND last_problem IS NULL)),
    CHECK (last_run IS NULL OR last_problem IS NULL)
) STRICT, WITHOUT ROWID;

-- A tenant that never submitted anything may have notes and no shard.
INSERT INTO shards (id, tenant, epoch)
SELECT abs(random()) % 8388608, tenant, 1
  FROM (SELECT DISTINCT tenant FROM notes WHERE kind = 'schedule')
 WHERE tenant NOT IN (SELECT tenant FROM shards);

-- Schedules were notes before. `starting_ms` was a moment whose run may have been started: it waits,
-- and its key finds the run if there is one. A note that cannot be read starts nothing, and stays.
INSERT INTO schedules
SELECT shards.id,
       notes.key,
       json ->> '$.name',
       json ->> '$.workflow_id',
       json ->> '$.version',
       json ->> '$.cron',
       json ->> '$.timezone',
       json -> '$.inputs',
       json ->> '$.overlap',
       json ->> '$.paused',
       json ->> '$.created_ms',
       json ->> '$.created_by',
       max(json ->> '$.handled_ms', coalesce(json ->> '$.starting_ms', 0)),
       (SELECT json_group_array(value)
          FROM (SELECT value FROM json_each(notes.json, '$.waiting_ms')
                UNION
                SELECT notes.json ->> '$.starting_ms'
                 WHERE json_type(notes.json, '$.starting_ms') = 'integer'
                   AND json_type(notes.json, '$.paused') = 'false'
                ORDER BY 1)),
       (SELECT json_group_array(value) FROM json_each(notes.json, '$.backfill_ms')),
       json ->> '$.newest_run',
       json ->> '$.last.due_ms',
       json ->> '$.last.run',
       CASE WHEN json_type(json, '$.last.due_ms') = 'integer'
             AND json_type(json, '$.last.run') IS NOT 'integer'
            THEN coalesce(json ->> '$.last.problem', '') END
  FROM notes
  JOIN shards ON shards.tenant = notes.tenant
 WHERE notes.kind = 'schedule'
   AND notes.key GLOB '????????-????-????-????-????????????'
   AND notes.key NOT GLOB '*[^0-9a-f-]*'
   AND json_type(json, '$.workflow_id') = 'text'
   AND json_type(json, '$.cron') = 'text'
   AND json_type(json, '$.timezone') = 'text'
   AND json_type(json, '$.inputs') = 'object'
   AND json ->> '$.overlap' IN ('skip', 'queue', 'allow', 'cancel')
   AND json_type(json, '$.paused') IN ('true', 'false')
   AND json_type(json, '$.created_ms') = 'integer'
   AND json_type(json, '$.created_by') = 'text'
   AND json_type(json, '$.handled_ms') = 'integer';

DELETE FROM notes
 WHERE kind = 'schedule'
   AND EXISTS (SELECT 1 FROM schedules JOIN shards ON shards.id = schedules.shard
                WHERE shards.tenant = notes.tenant AND schedules.id = notes.key);
