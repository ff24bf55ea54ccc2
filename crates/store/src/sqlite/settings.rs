//! Pauses, drains and verified tools of a tenant: one row each, replaced or removed as a whole.
//! Schedules have a file of their own.

use coordinator::{Drain, Pause, TenantChange, TenantSettings, VerifiedTool};
use model::{ShardId, Timestamp};
use rusqlite::{Connection, params};

use super::error::WriteError;
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
    let mut select = connection.prepare(SELECT_PAUSES)?;
    let mut rows = select.query([shard.get()])?;
    while let Some(row) = rows.next()? {
        let queue = name(&row.get::<_, String>(0)?)?;
        let pause = Pause { by: row.get(1)?, at: Timestamp::from_integer(row.get(2)?) };
        settings.pauses.insert(queue, pause);
    }
    let mut select = connection.prepare(SELECT_DRAINS)?;
    let mut rows = select.query([shard.get()])?;
    while let Some(row) = rows.next()? {
        let worker = name(&row.get::<_, String>(0)?)?;
        let drain = Drain {
            by: row.get(1)?,
            at: Timestamp::from_integer(row.get(2)?),
            gone_by: row.get::<_, Option<i64>>(3)?.map(Timestamp::from_integer),
            reason: row.get(4)?,
        };
        settings.drains.insert(worker, drain);
    }
    let mut select = connection.prepare(SELECT_TOOLS)?;
    let mut rows = select.query([shard.get()])?;
    while let Some(row) = rows.next()? {
        let (worker, tool) = (name(&row.get::<_, String>(0)?)?, name(&row.get::<_, String>(1)?)?);
        let verified =
            VerifiedTool { output: row.get(2)?, at: Timestamp::from_integer(row.get(3)?) };
        settings.verified.entry(worker).or_default().insert(tool, verified);
    }
    let kept = schedules::restore(connection, shard)?;
    settings.schedules = kept.into_iter().map(|record| (record.id, record)).collect();
    Ok(settings)
}

fn name<T: std::str::FromStr>(text: &str) -> Result<T, StoreError> {
    text.parse().map_err(|_| StoreError::Damaged(format!("`{text}` is not a name")))
}
