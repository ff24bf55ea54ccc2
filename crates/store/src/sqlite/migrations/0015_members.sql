-- Registrations of workers without a session are written in the turns of their tenant, under its
-- claim. They were notes before.

-- A tenant that never submitted anything may have notes and no shard.
INSERT INTO shards (id, tenant, epoch)
SELECT abs(random()) % 8388608, tenant, 1
  FROM (SELECT DISTINCT tenant FROM notes WHERE kind = 'member')
 WHERE tenant NOT IN (SELECT tenant FROM shards);

INSERT INTO documents (shard, kind, key, json)
SELECT shards.id, notes.kind, notes.key, notes.json
  FROM notes
  JOIN shards ON shards.tenant = notes.tenant
 WHERE notes.kind = 'member';

DELETE FROM notes WHERE kind = 'member';
