//! The rows that facts about runs become: one statement each.

use coordinator::{
    EndedCall, ItemEnd, ListRecord, NodeEnd, RunChange, RunEnd, RunNumbers, RunRecord,
    SubgraphRecord, TaskFacts,
};
use model::{RunId, TaskId, Timestamp};
use rusqlite::{CachedStatement, ffi, params};

use super::commit::{Statements, Text, bind_failure, fact_column, meaning, must_be_one};
use super::error::WriteError;
use crate::rows::Contradiction;
use crate::stored_json;

static INSERT_RUN: &str = include_str!("queries/insert_run.sql");
static INSERT_DEFINITION: &str =
    "INSERT INTO run_definitions (run_id, inputs, definition) VALUES (?1, ?2, ?3)";
/// An older version may have let it begin without a word.
static BEGIN_RUN: &str = "UPDATE runs SET began_at = coalesce(began_at, ?2)
    WHERE id = ?1 AND outcome IS NULL";
static SETTLE_RUN: &str = include_str!("queries/settle_run.sql");
static INSERT_FRAME: &str = include_str!("queries/insert_run_frame.sql");
static CLOSE_FRAME: &str = include_str!("queries/close_run_frame.sql");
static INSERT_NODE: &str = include_str!("queries/insert_run_node.sql");
static INSERT_LIST: &str = include_str!("queries/insert_run_list.sql");
static INSERT_ITEM: &str = include_str!("queries/insert_run_item.sql");
static INSERT_CALL: &str = include_str!("queries/insert_run_call.sql");
static PUT_BINDINGS: &str = include_str!("queries/put_run_bindings.sql");
/// What became true of a task later in the same transaction has been written already.
static NUMBER_TASK: &str = "UPDATE tasks
    SET run_begun = coalesce(run_begun, ?2), run_granted = coalesce(run_granted, ?3),
        run_settled = coalesce(run_settled, ?4) WHERE id = ?1";
static NUMBER_OPENED: &str =
    "UPDATE run_frames SET opened_fact = ?3 WHERE run_id = ?1 AND number = ?2";
static NUMBER_CLOSED: &str = "UPDATE run_frames SET closed_fact = ?3
    WHERE run_id = ?1 AND number = ?2 AND outcome IS NOT NULL";
static NUMBER_NODE: &str =
    "UPDATE run_nodes SET fact = ?4 WHERE run_id = ?1 AND frame = ?2 AND node = ?3";
static DELETE_BINDINGS: &str = "DELETE FROM run_bindings WHERE run_id = ?1";

/// Writes facts about runs inside the transaction that is open, in order.
pub(super) fn write(
    statements: &mut Statements<'_>,
    changes: &[&RunChange],
) -> Result<(), WriteError> {
    for change in changes {
        match change {
            RunChange::RunStarted(record) => statements.start(record)?,
            RunChange::RunBegan { run, at } => {
                let begun =
                    statements.get(BEGIN_RUN)?.execute([run.to_integer(), at.to_integer()])?;
                must_be_one(begun, Contradiction::RunNotLive(*run))?;
            }
            RunChange::SubgraphOpened { run, frame, .. } => statements.open_frame(*run, frame)?,
            RunChange::SubgraphClosed { run, frame, end } => {
                let statement = statements.get(CLOSE_FRAME)?;
                bind_end(statement, (*run, *frame), end)?;
                let not_open = Contradiction::FrameNotOpen(*run, *frame);
                must_be_one(statement.raw_execute()?, not_open)?;
            }
            RunChange::NodeEnded { run, frame, node, end, .. } => {
                let statement = statements.get(INSERT_NODE)?;
                bind_end(statement, (*run, *frame), end)?;
                statement.raw_bind_parameter(11, node)?;
                let twice = Contradiction::NodeEndedTwice(*run, *frame, *node);
                if_live(statement.raw_execute(), *run, twice)?;
            }
            RunChange::ListBegun { run, list, .. } => {
                let ListRecord { frame, node, length, fact } = *list;
                let row = params![run.to_integer(), frame, node, length, fact_column(fact)];
                let twice = Contradiction::ListBegunTwice(*run, frame, node);
                if_live(statements.get(INSERT_LIST)?.execute(row), *run, twice)?;
            }
            RunChange::ItemEnded { run, item } => {
                let ItemEnd { frame, node, item, end } = &**item;
                let statement = statements.get(INSERT_ITEM)?;
                bind_end(statement, (*run, *frame), end)?;
                statement.raw_bind_parameter(11, node)?;
                statement.raw_bind_parameter(12, item)?;
                let twice = Contradiction::ItemEndedTwice(*run, *frame, *node);
                if_live(statement.raw_execute(), *run, twice)?;
            }
            RunChange::CallEnded { run, call } => statements.end_call(*run, call)?,
            RunChange::Numbered { run, numbers } => statements.number(*run, numbers)?,
            RunChange::Rebound { run, bindings } => {
                let row = params![run.to_integer(), stored_json::write(bindings)];
                let written = statements.get(PUT_BINDINGS)?.execute(row)?;
                must_be_one(written, Contradiction::RunNotLive(*run))?;
            }
            RunChange::RunSettled { run, end } => statements.settle(*run, end)?,
        }
    }
    Ok(())
}

