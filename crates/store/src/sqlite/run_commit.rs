//! The rows that facts about runs become: one statement each.

use coordinator::{
    EndedCall, ItemEnd, ListRecord, NodeEnd, RunBindings, RunChange, RunEnd, RunNumbers, RunRecord,
    SubgraphRecord, TaskFacts,
};
use model::{RunId, TaskId, Timestamp};
use rusqlite::{CachedStatement, Connection, ffi};

use super::commit::{Text, fact_column, meaning};
use super::error::WriteError;
use crate::rows::Contradiction;
use crate::stored_json;

const INSERT_RUN: &str = include_str!("queries/insert_run.sql");
const INSERT_DEFINITION: &str =
    "INSERT INTO run_definitions (run_id, inputs, definition) VALUES (?1, ?2, ?3)";
/// An older version may have let it begin without a word.
const BEGIN_RUN: &str = "UPDATE runs SET began_at = coalesce(began_at, ?2)
    WHERE id = ?1 AND outcome IS NULL";
const SETTLE_RUN: &str = include_str!("queries/settle_run.sql");
const INSERT_FRAME: &str = include_str!("queries/insert_run_frame.sql");
const CLOSE_FRAME: &str = include_str!("queries/close_run_frame.sql");
const INSERT_NODE: &str = include_str!("queries/insert_run_node.sql");
const INSERT_LIST: &str = include_str!("queries/insert_run_list.sql");
const INSERT_ITEM: &str = include_str!("queries/insert_run_item.sql");
const INSERT_CALL: &str = include_str!("queries/insert_run_call.sql");
const PUT_BINDINGS: &str = include_str!("queries/put_run_bindings.sql");
/// What became true of a task later in the same transaction has been written already.
const NUMBER_TASK: &str = "UPDATE tasks
    SET run_begun = coalesce(run_begun, ?2), run_granted = coalesce(run_granted, ?3),
        run_settled = coalesce(run_settled, ?4) WHERE id = ?1";
const NUMBER_OPENED: &str =
    "UPDATE run_frames SET opened_fact = ?3 WHERE run_id = ?1 AND number = ?2";
const NUMBER_CLOSED: &str = "UPDATE run_frames SET closed_fact = ?3
    WHERE run_id = ?1 AND number = ?2 AND outcome IS NOT NULL";
const NUMBER_NODE: &str =
    "UPDATE run_nodes SET fact = ?4 WHERE run_id = ?1 AND frame = ?2 AND node = ?3";
const DELETE_BINDINGS: &str = "DELETE FROM run_bindings WHERE run_id = ?1";

/// Writes facts about runs inside the transaction that is open, in order.
pub(super) fn write(connection: &Connection, changes: &[&RunChange]) -> Result<(), WriteError> {
    // Most transactions have none, and need not look the statements up.
    if changes.is_empty() {
        return Ok(());
    }
    let mut statements = Statements::prepare(connection)?;
    for change in changes {
        match change {
            RunChange::RunStarted(record) => statements.start(record)?,
            RunChange::RunBegan { run, at } => statements.begin(*run, *at)?,
            RunChange::SubgraphOpened { run, frame, .. } => statements.open_frame(*run, frame)?,
            RunChange::SubgraphClosed { run, frame, end } => {
                statements.close_frame(*run, *frame, end)?;
            }
            RunChange::NodeEnded { run, frame, node, end, .. } => {
                statements.end_node(*run, *frame, *node, end)?;
            }
            RunChange::ListBegun { run, list, .. } => statements.begin_list(*run, list)?,
            RunChange::ItemEnded { run, item } => statements.end_item(*run, item)?,
            RunChange::CallEnded { run, call } => statements.end_call(*run, call)?,
            RunChange::Numbered { run, numbers } => number(connection, *run, numbers)?,
            RunChange::Rebound { run, bindings } => statements.rebind(*run, bindings)?,
            RunChange::RunSettled { run, end } => statements.settle(*run, end)?,
        }
    }
    Ok(())
}

