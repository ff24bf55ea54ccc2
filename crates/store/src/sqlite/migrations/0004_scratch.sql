-- Keys and values of tenants, as Redis keeps them: one keyspace per shard. No row of the
-- coordinator refers to them. Moments are milliseconds since 1970.
CREATE TABLE scratch_keys (
    shard      INTEGER NOT NULL,
    key        BLOB NOT NULL,
    kind       TEXT NOT NULL,
    expires_at INTEGER,
    -- The value of a string. The last column, because it may be long.
    value      BLOB NOT NULL,
    PRIMARY KEY (shard, key),
    -- A chain of OR, as in `tasks`.
    CHECK (kind = 'string' OR (length(value) = 0
        AND (kind = 'list' OR kind = 'hash' OR kind = 'set' OR kind = 'zset')))
) STRICT, WITHOUT ROWID;

-- The elements of lists, hashes, sets and sorted sets. A list's item is its place: 8 bytes that
-- sort as places do.
CREATE TABLE scratch_items (
    shard INTEGER NOT NULL,
    key   BLOB NOT NULL,
    item  BLOB NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (shard, key, item)
) STRICT, WITHOUT ROWID;