impl Statements<'_> {
    fn start(&mut self, record: &RunRecord) -> Result<(), WriteError> {
        let statement = self.get(INSERT_RUN)?;
        let about = &record.about;
        statement.raw_bind_parameter(1, record.id.to_integer())?;
        statement.raw_bind_parameter(2, about.name.as_str())?;
        statement.raw_bind_parameter(3, about.workflow_id.as_str())?;
        statement.raw_bind_parameter(4, about.workflow_version.map(u64::cast_signed))?;
        statement.raw_bind_parameter(5, about.definition_hash.as_str())?;
        statement.raw_bind_parameter(6, about.client_id.as_deref())?;
        statement.raw_bind_parameter(7, about.retry_of.map(RunId::to_integer))?;
        statement.raw_bind_parameter(8, about.started_by.as_str())?;
        statement.raw_bind_parameter(9, about.nodes)?;
        let mark = record.idempotency.as_ref();
        statement.raw_bind_parameter(10, mark.map(|mark| mark.key.as_str()))?;
        statement.raw_bind_parameter(11, mark.map(|mark| mark.fingerprint.cast_signed()))?;
        statement.raw_bind_parameter(12, record.created_at.to_integer())?;
        statement.raw_bind_parameter(13, record.began_at.map(Timestamp::to_integer))?;
        statement.raw_execute().map_err(|error| start_meaning(error, record.id))?;
        let row = params![record.id.to_integer(), Text(&record.inputs), Text(&record.definition)];
        self.get(INSERT_DEFINITION)?.execute(row)?;
        record.end.as_ref().map_or(Ok(()), |end| self.settle(record.id, end))
    }

    fn settle(&mut self, run: RunId, end: &RunEnd) -> Result<(), WriteError> {
        let statement = self.get(SETTLE_RUN)?;
        statement.raw_bind_parameter(1, run.to_integer())?;
        statement.raw_bind_parameter(2, end.word.word())?;
        statement.raw_bind_parameter(3, end.at.to_integer())?;
        statement.raw_bind_parameter(4, end.node.as_deref())?;
        bind_failure(statement, 5, end.failure.as_ref())?;
        statement.raw_bind_parameter(8, end.outputs.as_deref().map(Text))?;
        must_be_one(statement.raw_execute()?, Contradiction::RunNotLive(run))?;
        self.get(DELETE_BINDINGS)?.execute([run.to_integer()])?;
        Ok(())
    }

    fn open_frame(&mut self, run: RunId, frame: &SubgraphRecord) -> Result<(), WriteError> {
        let call = frame.call.as_deref();
        let row = params![
            run.to_integer(),
            frame.number,
            frame.graph,
            frame.parent,
            frame.node,
            frame.item,
            call.map(|call| call.caller.task.to_integer()),
            call.map(|call| call.caller.epoch),
            call.map(|call| &*call.request),
            frame.opened_at.to_integer(),
            Text(&frame.inputs),
            fact_column(frame.fact),
        ];
        let exists = Contradiction::FrameExists(run, frame.number);
        if_live(self.get(INSERT_FRAME)?.execute(row), run, exists)
    }

    fn end_call(&mut self, run: RunId, ended: &EndedCall) -> Result<(), WriteError> {
        let statement = self.get(INSERT_CALL)?;
        let caller = ended.call.caller;
        statement.raw_bind_parameter(1, run.to_integer())?;
        statement.raw_bind_parameter(2, caller.task.to_integer())?;
        statement.raw_bind_parameter(3, caller.epoch)?;
        statement.raw_bind_parameter(4, &*ended.call.request)?;
        statement.raw_bind_parameter(5, ended.at.to_integer())?;
        bind_failure(statement, 6, ended.failure.as_ref())?;
        statement.raw_bind_parameter(9, fact_column(ended.fact))?;
        if_live(statement.raw_execute(), run, Contradiction::CallEndedTwice(run, caller))
    }

    /// Writes the numbers of facts that an older version wrote. It happens once per run.
    fn number(&mut self, run: RunId, numbers: &RunNumbers) -> Result<(), WriteError> {
        let id = run.to_integer();
        let once = |written: usize| must_be_one(written, Contradiction::Unnumbered(run));
        for (task, TaskFacts { begun, granted, settled }) in &numbers.tasks {
            let facts = [begun, granted, settled].map(|fact| fact_column(*fact));
            let row = params![task.to_integer(), facts[0], facts[1], facts[2]];
            once(self.get(NUMBER_TASK)?.execute(row)?)?;
        }
        for (frame, fact) in &numbers.opened {
            once(self.get(NUMBER_OPENED)?.execute((id, frame, fact.get().cast_signed()))?)?;
        }
        for (frame, fact) in &numbers.closed {
            once(self.get(NUMBER_CLOSED)?.execute((id, frame, fact.get().cast_signed()))?)?;
        }
        for (frame, node, fact) in &numbers.ended {
            once(self.get(NUMBER_NODE)?.execute((id, frame, node, fact.get().cast_signed()))?)?;
        }
        for list in &numbers.lists {
            let ListRecord { frame, node, length, fact } = *list;
            once(self.get(INSERT_LIST)?.execute((id, frame, node, length, fact_column(fact)))?)?;
        }
        Ok(())
    }
}

