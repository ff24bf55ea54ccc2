//! One transaction: rows that a batch of turns became.

use coordinator::{FactNumber, TaskRecord, TaskState};
use model::{NodeLink, TaskId};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ToSql};

use super::documents;
use super::error::WriteError;
use super::run_commit;
use super::settings;
use super::specs::SpecRows;
use crate::rows::{Batch, Contradiction, EndedWrite, EndingRow, ProgressRow, TaskWrite, WriteKind};
use crate::stored_json;

const INSERT_TASK: &str = include_str!("queries/insert_task.sql");
const UPDATE_LIVE: &str = include_str!("queries/update_live.sql");
const UPDATE_WHOLE: &str = include_str!("queries/update_whole.sql");
const INSERT_PARAMETERS: &str = "INSERT INTO parameters (task_id, json) VALUES (?1, ?2)";
const INSERT_MARK: &str =
    "INSERT INTO idempotency (shard, key, task_id, fingerprint) VALUES (?1, ?2, ?3, ?4)";
const INSERT_ENDED: &str = include_str!("queries/insert_ended_attempt.sql");
const INSERT_ENDED_IF_NEW: &str = include_str!("queries/insert_ended_attempt_if_new.sql");

/// What a task without parameters has; it is not written.
pub(super) const NO_PARAMETERS: &[u8] = b"{}";

/// Writes a batch inside the transaction that is open.
pub(super) fn write(
    connection: &Connection,
    batch: &Batch<'_>,
    specs: &mut SpecRows,
) -> Result<(), WriteError> {
    let mut statements = Statements::prepare(connection)?;
    for write in &batch.tasks {
        match write.kind {
            WriteKind::Insert(record) => {
                let spec_id = specs.id(connection, &record.spec)?;
                statements.insert(record, write, spec_id)?;
            }
            WriteKind::Update { was_settled } => statements.update(write, was_settled)?,
        }
    }
    for ended in &batch.ended {
        statements.end_attempt(ended)?;
    }
    run_commit::write(connection, &batch.runs)?;
    settings::write(connection, &batch.tenants)?;
    documents::write(connection, &batch.documents)
}

/// Looked up once per transaction, because the look-up costs about as much as binding a row.
struct Statements<'c> {
    insert_task: CachedStatement<'c>,
    update_live: CachedStatement<'c>,
    update_whole: CachedStatement<'c>,
    insert_parameters: CachedStatement<'c>,
    insert_mark: CachedStatement<'c>,
    insert_ended: CachedStatement<'c>,
    insert_ended_if_new: CachedStatement<'c>,
}

impl<'c> Statements<'c> {
    fn prepare(connection: &'c Connection) -> Result<Self, rusqlite::Error> {
        Ok(Self {
            insert_task: connection.prepare_cached(INSERT_TASK)?,
            update_live: connection.prepare_cached(UPDATE_LIVE)?,
            update_whole: connection.prepare_cached(UPDATE_WHOLE)?,
            insert_parameters: connection.prepare_cached(INSERT_PARAMETERS)?,
            insert_mark: connection.prepare_cached(INSERT_MARK)?,
            insert_ended: connection.prepare_cached(INSERT_ENDED)?,
            insert_ended_if_new: connection.prepare_cached(INSERT_ENDED_IF_NEW)?,
        })
    }