/// Looked up once per transaction.
struct Statements<'c> {
    insert_run: CachedStatement<'c>,
    insert_definition: CachedStatement<'c>,
    begin_run: CachedStatement<'c>,
    settle_run: CachedStatement<'c>,
    insert_frame: CachedStatement<'c>,
    close_frame: CachedStatement<'c>,
    insert_node: CachedStatement<'c>,
    insert_list: CachedStatement<'c>,
    insert_item: CachedStatement<'c>,
    insert_call: CachedStatement<'c>,
    put_bindings: CachedStatement<'c>,
    delete_bindings: CachedStatement<'c>,
}

impl<'c> Statements<'c> {
    fn prepare(connection: &'c Connection) -> Result<Self, rusqlite::Error> {
        Ok(Self {
            insert_run: connection.prepare_cached(INSERT_RUN)?,
            insert_definition: connection.prepare_cached(INSERT_DEFINITION)?,
            begin_run: connection.prepare_cached(BEGIN_RUN)?,
            settle_run: connection.prepare_cached(SETTLE_RUN)?,
            insert_frame: connection.prepare_cached(INSERT_FRAME)?,
            close_frame: connection.prepare_cached(CLOSE_FRAME)?,
            insert_node: connection.prepare_cached(INSERT_NODE)?,
            insert_list: connection.prepare_cached(INSERT_LIST)?,
            insert_item: connection.prepare_cached(INSERT_ITEM)?,
            insert_call: connection.prepare_cached(INSERT_CALL)?,
            put_bindings: connection.prepare_cached(PUT_BINDINGS)?,
            delete_bindings: connection.prepare_cached(DELETE_BINDINGS)?,
        })
    }

    fn start(&mut self, record: &RunRecord) -> Result<(), WriteError> {
        let statement = &mut self.insert_run;
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
        self.insert_definition(record)?;
        record.end.as_ref().map_or(Ok(()), |end| self.settle(record.id, end))
    }

    fn insert_definition(&mut self, record: &RunRecord) -> Result<(), WriteError> {
        let statement = &mut self.insert_definition;
        statement.raw_bind_parameter(1, record.id.to_integer())?;
        statement.raw_bind_parameter(2, Text(&record.inputs))?;
        statement.raw_bind_parameter(3, Text(&record.definition))?;
        statement.raw_execute()?;
        Ok(())
    }

    fn begin(&mut self, run: RunId, at: Timestamp) -> Result<(), WriteError> {
        let statement = &mut self.begin_run;
        statement.raw_bind_parameter(1, run.to_integer())?;
        statement.raw_bind_parameter(2, at.to_integer())?;
        must_be_one(statement.raw_execute()?, Contradiction::RunNotLive(run))
    }

    fn settle(&mut self, run: RunId, end: &RunEnd) -> Result<(), WriteError> {
        let statement = &mut self.settle_run;
        let failure = end.failure.as_ref();
        statement.raw_bind_parameter(1, run.to_integer())?;
        statement.raw_bind_parameter(2, end.word.word())?;
        statement.raw_bind_parameter(3, end.at.to_integer())?;
        statement.raw_bind_parameter(4, end.node.as_deref())?;
        statement.raw_bind_parameter(5, failure.map(|failure| failure.code.as_str()))?;
        statement.raw_bind_parameter(6, failure.map(|failure| failure.reason.as_str()))?;
        let details = failure.and_then(|failure| failure.details.as_deref());
        statement.raw_bind_parameter(7, details.map(Text))?;
        statement.raw_bind_parameter(8, end.outputs.as_deref().map(Text))?;
        must_be_one(statement.raw_execute()?, Contradiction::RunNotLive(run))?;
        self.delete_bindings.raw_bind_parameter(1, run.to_integer())?;
        self.delete_bindings.raw_execute()?;
        Ok(())
    }

    fn rebind(&mut self, run: RunId, bindings: &RunBindings) -> Result<(), WriteError> {
        let statement = &mut self.put_bindings;
        statement.raw_bind_parameter(1, run.to_integer())?;
        statement.raw_bind_parameter(2, stored_json::write(bindings))?;
        must_be_one(statement.raw_execute()?, Contradiction::RunNotLive(run))
    }

