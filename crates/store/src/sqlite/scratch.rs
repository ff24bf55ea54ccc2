//! The rows of scratch keyspaces.

use bytes::Bytes;
use keyspace::row::KeyRow;
use model::{ShardId, Timestamp};
use rusqlite::{CachedStatement, Connection, Row};

use super::error::WriteError;
use super::record::moment_if_any;
use crate::contract::StoreError;
use crate::scratch_rows::{Head, KeyWrites, ScratchBatch};
use crate::scratch_tables::Restoring;
use crate::words::{kind_from_text, kind_text};

// REPLACE, because on a table whose only index is its primary key it overwrites in place, with one
// look-up; ON CONFLICT DO UPDATE looks twice.
const PUT_KEY: &str = "REPLACE INTO scratch_keys (shard, key, kind, expires_at, value)
    VALUES (?1, ?2, ?3, ?4, ?5)";
const DELETE_KEY: &str = "DELETE FROM scratch_keys WHERE shard = ?1 AND key = ?2";
const PUT_ITEM: &str = "REPLACE INTO scratch_items (shard, key, item, value)
    VALUES (?1, ?2, ?3, ?4)";
const DELETE_ITEM: &str = "DELETE FROM scratch_items WHERE shard = ?1 AND key = ?2 AND item = ?3";
const DELETE_ITEMS: &str = "DELETE FROM scratch_items WHERE shard = ?1 AND key = ?2";
const SELECT_KEYS: &str =
    "SELECT key, kind, expires_at, value FROM scratch_keys WHERE shard = ?1 ORDER BY key";
const SELECT_ITEMS: &str =
    "SELECT key, item, value FROM scratch_items WHERE shard = ?1 ORDER BY key, item";

/// Writes a batch inside the transaction that is open.
pub(super) fn write(connection: &Connection, batch: &ScratchBatch<'_>) -> Result<(), WriteError> {
    let mut statements = Statements::prepare(connection)?;
    for (&(shard, key), writes) in &batch.keys {
        statements.write(shard, key, writes)?;
    }
    Ok(())
}

/// Looked up once per transaction.
struct Statements<'c> {
    put_key: CachedStatement<'c>,
    delete_key: CachedStatement<'c>,
    put_item: CachedStatement<'c>,
    delete_item: CachedStatement<'c>,
    delete_items: CachedStatement<'c>,
}

impl<'c> Statements<'c> {
    fn prepare(connection: &'c Connection) -> Result<Self, rusqlite::Error> {
        Ok(Self {
            put_key: connection.prepare_cached(PUT_KEY)?,
            delete_key: connection.prepare_cached(DELETE_KEY)?,
            put_item: connection.prepare_cached(PUT_ITEM)?,
            delete_item: connection.prepare_cached(DELETE_ITEM)?,
            delete_items: connection.prepare_cached(DELETE_ITEMS)?,
        })
    }

    fn write(
        &mut self,
        shard: ShardId,
        key: &[u8],
        writes: &KeyWrites<'_>,
    ) -> Result<(), rusqlite::Error> {
        if writes.is_wiped {
            run(&mut self.delete_items, shard, key)?;
        }
        match &writes.head {
            Some(head) => self.put_key(shard, key, head)?,
            None if writes.is_wiped => run(&mut self.delete_key, shard, key)?,
            None => {}
        }
        for (item, value) in &writes.items {
            let statement =
                if value.is_some() { &mut self.put_item } else { &mut self.delete_item };
            statement.raw_bind_parameter(3, item)?;
            if let Some(value) = value {
                statement.raw_bind_parameter(4, value)?;
            }
            run(statement, shard, key)?;
        }
        Ok(())
    }

    fn put_key(
        &mut self,
        shard: ShardId,
        key: &[u8],
        head: &Head<'_>,
    ) -> Result<(), rusqlite::Error> {
        let statement = &mut self.put_key;
        statement.raw_bind_parameter(3, kind_text(head.kind))?;
        statement.raw_bind_parameter(4, head.expires_at.map(Timestamp::to_integer))?;
        statement.raw_bind_parameter(5, head.value)?;
        run(statement, shard, key)
    }
}

/// Every statement names the shard and the key first.
fn run(
    statement: &mut CachedStatement<'_>,
    shard: ShardId,
    key: &[u8],
) -> Result<(), rusqlite::Error> {
    statement.raw_bind_parameter(1, shard.get())?;
    statement.raw_bind_parameter(2, key)?;
    statement.raw_execute()?;
    Ok(())
}

/// Every key of a shard with its elements, by name.
pub(super) fn restore(connection: &Connection, shard: ShardId) -> Result<Vec<KeyRow>, StoreError> {
    // One snapshot: keys and their elements belong together.
    let snapshot = connection.unchecked_transaction()?;
    let mut restoring = Restoring::default();
    let mut keys = snapshot.prepare(SELECT_KEYS)?;
    let mut rows = keys.query([shard.get()])?;
    while let Some(row) = rows.next()? {
        restoring.add_key(key_row(row)?);
    }
    let mut items = snapshot.prepare(SELECT_ITEMS)?;
    let mut rows = items.query([shard.get()])?;
    while let Some(row) = rows.next()? {
        restoring.add_item(blob(row, 0)?, bytes(row, 1)?, bytes(row, 2)?)?;
    }
    Ok(restoring.rows)
}

fn key_row(row: &Row<'_>) -> Result<KeyRow, StoreError> {
    let key = bytes(row, 0)?;
    let word = row.get_ref(1)?.as_str().unwrap_or_default();
    let Some(kind) = kind_from_text(word) else {
        let key = key.escape_ascii();
        return Err(StoreError::Damaged(format!("the key {key} has the unknown kind {word:?}")));
    };
    let expires_at = moment_if_any(row, 2)?;
    Ok(KeyRow { key, kind, expires_at, value: bytes(row, 3)?, items: Vec::new() })
}

fn blob<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r [u8], StoreError> {
    let misread = |error| StoreError::Damaged(format!("column {column} of a scratch row: {error}"));
    row.get_ref(column)?.as_blob().map_err(misread)
}

fn bytes(row: &Row<'_>, column: usize) -> Result<Bytes, StoreError> {
    Ok(Bytes::copy_from_slice(blob(row, column)?))
}
