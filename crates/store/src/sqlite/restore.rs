//! What a coordinator needs after a restart.

use model::{ShardId, TaskId};
use rusqlite::Connection;

use super::documents;
use super::record::{RecordReader, SELECT_LIVE, all};
use super::run_read::{next_run, restore_runs};
use super::settings;
use crate::contract::StoreError;
use shard::Restored;

/// Every live task and every live run of a shard, the numbers that the next new ones get, and what
/// people set.
pub(super) fn restore(connection: &Connection, shard: ShardId) -> Result<Restored, StoreError> {
    // One snapshot: the tasks, the runs and the next numbers belong together.
    let snapshot = connection.unchecked_transaction()?;
    let next_number = next_number(&snapshot, shard)?;
    let range = [shard.first_task().to_integer(), shard.last_task().to_integer()];
    let mut reader = RecordReader::new(&snapshot)?;
    let tasks = all(&mut snapshot.prepare(&SELECT_LIVE)?, range, |row| reader.read(row))?;
    let runs = restore_runs(&snapshot, shard)?;
    let next_run = next_run(&snapshot, shard)?;
    let settings = settings::restore(&snapshot, shard)?;
    let documents = documents::restore(&snapshot, shard)?;
    Ok(Restored { tasks, next_number, runs, next_run, settings, documents })
}

fn next_number(connection: &Connection, shard: ShardId) -> Result<u64, StoreError> {
    let range = [shard.first_task().to_integer(), shard.last_task().to_integer()];
    let last: Option<i64> = connection.query_row(
        "SELECT max(id) FROM tasks WHERE id BETWEEN ?1 AND ?2",
        range,
        |row| row.get(0),
    )?;
    Ok(last.and_then(TaskId::from_integer).map_or(0, |last| last.number() + 1))
}