    fn open_frame(&mut self, run: RunId, frame: &SubgraphRecord) -> Result<(), WriteError> {
        let statement = &mut self.insert_frame;
        let call = frame.call.as_deref();
        statement.raw_bind_parameter(1, run.to_integer())?;
        statement.raw_bind_parameter(2, frame.number)?;
        statement.raw_bind_parameter(3, frame.graph)?;
        statement.raw_bind_parameter(4, frame.parent)?;
        statement.raw_bind_parameter(5, frame.node)?;
        statement.raw_bind_parameter(6, frame.item)?;
        statement.raw_bind_parameter(7, call.map(|call| call.caller.task.to_integer()))?;
        statement.raw_bind_parameter(8, call.map(|call| call.caller.epoch))?;
        statement.raw_bind_parameter(9, call.map(|call| &*call.request))?;
        statement.raw_bind_parameter(10, frame.opened_at.to_integer())?;
        statement.raw_bind_parameter(11, Text(&frame.inputs))?;
        statement.raw_bind_parameter(12, fact_column(frame.fact))?;
        let exists = Contradiction::FrameExists(run, frame.number);
        let n_inserted = statement.raw_execute().map_err(|error| meaning(error, exists))?;
        must_be_one(n_inserted, Contradiction::RunNotLive(run))
    }

    fn close_frame(&mut self, run: RunId, frame: u32, end: &NodeEnd) -> Result<(), WriteError> {
        let statement = &mut self.close_frame;
        bind_end(statement, (run, frame), end)?;
        must_be_one(statement.raw_execute()?, Contradiction::FrameNotOpen(run, frame))
    }

    fn begin_list(&mut self, run: RunId, list: &ListRecord) -> Result<(), WriteError> {
        let ListRecord { frame, node, length, fact } = *list;
        let statement = &mut self.insert_list;
        statement.raw_bind_parameter(1, run.to_integer())?;
        statement.raw_bind_parameter(2, frame)?;
        statement.raw_bind_parameter(3, node)?;
        statement.raw_bind_parameter(4, length)?;
        statement.raw_bind_parameter(5, fact_column(fact))?;
        let twice = Contradiction::ListBegunTwice(run, frame, node);
        let n_inserted = statement.raw_execute().map_err(|error| meaning(error, twice))?;
        must_be_one(n_inserted, Contradiction::RunNotLive(run))
    }

    fn end_item(&mut self, run: RunId, item: &ItemEnd) -> Result<(), WriteError> {
        let statement = &mut self.insert_item;
        bind_end(statement, (run, item.frame), &item.end)?;
        statement.raw_bind_parameter(11, item.node)?;
        statement.raw_bind_parameter(12, item.item)?;
        let twice = Contradiction::ItemEndedTwice(run, item.frame, item.node);
        let n_inserted = statement.raw_execute().map_err(|error| meaning(error, twice))?;
        must_be_one(n_inserted, Contradiction::RunNotLive(run))
    }

    fn end_call(&mut self, run: RunId, ended: &EndedCall) -> Result<(), WriteError> {
        let statement = &mut self.insert_call;
        let (caller, failure) = (ended.call.caller, ended.failure.as_ref());
        statement.raw_bind_parameter(1, run.to_integer())?;
        statement.raw_bind_parameter(2, caller.task.to_integer())?;
        statement.raw_bind_parameter(3, caller.epoch)?;
        statement.raw_bind_parameter(4, &*ended.call.request)?;
        statement.raw_bind_parameter(5, ended.at.to_integer())?;
        statement.raw_bind_parameter(6, failure.map(|failure| failure.code.as_str()))?;
        statement.raw_bind_parameter(7, failure.map(|failure| failure.reason.as_str()))?;
        let details = failure.and_then(|failure| failure.details.as_deref());
        statement.raw_bind_parameter(8, details.map(Text))?;
        statement.raw_bind_parameter(9, fact_column(ended.fact))?;
        let twice = Contradiction::CallEndedTwice(run, caller);
        let n_inserted = statement.raw_execute().map_err(|error| meaning(error, twice))?;
        must_be_one(n_inserted, Contradiction::RunNotLive(run))
    }

