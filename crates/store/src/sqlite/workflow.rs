//! Workflows that people saved, version by version.

use bytes::Bytes;
use model::{TenantId, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::commit::Text;
use super::error::WriteError;
use super::record::{bytes_if_any, moment, moment_if_any};
use crate::contract::{StoreError, WorkflowVersion, WorkflowWrite, WorkflowWritten};
use crate::workflow_tables::Newest;

const SELECT_NEWEST: &str = "SELECT w.newest, v.hash, w.deleted_at IS NOT NULL
    FROM workflows AS w
    JOIN workflow_versions AS v
      ON v.tenant = w.tenant AND v.id = w.id AND v.version = w.newest
    WHERE w.tenant = ?1 AND w.id = ?2";
const DELETE: &str = "UPDATE workflows SET deleted_at = ?3
    WHERE tenant = ?1 AND id = ?2 AND deleted_at IS NULL";

/// Keeps the next version inside the transaction that is open, unless another came first.
pub(super) fn put(
    connection: &Connection,
    write: &WorkflowWrite,
) -> Result<WorkflowWritten, WriteError> {
    let newest: Option<(i64, String, bool)> = connection
        .prepare_cached(SELECT_NEWEST)?
        .query_row((write.tenant.as_str(), &write.id), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .optional()?;
    let written = write.outcome(newest.as_ref().map(|(version, hash, is_deleted)| Newest {
        version: version.cast_unsigned(),
        hash,
        is_deleted: *is_deleted,
    }));
    if let WorkflowWritten::Saved(version) = written {
        insert(connection, write, version)?;
    }
    Ok(written)
}

fn insert(connection: &Connection, write: &WorkflowWrite, version: u64) -> Result<(), WriteError> {
    let tenant = write.tenant.as_str();
    let version = version.cast_signed();
    connection.prepare_cached(include_str!("queries/insert_workflow_version.sql"))?.execute(
        params![
            tenant,
            write.id,
            version,
            write.name,
            write.hash,
            write.author,
            write.comment,
            write.at.to_integer(),
            Text(&write.definition),
        ],
    )?;
    let mut put = connection.prepare_cached(include_str!("queries/put_workflow.sql"))?;
    put.execute(params![tenant, write.id, version])?;
    Ok(())
}

/// Hides a workflow; `false` when there is none to hide.
pub(super) fn delete(
    connection: &Connection,
    tenant: &TenantId,
    id: &str,
    at: Timestamp,
) -> Result<bool, WriteError> {
    let n_hidden =
        connection.prepare_cached(DELETE)?.execute((tenant.as_str(), id, at.to_integer()))?;
    Ok(n_hidden == 1)
}

pub(super) fn get(
    connection: &Connection,
    tenant: &TenantId,
    id: &str,
    version: Option<u64>,
) -> Result<Option<WorkflowVersion>, StoreError> {
    let mut select = connection.prepare_cached(include_str!("queries/select_workflow.sql"))?;
    let mut rows = select.query((tenant.as_str(), id, version.map(u64::cast_signed)))?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let definition = bytes_if_any(row, 8)?.unwrap_or_default();
    Ok(Some(WorkflowVersion { definition, ..read_short(row)? }))
}

pub(super) fn page(
    connection: &Connection,
    tenant: &TenantId,
    after: Option<&str>,
    limit: u32,
) -> Result<Vec<WorkflowVersion>, StoreError> {
    let mut select = connection.prepare_cached(include_str!("queries/select_workflows.sql"))?;
    // A page holds at least one workflow, so that following it always ends.
    let mut rows = select.query((tenant.as_str(), after, limit.max(1)))?;
    let mut page = Vec::new();
    while let Some(row) = rows.next()? {
        page.push(read_short(row)?);
    }
    Ok(page)
}

pub(super) fn versions(
    connection: &Connection,
    tenant: &TenantId,
    id: &str,
) -> Result<Vec<WorkflowVersion>, StoreError> {
    let mut select =
        connection.prepare_cached(include_str!("queries/select_workflow_versions.sql"))?;
    let mut rows = select.query((tenant.as_str(), id))?;
    let mut versions = Vec::new();
    while let Some(row) = rows.next()? {
        versions.push(read_short(row)?);
    }
    Ok(versions)
}

/// Without what may be long.
fn read_short(row: &Row<'_>) -> Result<WorkflowVersion, StoreError> {
    Ok(WorkflowVersion {
        id: row.get(0)?,
        name: row.get(1)?,
        version: row.get::<_, i64>(2)?.cast_unsigned(),
        definition: Bytes::new(),
        hash: row.get(3)?,
        author: row.get(4)?,
        comment: row.get(5)?,
        saved_at: moment(row, 6)?,
        deleted_at: moment_if_any(row, 7)?,
    })
}
