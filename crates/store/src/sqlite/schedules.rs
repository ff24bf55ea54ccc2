//! Schedules: one row each.

use std::sync::Arc;

use coordinator::{
    FiredMoment, Overlap, ScheduleId, ScheduleProgress, ScheduleRecord, ScheduleSpec,
};
use model::{RunId, ShardId, Timestamp};
use rusqlite::{Connection, Row, params};

use super::commit::Text;
use super::record::all;
use crate::contract::StoreError;

const PUT: &str = "INSERT OR REPLACE INTO schedules
    (shard, id, name, workflow_id, version, cron, timezone, inputs, overlap, paused, created_at,
     created_by, handled_at, waiting, backfill)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, 0, '[]', '[]')";
const SET_PROGRESS: &str = "UPDATE schedules SET handled_at = ?3, waiting = ?4, backfill = ?5,
    newest_run = ?6, last_due = ?7, last_run = ?8, last_problem = ?9
    WHERE shard = ?1 AND id = ?2";
const DELETE: &str = "DELETE FROM schedules WHERE shard = ?1 AND id = ?2";
const SELECT: &str =
    "SELECT id, name, workflow_id, version, cron, timezone, inputs, overlap, paused,
    created_at, created_by, handled_at, waiting, backfill, newest_run, last_due, last_run,
    last_problem FROM schedules WHERE shard = ?1";

pub(super) fn put(
    connection: &Connection,
    shard: ShardId,
    record: &ScheduleRecord,
) -> Result<usize, rusqlite::Error> {
    let spec = &record.spec;
    let parameters = params![
        shard.get(),
        record.id.to_string(),
        spec.name,
        spec.workflow_id,
        spec.version.map(u64::cast_signed),
        spec.cron,
        spec.timezone,
        Text(&spec.inputs),
        spec.overlap.word(),
        spec.paused,
        spec.created_at.to_integer(),
        spec.created_by,
    ];
    connection.prepare_cached(PUT)?.execute(parameters)?;
    set_progress(connection, shard, record.id, &record.progress)
}

pub(super) fn set_progress(
    connection: &Connection,
    shard: ShardId,
    id: ScheduleId,
    progress: &ScheduleProgress,
) -> Result<usize, rusqlite::Error> {
    let last = progress.last.as_ref();
    let parameters = params![
        shard.get(),
        id.to_string(),
        progress.handled.to_integer(),
        moments_text(&progress.waiting),
        moments_text(&progress.backfill),
        progress.newest_run.map(RunId::to_integer),
        last.map(|last| last.due.to_integer()),
        last.and_then(|last| last.outcome.as_ref().ok()).map(|run| run.to_integer()),
        last.and_then(|last| last.outcome.as_ref().err()),
    ];
    connection.prepare_cached(SET_PROGRESS)?.execute(parameters)
}

pub(super) fn delete(
    connection: &Connection,
    shard: ShardId,
    id: ScheduleId,
) -> Result<usize, rusqlite::Error> {
    connection.prepare_cached(DELETE)?.execute(params![shard.get(), id.to_string()])
}

pub(super) fn restore(
    connection: &Connection,
    shard: ShardId,
) -> Result<Vec<ScheduleRecord>, StoreError> {
    all(&mut connection.prepare(SELECT)?, [shard.get()], read)
}

fn read(row: &Row<'_>) -> Result<ScheduleRecord, StoreError> {
    let id: String = row.get(0)?;
    let damaged = || StoreError::Damaged(format!("schedule {id}"));
    let moment = |value: i64| Timestamp::from_integer(value);
    let run = |value: i64| RunId::from_integer(value).ok_or_else(damaged);
    let spec = ScheduleSpec {
        name: row.get(1)?,
        workflow_id: row.get(2)?,
        version: row.get::<_, Option<i64>>(3)?.map(i64::cast_unsigned),
        cron: row.get(4)?,
        timezone: row.get(5)?,
        inputs: row.get::<_, String>(6)?.into(),
        overlap: Overlap::from_word(&row.get::<_, String>(7)?).ok_or_else(damaged)?,
        paused: row.get(8)?,
        created_at: moment(row.get(9)?),
        created_by: row.get(10)?,
    };
    let due: Option<i64> = row.get(15)?;
    let last = due.map(|due| {
        let outcome = match row.get::<_, Option<i64>>(16)? {
            Some(last_run) => Ok(run(last_run)?),
            None => Err(row.get(17)?),
        };
        Ok::<_, StoreError>(FiredMoment { due: moment(due), outcome })
    });
    let progress = ScheduleProgress {
        handled: moment(row.get(11)?),
        waiting: moments_of(&row.get::<_, String>(12)?).ok_or_else(damaged)?,
        backfill: moments_of(&row.get::<_, String>(13)?).ok_or_else(damaged)?,
        newest_run: row.get::<_, Option<i64>>(14)?.map(run).transpose()?,
        last: last.transpose()?,
    };
    let id = id.parse().map(ScheduleId).map_err(|_| damaged())?;
    Ok(ScheduleRecord { id, spec: Arc::new(spec), progress: Arc::new(progress) })
}

fn moments_text(moments: &[Timestamp]) -> String {
    let texts: Vec<String> = moments.iter().map(|one| one.to_integer().to_string()).collect();
    format!("[{}]", texts.join(","))
}

fn moments_of(text: &str) -> Option<Vec<Timestamp>> {
    let moments: Vec<i64> = serde_json::from_str(text).ok()?;
    Some(moments.into_iter().map(Timestamp::from_integer).collect())
}
