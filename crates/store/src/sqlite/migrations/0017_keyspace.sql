-- Keys and values of tenants: one row per key. `keyspace/src/row.rs` says how the elements of a list,
-- a hash or a sorted set stand in a value. Moments are milliseconds since 1970.
CREATE TABLE keyspace (
    shard      INTEGER NOT NULL,
    key        BLOB NOT NULL,
    kind       TEXT NOT NULL,
    expires_at INTEGER,
    -- The last column, because it may be long.
    value      BLOB NOT NULL,
    PRIMARY KEY (shard, key),
    -- A chain of OR, as in `tasks`.
    CHECK (kind = 'string' OR (length(value) > 0
        AND (kind = 'list' OR kind = 'hash' OR kind = 'zset')))
) STRICT, WITHOUT ROWID;

-- Sets, which are no kind of value any more. Nothing reads or writes them; the log says at the start
-- how many there are.
CREATE TABLE retired_sets (
    shard      INTEGER NOT NULL,
    key        BLOB NOT NULL,
    member     BLOB NOT NULL,
    expires_at INTEGER,
    PRIMARY KEY (shard, key, member)
) STRICT, WITHOUT ROWID;

INSERT INTO retired_sets (shard, key, member, expires_at)
SELECT shard, key, item, expires_at
  FROM scratch_keys JOIN scratch_items USING (shard, key)
 WHERE kind = 'set';

-- The other rows of `scratch_keys` and `scratch_items` are moved by `migrations/keyspace_rows.rs`.
