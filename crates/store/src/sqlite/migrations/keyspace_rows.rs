//! The part of step 0017 that SQL cannot do: an old row per element becomes a part of its key's row.
//! Like the rest of the step, it never changes: it writes rows as they were when it was released.

use rusqlite::{Connection, params};

use crate::contract::StoreError;

const SELECT_ORPHAN: &str = "SELECT key FROM scratch_items AS element WHERE NOT EXISTS
    (SELECT 1 FROM scratch_keys WHERE shard = element.shard AND key = element.key) LIMIT 1";
const SELECT_KEYS: &str = "SELECT shard, key, kind, expires_at, value FROM scratch_keys
    WHERE kind != 'set'";
const SELECT_ELEMENTS: &str =
    "SELECT item, value FROM scratch_items WHERE shard = ?1 AND key = ?2 ORDER BY item";
const INSERT: &str = "INSERT INTO keyspace (shard, key, kind, expires_at, value)
    VALUES (?1, ?2, ?3, ?4, ?5)";
const DROP: &str = "DROP TABLE scratch_items; DROP TABLE scratch_keys";

/// Moves strings, lists, hashes and sorted sets, and drops the old tables.
pub(super) fn move_rows(connection: &Connection) -> Result<(), StoreError> {
    refuse_orphans(connection)?;
    copy_rows(connection)?;
    connection.execute_batch(DROP)?;
    Ok(())
}

/// An element without a key is damage, and would be lost.
fn refuse_orphans(connection: &Connection) -> Result<(), StoreError> {
    let mut orphan = connection.prepare(SELECT_ORPHAN)?;
    if let Some(row) = orphan.query([])?.next()? {
        let key = row.get_ref(0)?.as_blob().unwrap_or_default().escape_ascii().to_string();
        return Err(StoreError::Damaged(format!("an element of the key {key} has no key")));
    }
    Ok(())
}

fn copy_rows(connection: &Connection) -> Result<(), StoreError> {
    let mut keys = connection.prepare(SELECT_KEYS)?;
    let mut elements = connection.prepare(SELECT_ELEMENTS)?;
    let mut insert = connection.prepare(INSERT)?;
    let mut rows = keys.query([])?;
    while let Some(row) = rows.next()? {
        let (shard, key): (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
        let (kind, expires_at): (String, Option<i64>) = (row.get(2)?, row.get(3)?);
        let mut value: Vec<u8> = row.get(4)?;
        let mut found = elements.query(params![shard, key])?;
        while let Some(element) = found.next()? {
            append(&mut value, &kind, element.get(0)?, element.get(1)?)?;
        }
        insert.execute(params![shard, key, kind, expires_at, value])?;
    }
    Ok(())
}

/// An element of a list was `place -> element`, a field `field -> value`, and a member
/// `member -> score` with eight bytes.
fn append(
    value: &mut Vec<u8>,
    kind: &str,
    item: Vec<u8>,
    of_item: Vec<u8>,
) -> Result<(), StoreError> {
    let (lengthened, plain): (&[Vec<u8>], &[u8]) = match kind {
        "list" => (&[of_item], &[]),
        "hash" => (&[item, of_item], &[]),
        "zset" => (&[item], &of_item),
        other => {
            return Err(StoreError::Damaged(format!("a key of the kind {other} has elements")));
        }
    };
    for part in lengthened {
        let length = u32::try_from(part.len())
            .map_err(|_| StoreError::Damaged("an element of a key is longer than 4 GiB".into()))?;
        value.extend_from_slice(&length.to_be_bytes());
        value.extend_from_slice(part);
    }
    value.extend_from_slice(plain);
    Ok(())
}
