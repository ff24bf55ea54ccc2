//! The rows of keyspaces.

use std::collections::BTreeMap;

use bytes::Bytes;
use keyspace::{Kind, Row, Write};
use model::{ShardId, Timestamp};
use rusqlite::{Connection, params};

use super::error::WriteError;
use super::record::{all, moment_if_any};
use crate::contract::StoreError;

// REPLACE, because on a table whose only index is its primary key it overwrites in place, with one
// look-up; ON CONFLICT DO UPDATE looks twice.
const PUT: &str = "REPLACE INTO keyspace (shard, key, kind, expires_at, value)
    VALUES (?1, ?2, ?3, ?4, ?5)";
const DELETE: &str = "DELETE FROM keyspace WHERE shard = ?1 AND key = ?2";
const SELECT: &str =
    "SELECT key, kind, expires_at, value FROM keyspace WHERE shard = ?1 ORDER BY key";
const COUNT_RETIRED: &str = "SELECT count(*) FROM (SELECT DISTINCT shard, key FROM retired_sets)";

/// Makes these writes inside the transaction that is open.
pub(super) fn write(
    connection: &Connection,
    writes: &BTreeMap<(ShardId, &[u8]), &Write>,
) -> Result<(), WriteError> {
    if writes.is_empty() {
        return Ok(());
    }
    let mut put = connection.prepare_cached(PUT)?;
    let mut delete = connection.prepare_cached(DELETE)?;
    for (&(shard, key), write) in writes {
        match write {
            Write::Put(Row { key, kind, expires_at, value }) => {
                let expires_at = expires_at.map(Timestamp::to_integer);
                put.execute(params![shard.get(), &key[..], kind.word(), expires_at, &value[..]])?;
            }
            Write::Delete(_) => drop(delete.execute(params![shard.get(), key])?),
        }
    }
    Ok(())
}

/// Every key of a shard, by name.
pub(super) fn restore(connection: &Connection, shard: ShardId) -> Result<Vec<Row>, StoreError> {
    all(&mut connection.prepare(SELECT)?, [shard.get()], |row| {
        let key = bytes(row, 0)?;
        let word = row.get_ref(1)?.as_str().unwrap_or_default();
        let Some(kind) = Kind::from_word(word) else {
            let key = key.escape_ascii();
            let why = format!("the key {key} has the unknown kind {word:?}");
            return Err(StoreError::Damaged(why));
        };
        let expires_at = moment_if_any(row, 2)?;
        Ok(Row { key, kind, expires_at, value: bytes(row, 3)? })
    })
}

fn bytes(row: &rusqlite::Row<'_>, column: usize) -> Result<Bytes, StoreError> {
    let misread = |error| StoreError::Damaged(format!("column {column} of a key's row: {error}"));
    Ok(Bytes::copy_from_slice(row.get_ref(column)?.as_blob().map_err(misread)?))
}

/// Tells whoever runs the server of keys that an earlier version kept and this one does not serve.
pub(super) fn report_retired(connection: &Connection) -> Result<(), StoreError> {
    let keys: i64 = connection.query_row(COUNT_RETIRED, [], |row| row.get(0))?;
    if keys > 0 {
        tracing::warn!(
            keys,
            table = "retired_sets",
            "the data folder holds sets of an earlier version; they are kept and not served"
        );
    }
    Ok(())
}