    fn insert(
        &mut self,
        record: &TaskRecord,
        write: &TaskWrite<'_>,
        spec_id: i64,
    ) -> Result<(), WriteError> {
        let statement = &mut self.insert_task;
        let demand = &record.spec.demand;
        let row = ProgressRow::from(write.progress);
        bind_live(statement, &row)?;
        bind_settled(statement, &row)?;
        statement.raw_bind_parameter(20, write.task.to_integer())?;
        statement.raw_bind_parameter(21, demand.task_type.as_str())?;
        statement.raw_bind_parameter(22, demand.queue.as_str())?;
        statement.raw_bind_parameter(23, record.spec.priority)?;
        statement.raw_bind_parameter(24, spec_id)?;
        let concurrency_key = record.concurrency_key.as_ref();
        statement.raw_bind_parameter(25, concurrency_key.map(model::ConcurrencyKey::as_str))?;
        let mark = record.idempotency.as_ref();
        statement.raw_bind_parameter(26, mark.map(|mark| mark.key.as_str()))?;
        statement.raw_bind_parameter(27, record.created_at.to_integer())?;
        statement.raw_bind_parameter(28, record.run.as_ref().map(model::RunName::as_str))?;
        statement.raw_bind_parameter(29, after_document(&record.after))?;
        statement.raw_bind_parameter(30, record.pin.as_deref().map(stored_json::write))?;
        statement.raw_bind_parameter(31, fact_column(write.facts.begun))?;
        statement.raw_bind_parameter(32, fact_column(write.facts.granted))?;
        statement.raw_bind_parameter(33, fact_column(write.facts.settled))?;
        bind_link(statement, record.link.as_deref())?;
        statement
            .raw_execute()
            .map_err(|error| meaning(error, Contradiction::TaskExists(write.task)))?;
        self.insert_parameters(record)?;
        self.insert_mark(record)
    }

    fn insert_parameters(&mut self, record: &TaskRecord) -> Result<(), WriteError> {
        if record.parameters != NO_PARAMETERS {
            let statement = &mut self.insert_parameters;
            statement.raw_bind_parameter(1, record.id.to_integer())?;
            statement.raw_bind_parameter(2, Text(&record.parameters))?;
            statement.raw_execute()?;
        }
        Ok(())
    }

    fn insert_mark(&mut self, record: &TaskRecord) -> Result<(), WriteError> {
        let Some(mark) = &record.idempotency else { return Ok(()) };
        let statement = &mut self.insert_mark;
        statement.raw_bind_parameter(1, record.id.shard().get())?;
        statement.raw_bind_parameter(2, mark.key.as_str())?;
        statement.raw_bind_parameter(3, record.id.to_integer())?;
        statement.raw_bind_parameter(4, mark.fingerprint.cast_signed())?;
        statement
            .raw_execute()
            .map_err(|error| meaning(error, Contradiction::KeyTaken(record.id)))?;
        Ok(())
    }

    fn update(&mut self, write: &TaskWrite<'_>, was_settled: bool) -> Result<(), WriteError> {
        let row = ProgressRow::from(write.progress);
        let stays_live = !was_settled && !matches!(write.progress.state, TaskState::Settled(_));
        let n_updated = if stays_live {
            let statement = &mut self.update_live;
            bind_live(statement, &row)?;
            statement.raw_bind_parameter(11, write.task.to_integer())?;
            statement.raw_bind_parameter(12, fact_column(write.facts.granted))?;
            statement.raw_execute()?
        } else {
            let statement = &mut self.update_whole;
            bind_live(statement, &row)?;
            bind_settled(statement, &row)?;
            statement.raw_bind_parameter(20, write.task.to_integer())?;
            statement.raw_bind_parameter(21, was_settled)?;
            statement.raw_bind_parameter(22, fact_column(write.facts.granted))?;
            statement.raw_bind_parameter(23, fact_column(write.facts.settled))?;
            statement.raw_execute()?
        };
        must_be_one(n_updated, write.task)
    }

    fn end_attempt(&mut self, ended: &EndedWrite<'_>) -> Result<(), WriteError> {
        let EndedWrite { task, attempt, may_exist } = ended;
        let row = EndingRow::from(&attempt.ending);
        let statement =
            if *may_exist { &mut self.insert_ended_if_new } else { &mut self.insert_ended };
        statement.raw_bind_parameter(1, task.to_integer())?;
        statement.raw_bind_parameter(2, attempt.epoch)?;
        statement.raw_bind_parameter(3, attempt.worker.as_str())?;
        statement.raw_bind_parameter(4, attempt.at.to_integer())?;
        statement.raw_bind_parameter(5, row.ending)?;
        statement.raw_bind_parameter(6, row.report_key)?;
        statement.raw_bind_parameter(7, row.failure.map(|failure| failure.code.as_str()))?;
        statement.raw_bind_parameter(8, row.failure.map(|failure| failure.reason.as_str()))?;
        let details = row.failure.and_then(|failure| failure.details.as_deref());
        statement.raw_bind_parameter(9, details.map(Text))?;
        statement
            .raw_execute()
            .map_err(|error| meaning(error, Contradiction::AttemptEndedTwice(*task)))?;
        Ok(())
    }
}

