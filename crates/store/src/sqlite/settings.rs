//! Pauses, drains and verified tools of a tenant: one row each, replaced or removed as a whole.
//! Schedules have a file of their own.

use coordinator::{Drain, Pause, TenantChange, TenantSettings, VerifiedTool};
use model::{ShardId, Timestamp};
use rusqlite::{Connection, Row, params};

use super::error::WriteError;
use super::record::{all, moment, moment_if_any, text};
use super::schedules;
use crate::contract::StoreError;

const PUT_PAUSE: &str = "INSERT OR REPLACE INTO pauses (shard, queue, paused_by, paused_at)
    VALUES (?1, ?2, ?3, ?4)";
const DELETE_PAUSE: &str = "DELETE FROM pauses WHERE shard = ?1 AND queue = ?2";
const SELECT_PAUSES: &str = "SELECT queue, paused_by, paused_at FROM pauses WHERE shard = ?1";
const PUT_DRAIN: &str = "INSERT OR REPLACE INTO drains
    (shard, worker, drained_by, drained_at, gone_by, reason) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
const DELETE_DRAIN: &str = "DELETE FROM drains WHERE shard = ?1 AND worker = ?2";
const SELECT_DRAINS: &str = "SELECT worker, drained_by, drained_at, gone_by, reason
    FROM drains WHERE shard = ?1";
const PUT_TOOL: &str = "INSERT OR REPLACE INTO verified_tools
    (shard, worker, tool, output, verified_at) VALUES (?1, ?2, ?3, ?4, ?5)";
const DELETE_TOOLS: &str = "DELETE FROM verified_tools WHERE shard = ?1 AND worker = ?2";
const SELECT_TOOLS: &str = "SELECT worker, tool, output, verified_at
    FROM verified_tools WHERE shard = ?1";

/// Writes facts about tenants inside the transaction that is open, in order.
pub(super) fn write(
    connection: &Connection,
    changes: &[(ShardId, &TenantChange)],
) -> Result<(), WriteError> {
    let run = |sql: &str, parameters: &[&dyn rusqlite::ToSql]| {
        connection.prepare_cached(sql)?.execute(parameters)
    };
    for (owner, change) in changes {
        let shard = owner.get();
        match change {
            TenantChange::QueuePaused { queue, pause } => {
                let at = pause.at.to_integer();
                run(PUT_PAUSE, params![shard, queue.as_str(), pause.by, at])?
            }
            TenantChange::QueueResumed { queue } => {
                run(DELETE_PAUSE, params![shard, queue.as_str()])?
            }
            TenantChange::WorkerDrained { worker, drain } => {
                let Drain { by, at, gone_by, reason } = drain;
                let (at, gone_by) = (at.to_integer(), gone_by.map(Timestamp::to_integer));
                run(PUT_DRAIN, params![shard, worker.as_str(), by, at, gone_by, reason])?
            }
            TenantChange::WorkerUndrained { worker } => {
                run(DELETE_DRAIN, params![shard, worker.as_str()])?
            }
            TenantChange::ToolVerified { worker, tool, verified } => {
                let VerifiedTool { output, at } = verified;
                let (worker, tool) = (worker.as_str(), tool.as_str());
                run(PUT_TOOL, params![shard, worker, tool, output, at.to_integer()])?
            }
            TenantChange::ToolsForgotten { worker } => {
                run(DELETE_TOOLS, params![shard, worker.as_str()])?
            }
            TenantChange::ScheduleSet(record) => schedules::put(connection, *owner, record)?,
            TenantChange::ScheduleRemoved { schedule } => {
                schedules::delete(connection, *owner, *schedule)?
            }
            TenantChange::ScheduleFired { schedule, progress }
            | TenantChange::ScheduleWaits { schedule, progress } => {
                schedules::set_progress(connection, *owner, *schedule, progress)?
            }
        };
    }
    Ok(())
}

/// What people set for the tenant of a shard.
pub(super) fn restore(
    connection: &Connection,
    shard: ShardId,
) -> Result<TenantSettings, StoreError> {
    let mut settings = TenantSettings::default();
    let pauses = all(&mut connection.prepare(SELECT_PAUSES)?, [shard.get()], |row| {
        Ok((name(row, 0)?, Pause { by: row.get(1)?, at: moment(row, 2)? }))
    })?;
    settings.pauses.extend(pauses);
    let drains = all(&mut connection.prepare(SELECT_DRAINS)?, [shard.get()], |row| {
        let (at, gone_by) = (moment(row, 2)?, moment_if_any(row, 3)?);
        Ok((name(row, 0)?, Drain { by: row.get(1)?, at, gone_by, reason: row.get(4)? }))
    })?;
    settings.drains.extend(drains);
    all(&mut connection.prepare(SELECT_TOOLS)?, [shard.get()], |row| {
        let verified = VerifiedTool { output: row.get(2)?, at: moment(row, 3)? };
        let tools = settings.verified.entry(name(row, 0)?).or_default();
        Ok(tools.insert(name(row, 1)?, verified))
    })?;
    let kept = schedules::restore(connection, shard)?;
    settings.schedules = kept.into_iter().map(|record| (record.id, record)).collect();
    Ok(settings)
}

fn name<T: std::str::FromStr>(row: &Row<'_>, column: usize) -> Result<T, StoreError> {
    let text = text(row, column)?;
    text.parse().map_err(|_| StoreError::Damaged(format!("`{text}` is not a name")))
}
