//! Documents of a tenant: one row each, replaced or removed as a whole; long bodies and old
//! versions have rows of their own.

use model::{ShardId, TenantId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::commit::Text;
use super::error::WriteError;
use super::record::{all, bytes_if_any};
use crate::contract::{DocumentVersion, StoreError};
use shard::{Document, DocumentKind};

const PUT: &str = "INSERT OR REPLACE INTO documents (shard, kind, key, json)
    VALUES (?1, ?2, ?3, ?4)";
const PUT_BODY: &str = "INSERT INTO document_bodies (shard, kind, key, version, json, body)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
const DELETE: &str = "DELETE FROM documents WHERE shard = ?1 AND kind = ?2 AND key = ?3";
const DELETE_BODIES: &str =
    "DELETE FROM document_bodies WHERE shard = ?1 AND kind = ?2 AND key = ?3";
const SELECT: &str = "SELECT kind, key, json FROM documents WHERE shard = ?1 ORDER BY kind, key";
const SELECT_VERSION: &str = "SELECT documents.json, bodies.json, bodies.body
    FROM document_bodies AS bodies
    JOIN documents USING (shard, kind, key)
    WHERE shard = ?1 AND kind = ?2 AND key = ?3 AND version = coalesce(?4, version)
    ORDER BY version DESC LIMIT 1";
const SELECT_VERSIONS: &str = "SELECT documents.json, bodies.json, NULL
    FROM document_bodies AS bodies
    JOIN documents USING (shard, kind, key)
    WHERE shard = ?1 AND kind = ?2 AND key = ?3
    ORDER BY version DESC";
const SELECT_TENANT_OF_HOOK: &str = "SELECT shards.tenant
    FROM documents
    JOIN shards ON shards.id = documents.shard
    WHERE documents.kind = 'hook' AND documents.key = ?1";

/// Writes documents inside the transaction that is open, in order.
pub(super) fn write(
    connection: &Connection,
    documents: &[(ShardId, &Document)],
) -> Result<(), WriteError> {
    for (shard, Document { kind, key, json, body }) in documents {
        let (shard, kind) = (shard.get(), kind.name());
        let Some(json) = json else {
            connection.prepare_cached(DELETE)?.execute(params![shard, kind, key])?;
            connection.prepare_cached(DELETE_BODIES)?.execute(params![shard, kind, key])?;
            continue;
        };
        connection.prepare_cached(PUT)?.execute(params![shard, kind, key, json])?;
        if let Some(body) = body {
            let (version, bytes) = (body.version.cast_signed(), Text(&body.bytes));
            let row = params![shard, kind, key, version, json, bytes];
            connection.prepare_cached(PUT_BODY)?.execute(row)?;
        }
    }
    Ok(())
}

/// The documents of a shard, without bodies that have rows of their own.
pub(super) fn restore(
    connection: &Connection,
    shard: ShardId,
) -> Result<Vec<Document>, StoreError> {
    all(&mut connection.prepare(SELECT)?, [shard.get()], |row| {
        let kind: String = row.get(0)?;
        let damaged = || StoreError::Damaged(format!("`{kind}` is not a kind of document"));
        let kind = DocumentKind::from_name(&kind).ok_or_else(damaged)?;
        Ok(Document { kind, key: row.get(1)?, json: Some(row.get(2)?), body: None })
    })
}

/// The newest version that has a row of its own, unless a number says which.
pub(super) fn version(
    connection: &Connection,
    (shard, kind, key): (ShardId, DocumentKind, &str),
    version: Option<u64>,
) -> Result<Option<DocumentVersion>, StoreError> {
    let mut select = connection.prepare_cached(SELECT_VERSION)?;
    let version = version.map(u64::cast_signed);
    let mut rows = select.query(params![shard.get(), kind.name(), key, version])?;
    rows.next()?.map(read).transpose()
}

/// Every such version, newest first, without bodies.
pub(super) fn versions(
    connection: &Connection,
    (shard, kind, key): (ShardId, DocumentKind, &str),
) -> Result<Vec<DocumentVersion>, StoreError> {
    let mut select = connection.prepare_cached(SELECT_VERSIONS)?;
    all(&mut select, params![shard.get(), kind.name(), key], read)
}

fn read(row: &Row<'_>) -> Result<DocumentVersion, StoreError> {
    let body = bytes_if_any(row, 2)?.unwrap_or_default();
    Ok(DocumentVersion { newest: row.get(0)?, json: row.get(1)?, body })
}

/// Whose webhook has this digest.
pub(super) fn tenant_of_hook(
    connection: &Connection,
    digest: &str,
) -> Result<Option<TenantId>, StoreError> {
    let mut select = connection.prepare_cached(SELECT_TENANT_OF_HOOK)?;
    let tenant: Option<String> = select.query_row([digest], |row| row.get(0)).optional()?;
    let damaged = |name: &String| StoreError::Damaged(format!("tenant `{name}`"));
    tenant.map(|name| name.parse().map_err(|_| damaged(&name))).transpose()
}
