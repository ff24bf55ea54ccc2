//! Runs and what belongs to them: look-ups, pages, and what a restart needs.

use coordinator::{RestoredRun, RunRecord, TaskRecord};
use model::{RunId, ShardId};
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row};

use super::record::RecordReader;
use super::run_record::{
    glance, read_bindings, read_ended_call, read_frame, read_item, read_list, read_node,
    read_short, read_whole,
};
use crate::contract::{RunKey, RunPage, RunParts, RunQuery, StoreError};
use crate::page::ROWS_PER_LIST_MAX;

const FIND_KEY: &str = "SELECT id FROM runs INDEXED BY runs_key
    WHERE id >> 40 = ?1 AND idempotency_key = ?2 AND idempotency_key IS NOT NULL";

const SELECT_LISTS: &str =
    "SELECT frame, node, length, fact FROM run_lists WHERE run_id = ?1 ORDER BY frame, node";

const SELECT_BINDINGS: &str = "SELECT document FROM run_bindings WHERE run_id = ?1";

pub(super) fn run(
    connection: &Connection,
    shard: ShardId,
    key: &RunKey,
) -> Result<Option<RunRecord>, StoreError> {
    let snapshot = connection.unchecked_transaction()?;
    let id = match key {
        RunKey::Id(run) => (run.shard() == shard).then(|| run.to_integer()),
        RunKey::Idempotency(key) => snapshot
            .prepare_cached(FIND_KEY)?
            .query_row((shard.get(), key.as_str()), |row| row.get(0))
            .optional()?,
    };
    let mut select = snapshot.prepare_cached(include_str!("queries/select_run.sql"))?;
    let mut rows = select.query([id])?;
    rows.next()?.map(read_whole).transpose()
}

pub(super) fn runs(
    connection: &Connection,
    shard: ShardId,
    query: &RunQuery,
) -> Result<RunPage, StoreError> {
    let before = query.before.map_or(i64::MAX, |before| before.to_integer() - 1);
    let [first, last] = run_range(shard);
    let rows_max = i64::try_from(ROWS_PER_LIST_MAX).expect("a small number");
    let range = (first, last.min(before), rows_max);
    let (sql, text) = scan_for(query);
    let mut select = connection.prepare_cached(sql)?;
    let mut rows = match text {
        Some(text) => select.query((range.0, range.1, range.2, text))?,
        None => select.query(range)?,
    };
    let mut page = RunPage::default();
    let mut n_looked_at = 0;
    while let Some(row) = rows.next()? {
        let seen = glance(row)?;
        let standing = (seen.end, seen.has_begun);
        if query.admits(standing, seen.client_id, seen.workflow_id) {
            page.runs.push(read_short(row)?);
        }
        n_looked_at += 1;
        if page.runs.len() == query.page_size() || n_looked_at == ROWS_PER_LIST_MAX {
            page.next_before = Some(seen.id);
            break;
        }
    }
    Ok(page)
}

/// The shortest way through the rows that may belong on the page, and the text that it names.
fn scan_for(query: &RunQuery) -> (&'static str, Option<&str>) {
    let is_live_only = !query.ends.is_empty() && query.ends.iter().all(Option::is_none);
    if let Some(workflow) = &query.workflow_id {
        (include_str!("queries/scan_runs_workflow.sql"), Some(workflow))
    } else if let Some(client) = &query.client_id {
        (include_str!("queries/scan_runs_client.sql"), Some(client))
    } else if is_live_only {
        (include_str!("queries/scan_runs_live.sql"), None)
    } else {
        (include_str!("queries/scan_runs_all.sql"), None)
    }
}

pub(super) fn run_parts(
    connection: &Connection,
    shard: ShardId,
    run: RunId,
) -> Result<RunParts, StoreError> {
    if run.shard() != shard {
        return Ok(RunParts::default());
    }
    let snapshot = connection.unchecked_transaction()?;
    Parts::new(&snapshot)?.read(run, Which::All)
}

