//! Rows become runs, frames and ends again.

use std::sync::Arc;

use bytes::Bytes;
use coordinator::{
    EndedCall, ItemEnd, ListRecord, NodeEnd, RunAbout, RunBindings, RunEnd, RunRecord, RunWord,
    SubgraphRecord,
};
use model::{CallLink, Failure, IdempotencyMark, LeaseId, RunId, TaskId};
use rusqlite::Row;

use super::record::{
    bytes_if_any, fact_if_any, moment, moment_if_any, parsed_if_any, read_failure, text,
    text_if_any,
};
use crate::contract::StoreError;
use crate::stored_json;
use crate::words::{node_end_from_text, run_end_from_text};

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

/// What a page needs to know of a row before it is worth reading.
pub(super) struct Glance<'r> {
    pub id: RunId,
    pub end: Option<RunWord>,
    pub has_begun: bool,
    pub client_id: Option<&'r str>,
    pub workflow_id: &'r str,
}

pub(super) fn glance<'r>(row: &'r Row<'_>) -> Result<Glance<'r>, StoreError> {
    let id = row.get(column::ID)?;
    Ok(Glance {
        id: run_id(id)?,
        end: read_word(row).map_err(|error| naming(id, error))?,
        has_begun: moment_if_any(row, column::BEGAN_AT)?.is_some(),
        client_id: text_if_any(row, column::CLIENT_ID)?,
        workflow_id: text(row, column::WORKFLOW_ID)?,
    })
}

/// A row of `select_run.sql` or `select_live_runs.sql`.
pub(super) fn read_whole(row: &Row<'_>) -> Result<RunRecord, StoreError> {
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
pub(super) fn read_short(row: &Row<'_>) -> Result<RunRecord, StoreError> {
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
    let known = run_end_from_text(word);
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
pub(super) fn read_frame(row: &Row<'_>) -> Result<(SubgraphRecord, Option<NodeEnd>), StoreError> {
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
pub(super) fn read_node(row: &Row<'_>) -> Result<(u32, u32, NodeEnd), StoreError> {
    let end = read_node_end(row, 2)?;
    let end = end.ok_or_else(|| StoreError::Damaged("a node of a run has no end".into()))?;
    Ok((row.get(0)?, row.get(1)?, end))
}

/// A row of `run_lists`.
pub(super) fn read_list(row: &Row<'_>) -> Result<ListRecord, StoreError> {
    let (frame, node, length) = (row.get(0)?, row.get(1)?, row.get(2)?);
    Ok(ListRecord { frame, node, length, fact: fact_if_any(row, 3)? })
}

/// A row of `select_run_items.sql`.
pub(super) fn read_item(row: &Row<'_>) -> Result<ItemEnd, StoreError> {
    let end = read_node_end(row, 3)?;
    let end = end.ok_or_else(|| StoreError::Damaged("an element of a run has no end".into()))?;
    Ok(ItemEnd { frame: row.get(0)?, node: row.get(1)?, item: row.get(2)?, end })
}

/// A row of `select_run_calls.sql`.
pub(super) fn read_ended_call(row: &Row<'_>) -> Result<EndedCall, StoreError> {
    let caller = LeaseId { task: task_id(row.get(0)?)?, epoch: row.get(1)? };
    Ok(EndedCall {
        call: CallLink { caller, request: text(row, 2)?.into() },
        at: moment(row, 3)?,
        failure: read_failure(row, 4)?,
        fact: fact_if_any(row, 7)?,
    })
}

/// What a person said of the run's workers.
pub(super) fn read_bindings(run: RunId, row: &Row<'_>) -> Result<Box<RunBindings>, StoreError> {
    let bindings = stored_json::read("bindings", text(row, 0)?);
    bindings.map(Box::new).map_err(|error| naming(run.to_integer(), error))
}

/// Eight columns side by side, from its word to the number of the fact.
fn read_node_end(row: &Row<'_>, first: usize) -> Result<Option<NodeEnd>, StoreError> {
    let Some(word) = text_if_any(row, first)? else { return Ok(None) };
    let word = node_end_from_text(word)
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
