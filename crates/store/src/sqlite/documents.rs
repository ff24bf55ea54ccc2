//! Documents of a tenant: one row each, replaced or removed as a whole.

use model::ShardId;
use rusqlite::{Connection, params};

use super::error::WriteError;
use crate::contract::StoreError;
use shard::{Document, DocumentKind};

const PUT: &str = "INSERT OR REPLACE INTO documents (shard, kind, key, json)
    VALUES (?1, ?2, ?3, ?4)";
const DELETE: &str = "DELETE FROM documents WHERE shard = ?1 AND kind = ?2 AND key = ?3";
const SELECT: &str = "SELECT kind, key, json FROM documents WHERE shard = ?1 ORDER BY kind, key";

/// Writes documents inside the transaction that is open, in order.
pub(super) fn write(
    connection: &Connection,
    documents: &[(ShardId, &Document)],
) -> Result<(), WriteError> {
    for (shard, Document { kind, key, json }) in documents {
        let (shard, kind) = (shard.get(), kind.name());
        match json {
            Some(json) => {
                connection.prepare_cached(PUT)?.execute(params![shard, kind, key, json])?
            }
            None => connection.prepare_cached(DELETE)?.execute(params![shard, kind, key])?,
        };
    }
    Ok(())
}

/// The documents of a shard.
pub(super) fn restore(
    connection: &Connection,
    shard: ShardId,
) -> Result<Vec<Document>, StoreError> {
    let mut select = connection.prepare(SELECT)?;
    let mut rows = select.query([shard.get()])?;
    let mut documents = Vec::new();
    while let Some(row) = rows.next()? {
        let kind: String = row.get(0)?;
        let damaged = || StoreError::Damaged(format!("`{kind}` is not a kind of document"));
        let kind = DocumentKind::from_name(&kind).ok_or_else(damaged)?;
        documents.push(Document { kind, key: row.get(1)?, json: Some(row.get(2)?) });
    }
    Ok(documents)
}