/// Every live run of a shard, oldest first.
pub(super) fn restore_runs(
    connection: &Connection,
    shard: ShardId,
) -> Result<Vec<RestoredRun>, StoreError> {
    let mut parts = Parts::new(connection)?;
    let mut select = connection.prepare(include_str!("queries/select_live_runs.sql"))?;
    let mut rows = select.query(run_range(shard))?;
    let mut runs = Vec::new();
    while let Some(row) = rows.next()? {
        let record = read_whole(row)?;
        let RunParts { frames, closed, ended, lists, items, calls, rebound, tasks: settled } =
            parts.read(record.id, Which::Settled)?;
        runs.push(RestoredRun {
            record,
            frames,
            closed,
            ended,
            lists,
            items,
            calls,
            rebound,
            settled,
        });
    }
    Ok(runs)
}

/// The number that the next new run of a shard gets.
pub(super) fn next_run(connection: &Connection, shard: ShardId) -> Result<u64, StoreError> {
    let last: Option<i64> = connection.query_row(
        "SELECT max(id) FROM runs WHERE id BETWEEN ?1 AND ?2",
        run_range(shard),
        |row| row.get(0),
    )?;
    Ok(last.and_then(RunId::from_integer).map_or(1, |last| last.number() + 1))
}

/// Runs are numbered as tasks are.
fn run_range(shard: ShardId) -> [i64; 2] {
    [shard.first_task().to_integer(), shard.last_task().to_integer()]
}

/// Every row that a statement gives for a run.
fn all<T>(
    select: &mut CachedStatement<'_>,
    run: RunId,
    read: impl Fn(&Row<'_>) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut rows = select.query([run.to_integer()])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

/// Which tasks of a run are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    All,
    Settled,
}

/// What belongs to a run, by its id.
struct Parts<'c> {
    reader: RecordReader<'c>,
    select_tasks: CachedStatement<'c>,
    select_frames: CachedStatement<'c>,
    select_nodes: CachedStatement<'c>,
    select_lists: CachedStatement<'c>,
    select_items: CachedStatement<'c>,
    select_calls: CachedStatement<'c>,
    select_bindings: CachedStatement<'c>,
}

impl<'c> Parts<'c> {
    fn new(connection: &'c Connection) -> Result<Self, StoreError> {
        Ok(Self {
            reader: RecordReader::new(connection)?,
            select_tasks: connection
                .prepare_cached(include_str!("queries/select_run_tasks.sql"))?,
            select_frames: connection
                .prepare_cached(include_str!("queries/select_run_frames.sql"))?,
            select_nodes: connection
                .prepare_cached(include_str!("queries/select_run_nodes.sql"))?,
            select_lists: connection.prepare_cached(SELECT_LISTS)?,
            select_items: connection
                .prepare_cached(include_str!("queries/select_run_items.sql"))?,
            select_calls: connection
                .prepare_cached(include_str!("queries/select_run_calls.sql"))?,
            select_bindings: connection.prepare_cached(SELECT_BINDINGS)?,
        })
    }

    fn read(&mut self, run: RunId, which: Which) -> Result<RunParts, StoreError> {
        let mut parts = RunParts { tasks: self.tasks(run, which)?, ..RunParts::default() };
        let mut rows = self.select_frames.query([run.to_integer()])?;
        while let Some(row) = rows.next()? {
            let (frame, end) = read_frame(row)?;
            parts.closed.extend(end.map(|end| (frame.number, end)));
            parts.frames.push(frame);
        }
        drop(rows);
        parts.ended = all(&mut self.select_nodes, run, read_node)?;
        parts.lists = all(&mut self.select_lists, run, read_list)?;
        parts.items = all(&mut self.select_items, run, read_item)?;
        parts.calls = all(&mut self.select_calls, run, read_ended_call)?;
        let mut rows = self.select_bindings.query([run.to_integer()])?;
        parts.rebound = rows.next()?.map(|row| read_bindings(run, row)).transpose()?;
        Ok(parts)
    }

    fn tasks(&mut self, run: RunId, which: Which) -> Result<Vec<TaskRecord>, StoreError> {
        let [first, last] = run_range(run.shard());
        let only_settled = which == Which::Settled;
        let mut rows = self.select_tasks.query((run.to_string(), first, last, only_settled))?;
        let mut tasks = Vec::new();
        while let Some(row) = rows.next()? {
            tasks.push(self.reader.read(row)?);
        }
        Ok(tasks)
    }
}
