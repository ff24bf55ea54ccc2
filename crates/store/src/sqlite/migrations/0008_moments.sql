-- When the last holder of a settled task got it; `granted_at` is about leases that go on.
ALTER TABLE tasks ADD COLUMN held_since INTEGER
    CHECK (held_since IS NULL OR settled_at IS NOT NULL);

-- The same as before, with the moment of the last grant also of settled tasks.
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