    fn end_node(
        &mut self,
        run: RunId,
        frame: u32,
        node: u32,
        end: &NodeEnd,
    ) -> Result<(), WriteError> {
        let statement = &mut self.insert_node;
        bind_end(statement, (run, frame), end)?;
        statement.raw_bind_parameter(11, node)?;
        let twice = Contradiction::NodeEndedTwice(run, frame, node);
        let n_inserted = statement.raw_execute().map_err(|error| meaning(error, twice))?;
        must_be_one(n_inserted, Contradiction::RunNotLive(run))
    }
}

/// Parameters 1 to 10: where something ended, how, and the number of the fact.
fn bind_end(
    statement: &mut CachedStatement<'_>,
    (run, frame): (RunId, u32),
    end: &NodeEnd,
) -> Result<(), rusqlite::Error> {
    let failure = end.failure.as_ref();
    statement.raw_bind_parameter(1, run.to_integer())?;
    statement.raw_bind_parameter(2, frame)?;
    statement.raw_bind_parameter(3, end.word.word())?;
    statement.raw_bind_parameter(4, end.at.to_integer())?;
    statement.raw_bind_parameter(5, end.reused.map(TaskId::to_integer))?;
    statement.raw_bind_parameter(6, failure.map(|failure| failure.code.as_str()))?;
    statement.raw_bind_parameter(7, failure.map(|failure| failure.reason.as_str()))?;
    let details = failure.and_then(|failure| failure.details.as_deref());
    statement.raw_bind_parameter(8, details.map(Text))?;
    statement.raw_bind_parameter(9, end.result.as_deref().map(Text))?;
    statement.raw_bind_parameter(10, fact_column(end.fact))
}

/// Writes the numbers of facts that an older version wrote. It happens once per run, so the
/// statements are looked up here.
fn number(connection: &Connection, run: RunId, numbers: &RunNumbers) -> Result<(), WriteError> {
    let id = run.to_integer();
    let once = |written: usize| must_be_one(written, Contradiction::Unnumbered(run));
    let mut tasks = connection.prepare_cached(NUMBER_TASK)?;
    for (task, facts) in &numbers.tasks {
        let TaskFacts { begun, granted, settled } = *facts;
        let facts = (fact_column(begun), fact_column(granted), fact_column(settled));
        once(tasks.execute((task.to_integer(), facts.0, facts.1, facts.2))?)?;
    }
    let mut opened = connection.prepare_cached(NUMBER_OPENED)?;
    for (frame, fact) in &numbers.opened {
        once(opened.execute((id, frame, fact.get().cast_signed()))?)?;
    }
    let mut closed = connection.prepare_cached(NUMBER_CLOSED)?;
    for (frame, fact) in &numbers.closed {
        once(closed.execute((id, frame, fact.get().cast_signed()))?)?;
    }
    let mut ended = connection.prepare_cached(NUMBER_NODE)?;
    for (frame, node, fact) in &numbers.ended {
        once(ended.execute((id, frame, node, fact.get().cast_signed()))?)?;
    }
    let mut lists = connection.prepare_cached(INSERT_LIST)?;
    for list in &numbers.lists {
        let ListRecord { frame, node, length, fact } = *list;
        once(lists.execute((id, frame, node, length, fact_column(fact)))?)?;
    }
    Ok(())
}

/// The statement names what it expects; when nothing is written, the coordinator and the store
/// disagree about what is true.
fn must_be_one(n_written: usize, otherwise: Contradiction) -> Result<(), WriteError> {
    if n_written == 1 { Ok(()) } else { Err(otherwise.into()) }
}

/// The id and the key of a run are each its own.
fn start_meaning(error: rusqlite::Error, run: RunId) -> WriteError {
    match error.sqlite_error().map(|error| error.extended_code) {
        Some(ffi::SQLITE_CONSTRAINT_UNIQUE) => Contradiction::RunKeyTaken(run).into(),
        _ => meaning(error, Contradiction::RunExists(run)),
    }
}
