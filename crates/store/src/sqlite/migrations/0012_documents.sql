-- Small texts of a tenant that are written in its turns, under its claim.
CREATE TABLE documents (
    shard INTEGER NOT NULL,
    kind  TEXT NOT NULL,
    key   TEXT NOT NULL,
    json  TEXT NOT NULL CHECK (json_valid(json)),
    PRIMARY KEY (shard, kind, key)
) STRICT, WITHOUT ROWID;

-- A tenant that never submitted anything may have notes and no shard.
INSERT INTO shards (id, tenant, epoch)
SELECT abs(random()) % 8388608, tenant, 1
  FROM (SELECT DISTINCT tenant FROM notes WHERE kind = 'session')
 WHERE tenant NOT IN (SELECT tenant FROM shards);

INSERT INTO documents (shard, kind, key, json)
SELECT shards.id, notes.kind, notes.key, notes.json
  FROM notes
  JOIN shards ON shards.tenant = notes.tenant
 WHERE notes.kind = 'session';

DELETE FROM notes WHERE kind = 'session';
