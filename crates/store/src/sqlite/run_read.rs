//! Runs and what belongs to them: look-ups, pages, and what a restart needs.

use std::sync::Arc;

use bytes::Bytes;
use coordinator::{
    EndedCall, ItemEnd, ListRecord, NodeEnd, NodeWord, RestoredRun, RunAbout, RunBindings, RunEnd,
    RunParts, RunRecord, RunWord, SubgraphRecord,
};
use model::{CallLink, Failure, IdempotencyMark, LeaseId, RunId, ShardId, TaskId};
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row};

use super::record::{
    RecordReader, SELECT_OF_RUN, all, bytes_if_any, fact_if_any, moment, moment_if_any,
    parsed_if_any, read_failure, text, text_if_any,
};
use crate::contract::{RunKey, RunPage, RunQuery, StoreError};
use crate::page::{ROWS_PER_LIST_MAX, page_size};
use crate::stored_json;

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
    let (sql, bound) = scan_for(query);
    let mut select = connection.prepare_cached(sql)?;
    let mut rows = match bound {
        Some(bound) => select.query((range.0, range.1, range.2, bound))?,
        None => select.query(range)?,
    };
    let mut page = RunPage::default();
    let mut n_looked_at = 0;
    while let Some(row) = rows.next()? {
        let id = row.get(column::ID)?;
        let end = read_word(row).map_err(|error| naming(id, error))?;
        let has_begun = moment_if_any(row, column::BEGAN_AT)?.is_some();
        let client_id = text_if_any(row, column::CLIENT_ID)?;
        if query.admits((end, has_begun), client_id, text(row, column::WORKFLOW_ID)?) {
            page.runs.push(read_short(row)?);
        }
        n_looked_at += 1;
        if page.runs.len() == page_size(query.limit) || n_looked_at == ROWS_PER_LIST_MAX {
            page.next_before = Some(run_id(id)?);
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
    Parts::new(&snapshot)?.read(run, false)
}

/// Every live run of a shard, oldest first.
pub(super) fn restore_runs(
    connection: &Connection,
    shard: ShardId,
) -> Result<Vec<RestoredRun>, StoreError> {
    let mut parts = Parts::new(connection)?;
    let mut select = connection.prepare(include_str!("queries/select_live_runs.sql"))?;
    all(&mut select, run_range(shard), |row| {
        let record = read_whole(row)?;
        let parts = parts.read(record.id, true)?;
        Ok(RestoredRun { record, parts })
    })
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
            select_tasks: connection.prepare_cached(&SELECT_OF_RUN)?,
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

    /// All tasks of the run, or only the settled ones, and everything else.
    fn read(&mut self, run: RunId, only_settled: bool) -> Result<RunParts, StoreError> {
        let id = [run.to_integer()];
        let [first, last] = run_range(run.shard());
        let mut closed = Vec::new();
        Ok(RunParts {
            tasks: all(
                &mut self.select_tasks,
                (run.to_string(), first, last, only_settled),
                |row| self.reader.read(row),
            )?,
            frames: all(&mut self.select_frames, id, |row| {
                let (frame, end) = read_frame(row)?;
                closed.extend(end.map(|end| (frame.number, end)));
                Ok(frame)
            })?,
            closed,
            ended: all(&mut self.select_nodes, id, read_node)?,
            lists: all(&mut self.select_lists, id, read_list)?,
            items: all(&mut self.select_items, id, read_item)?,
            calls: all(&mut self.select_calls, id, read_ended_call)?,
            rebound: all(&mut self.select_bindings, id, |row| read_bindings(run, row))?.pop(),
        })
    }
}

/// The columns, in the order in which all queries of runs name them.
mod column {
    pub(super) const ID: usize = 0;
    pub(super) const NAME: usize = 1;
    pub(super) const WORKFLOW_ID: usize = 2;
    pub(super) const WORKFLOW_VERSION: usize = 3;
    pub(super) const DEFINITION_HASH: usize = 4;
    pub(super) const CLIENT_ID: usize = 5;
    pub(super) const RETRY_OF: usize = 6;
    pub(super) const STARTED_BY: usize = 7;
    pub(super) const NODES: usize = 8;
    pub(super) const IDEMPOTENCY_KEY: usize = 9;
    pub(super) const FINGERPRINT: usize = 10;
    pub(super) const CREATED_AT: usize = 11;
    pub(super) const BEGAN_AT: usize = 12;
    pub(super) const OUTCOME: usize = 13;
    pub(super) const ENDED_AT: usize = 14;
    pub(super) const FAILED_NODE: usize = 15;
    pub(super) const FAILURE_CODE: usize = 16;
    pub(super) const FAILURE_REASON: usize = 17;
    // What follows is left out where runs are listed.
    pub(super) const OUTPUTS: usize = 19;
    pub(super) const INPUTS: usize = 20;
    pub(super) const DEFINITION: usize = 21;
}

/// A row of `select_run.sql` or `select_live_runs.sql`.
fn read_whole(row: &Row<'_>) -> Result<RunRecord, StoreError> {
    let mut record = read_short(row)?;
    let whole = || {
        let definition = bytes_if_any(row, column::DEFINITION)?;
        record.definition =
            definition.ok_or_else(|| StoreError::Damaged("its definition is missing".into()))?;
        record.inputs = bytes_if_any(row, column::INPUTS)?.unwrap_or_default();
        if let Some(end) = &mut record.end {
            end.failure = read_failure(row, column::FAILURE_CODE)?;
            end.outputs = bytes_if_any(row, column::OUTPUTS)?;
        }
        Ok(record)
    };
    let id = row.get(column::ID)?;
    whole().map_err(|error| naming(id, error))
}

/// A row of any query of runs, without what may be long.
fn read_short(row: &Row<'_>) -> Result<RunRecord, StoreError> {
    let id = row.get(column::ID)?;
    run_id(id).and_then(|run| read_columns(run, row)).map_err(|error| naming(id, error))
}

fn read_columns(id: RunId, row: &Row<'_>) -> Result<RunRecord, StoreError> {
    let retry_of: Option<i64> = row.get(column::RETRY_OF)?;
    let version: Option<i64> = row.get(column::WORKFLOW_VERSION)?;
    let about = RunAbout {
        name: row.get(column::NAME)?,
        workflow_id: row.get(column::WORKFLOW_ID)?,
        workflow_version: version.map(i64::cast_unsigned),
        definition_hash: row.get(column::DEFINITION_HASH)?,
        client_id: row.get(column::CLIENT_ID)?,
        retry_of: retry_of.map(run_id).transpose()?,
        started_by: row.get(column::STARTED_BY)?,
        nodes: row.get(column::NODES)?,
    };
    let key = parsed_if_any(row, column::IDEMPOTENCY_KEY)?;
    let fingerprint: Option<i64> = row.get(column::FINGERPRINT)?;
    Ok(RunRecord {
        id,
        definition: Bytes::new(),
        inputs: Bytes::new(),
        idempotency: key.zip(fingerprint).map(|(key, fingerprint)| IdempotencyMark {
            key,
            fingerprint: fingerprint.cast_unsigned(),
        }),
        created_at: moment(row, column::CREATED_AT)?,
        began_at: moment_if_any(row, column::BEGAN_AT)?,
        about: Arc::new(about),
        end: read_end(row)?.map(Box::new),
    })
}

fn read_word(row: &Row<'_>) -> Result<Option<RunWord>, StoreError> {
    let Some(word) = text_if_any(row, column::OUTCOME)? else { return Ok(None) };
    let known = RunWord::from_word(word);
    known.map(Some).ok_or_else(|| StoreError::Damaged(format!("{word} is no end of a run")))
}

fn read_end(row: &Row<'_>) -> Result<Option<RunEnd>, StoreError> {
    let Some(word) = read_word(row)? else { return Ok(None) };
    let code: Option<String> = row.get(column::FAILURE_CODE)?;
    let reason: Option<String> = row.get(column::FAILURE_REASON)?;
    Ok(Some(RunEnd {
        word,
        at: moment(row, column::ENDED_AT)?,
        node: row.get(column::FAILED_NODE)?,
        failure: code.zip(reason).map(|(code, reason)| Failure::new(code, reason)),
        outputs: None,
    }))
}

/// A row of `select_run_frames.sql`: the frame, and its end if it has one.
fn read_frame(row: &Row<'_>) -> Result<(SubgraphRecord, Option<NodeEnd>), StoreError> {
    let frame = SubgraphRecord {
        number: row.get(0)?,
        graph: row.get(1)?,
        parent: row.get(2)?,
        node: row.get(3)?,
        item: row.get(4)?,
        call: read_call(row)?.map(Box::new),
        opened_at: moment(row, 8)?,
        inputs: bytes_if_any(row, 9)?.unwrap_or_default(),
        fact: fact_if_any(row, 18)?,
    };
    Ok((frame, read_node_end(row, 10)?))
}

fn read_call(row: &Row<'_>) -> Result<Option<CallLink>, StoreError> {
    let Some(task) = row.get(5)? else { return Ok(None) };
    let caller = LeaseId { task: task_id(task)?, epoch: row.get(6)? };
    Ok(Some(CallLink { caller, request: text(row, 7)?.into() }))
}

/// A row of `select_run_nodes.sql`: frame, node, end.
fn read_node(row: &Row<'_>) -> Result<(u32, u32, NodeEnd), StoreError> {
    let end = read_node_end(row, 2)?;
    let end = end.ok_or_else(|| StoreError::Damaged("a node of a run has no end".into()))?;
    Ok((row.get(0)?, row.get(1)?, end))
}

/// A row of `run_lists`.
fn read_list(row: &Row<'_>) -> Result<ListRecord, StoreError> {
    let (frame, node, length) = (row.get(0)?, row.get(1)?, row.get(2)?);
    Ok(ListRecord { frame, node, length, fact: fact_if_any(row, 3)? })
}

/// A row of `select_run_items.sql`.
fn read_item(row: &Row<'_>) -> Result<ItemEnd, StoreError> {
    let end = read_node_end(row, 3)?;
    let end = end.ok_or_else(|| StoreError::Damaged("an element of a run has no end".into()))?;
    Ok(ItemEnd { frame: row.get(0)?, node: row.get(1)?, item: row.get(2)?, end })
}

/// A row of `select_run_calls.sql`.
fn read_ended_call(row: &Row<'_>) -> Result<EndedCall, StoreError> {
    let caller = LeaseId { task: task_id(row.get(0)?)?, epoch: row.get(1)? };
    Ok(EndedCall {
        call: CallLink { caller, request: text(row, 2)?.into() },
        at: moment(row, 3)?,
        failure: read_failure(row, 4)?,
        fact: fact_if_any(row, 7)?,
    })
}

/// What a person said of the run's workers.
fn read_bindings(run: RunId, row: &Row<'_>) -> Result<Box<RunBindings>, StoreError> {
    let bindings = stored_json::read("bindings", text(row, 0)?);
    bindings.map(Box::new).map_err(|error| naming(run.to_integer(), error))
}

/// Eight columns side by side, from its word to the number of the fact.
fn read_node_end(row: &Row<'_>, first: usize) -> Result<Option<NodeEnd>, StoreError> {
    let Some(word) = text_if_any(row, first)? else { return Ok(None) };
    let word = NodeWord::from_word(word)
        .ok_or_else(|| StoreError::Damaged(format!("{word} is no end of a node")))?;
    let reused: Option<i64> = row.get(first + 2)?;
    Ok(Some(NodeEnd {
        word,
        at: moment(row, first + 1)?,
        reused: reused.map(task_id).transpose()?,
        failure: read_failure(row, first + 3)?,
        result: bytes_if_any(row, first + 6)?,
        fact: fact_if_any(row, first + 7)?,
    }))
}

fn run_id(id: i64) -> Result<RunId, StoreError> {
    RunId::from_integer(id).ok_or_else(|| StoreError::Damaged(format!("{id} is no run's number")))
}

fn task_id(id: i64) -> Result<TaskId, StoreError> {
    TaskId::from_integer(id).ok_or_else(|| StoreError::Damaged(format!("{id} is no task's number")))
}

/// A person who must mend a row needs to know which one.
fn naming(id: i64, error: StoreError) -> StoreError {
    match error {
        StoreError::Damaged(why) => StoreError::Damaged(format!("run (row {id}): {why}")),
        StoreError::Unavailable(_) | StoreError::InUse(_) => error,
    }
}