/// Parameters 1 to 10: what changes while a task lives.
fn bind_live(
    statement: &mut CachedStatement<'_>,
    row: &ProgressRow<'_>,
) -> Result<(), rusqlite::Error> {
    statement.raw_bind_parameter(1, row.state)?;
    statement.raw_bind_parameter(2, row.wait_until)?;
    statement.raw_bind_parameter(3, row.attempt)?;
    statement.raw_bind_parameter(4, row.epoch)?;
    statement.raw_bind_parameter(5, row.losses)?;
    statement.raw_bind_parameter(6, row.holder)?;
    statement.raw_bind_parameter(7, row.granted_at)?;
    statement.raw_bind_parameter(8, row.expires_at)?;
    statement.raw_bind_parameter(9, row.attempt_ends_at)?;
    statement.raw_bind_parameter(10, row.wait_for)
}

/// Parameters 11 to 19: what a settlement adds.
fn bind_settled(
    statement: &mut CachedStatement<'_>,
    row: &ProgressRow<'_>,
) -> Result<(), rusqlite::Error> {
    statement.raw_bind_parameter(11, row.settled_at)?;
    statement.raw_bind_parameter(12, row.report_key)?;
    statement.raw_bind_parameter(13, row.failure_code)?;
    statement.raw_bind_parameter(14, row.failure_reason)?;
    statement.raw_bind_parameter(15, row.failure_details.map(Text))?;
    statement.raw_bind_parameter(16, row.result.map(Text))?;
    statement.raw_bind_parameter(17, row.extra.map(|extra| extra.is_skipped))?;
    let artifacts = row.extra.and_then(|extra| extra.artifacts.as_deref());
    statement.raw_bind_parameter(18, artifacts.map(Text))?;
    statement.raw_bind_parameter(19, row.held_since)
}

/// Parameters 34 to 40: the part of a run that a task executes.
fn bind_link(
    statement: &mut CachedStatement<'_>,
    link: Option<&NodeLink>,
) -> Result<(), rusqlite::Error> {
    statement.raw_bind_parameter(34, link.map(|link| link.run.to_integer()))?;
    statement.raw_bind_parameter(35, link.map(|link| link.frame))?;
    statement.raw_bind_parameter(36, link.map(|link| link.node))?;
    statement.raw_bind_parameter(37, link.and_then(|link| link.item))?;
    statement.raw_bind_parameter(38, link.map(|link| link.level))?;
    statement.raw_bind_parameter(39, link.map(|link| link.step_id.into_bytes()))?;
    let call = link.and_then(|link| link.call.as_deref());
    statement.raw_bind_parameter(40, call.map(stored_json::write))
}

/// The number of a fact within its run.
pub(super) fn fact_column(fact: Option<FactNumber>) -> Option<i64> {
    fact.map(|fact| fact.get().cast_signed())
}

/// The tasks that a task waits for, as they stand in `tasks.id`; most wait for none.
fn after_document(after: &[TaskId]) -> Option<String> {
    let ids: Vec<String> = after.iter().map(|task| task.to_integer().to_string()).collect();
    (!ids.is_empty()).then(|| format!("[{}]", ids.join(",")))
}

/// An update names the row that it expects, with its epoch; when there is no such row, the
/// coordinator and the store disagree about what is true.
fn must_be_one(n_updated: usize, task: TaskId) -> Result<(), WriteError> {
    if n_updated == 1 { Ok(()) } else { Err(Contradiction::OutOfOrder(task).into()) }
}

/// A broken PRIMARY KEY has a meaning here; every other error keeps its own.
pub(super) fn meaning(error: rusqlite::Error, contradiction: Contradiction) -> WriteError {
    match error.sqlite_error().map(|error| error.extended_code) {
        Some(rusqlite::ffi::SQLITE_CONSTRAINT_PRIMARYKEY) => contradiction.into(),
        _ => error.into(),
    }
}

/// JSON from the coordinator: text by the door's check, which is not repeated here.
pub(super) struct Text<'a>(pub &'a [u8]);

impl ToSql for Text<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(self.0)))
    }
}