/// A new row of a live run: nothing is written for one that has ended.
fn if_live(
    written: Result<usize, rusqlite::Error>,
    run: RunId,
    twice: Contradiction,
) -> Result<(), WriteError> {
    let n_written = written.map_err(|error| meaning(error, twice))?;
    must_be_one(n_written, Contradiction::RunNotLive(run))
}

/// Parameters 1 to 10: where something ended, how, and the number of the fact.
fn bind_end(
    statement: &mut CachedStatement<'_>,
    (run, frame): (RunId, u32),
    end: &NodeEnd,
) -> Result<(), rusqlite::Error> {
    statement.raw_bind_parameter(1, run.to_integer())?;
    statement.raw_bind_parameter(2, frame)?;
    statement.raw_bind_parameter(3, end.word.word())?;
    statement.raw_bind_parameter(4, end.at.to_integer())?;
    statement.raw_bind_parameter(5, end.reused.map(TaskId::to_integer))?;
    bind_failure(statement, 6, end.failure.as_ref())?;
    statement.raw_bind_parameter(9, end.result.as_deref().map(Text))?;
    statement.raw_bind_parameter(10, fact_column(end.fact))
}

/// The id and the key of a run are each its own.
fn start_meaning(error: rusqlite::Error, run: RunId) -> WriteError {
    match error.sqlite_error().map(|error| error.extended_code) {
        Some(ffi::SQLITE_CONSTRAINT_UNIQUE) => Contradiction::RunKeyTaken(run).into(),
        _ => meaning(error, Contradiction::RunExists(run)),
    }
}
