//! One transaction: rows that a batch of turns became.

use std::ptr;

use coordinator::{Ending, FactNumber, Progress, TaskRecord, TaskState};
use model::{Failure, IdempotencyMark, NodeLink, ReportKey, TaskId, Timestamp, WorkerId};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ToSql, params};

use super::documents;
use super::error::WriteError;
use super::run_commit;
use super::settings;
use super::specs::SpecRows;
use crate::rows::{Batch, Contradiction, EndedWrite, TaskWrite, WriteKind};
use crate::stored_json;
use crate::words::{ending_text, wait_text};

static INSERT_TASK: &str = include_str!("queries/insert_task.sql");
static UPDATE_LIVE: &str = include_str!("queries/update_live.sql");
static UPDATE_WHOLE: &str = include_str!("queries/update_whole.sql");
static INSERT_PARAMETERS: &str = "INSERT INTO parameters (task_id, json) VALUES (?1, ?2)";
static INSERT_MARK: &str =
    "INSERT INTO idempotency (shard, key, task_id, fingerprint) VALUES (?1, ?2, ?3, ?4)";
static INSERT_ENDED: &str = include_str!("queries/insert_ended_attempt.sql");
static INSERT_ENDED_IF_NEW: &str = include_str!("queries/insert_ended_attempt_if_new.sql");

/// What a task without parameters has; it is not written.
pub(super) const NO_PARAMETERS: &[u8] = b"{}";

/// Writes a batch inside the transaction that is open.
pub(super) fn write(
    connection: &Connection,
    batch: &Batch<'_>,
    specs: &mut SpecRows,
) -> Result<(), WriteError> {
    let mut statements = Statements::new(connection);
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
    run_commit::write(&mut statements, &batch.runs)?;
    settings::write(connection, &batch.tenants)?;
    documents::write(connection, &batch.documents)
}

/// The statements of a transaction. Each is looked up once, when it is first needed, because the
/// look-up costs about as much as binding a row.
pub(super) struct Statements<'c> {
    connection: &'c Connection,
    prepared: Vec<(&'static str, CachedStatement<'c>)>,
}

impl<'c> Statements<'c> {
    fn new(connection: &'c Connection) -> Self {
        Self { connection, prepared: Vec::new() }
    }

    /// The statement with this text. A `static` has one address, so texts are told apart by it.
    pub(super) fn get(
        &mut self,
        sql: &'static str,
    ) -> Result<&mut CachedStatement<'c>, rusqlite::Error> {
        let known = self.prepared.iter().position(|(known, _)| ptr::eq(*known, sql));
        let place = known.unwrap_or(self.prepared.len());
        if known.is_none() {
            self.prepared.push((sql, self.connection.prepare_cached(sql)?));
        }
        Ok(&mut self.prepared[place].1)
    }

    fn insert(
        &mut self,
        record: &TaskRecord,
        write: &TaskWrite<'_>,
        spec_id: i64,
    ) -> Result<(), WriteError> {
        let statement = self.get(INSERT_TASK)?;
        let demand = &record.spec.demand;
        bind_progress(statement, write.progress)?;
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
        if let Some(link) = record.link.as_deref() {
            bind_link(statement, link)?;
        }
        let exists = Contradiction::TaskExists(write.task);
        statement.raw_execute().map_err(|error| meaning(error, exists))?;
        if record.parameters != NO_PARAMETERS {
            let row = params![record.id.to_integer(), Text(&record.parameters)];
            self.get(INSERT_PARAMETERS)?.execute(row)?;
        }
        if let Some(IdempotencyMark { key, fingerprint }) = &record.idempotency {
            let (shard, task) = (record.id.shard().get(), record.id.to_integer());
            let row = params![shard, key.as_str(), task, fingerprint.cast_signed()];
            let taken = Contradiction::KeyTaken(record.id);
            self.get(INSERT_MARK)?.execute(row).map_err(|error| meaning(error, taken))?;
        }
        Ok(())
    }

    fn update(&mut self, write: &TaskWrite<'_>, was_settled: bool) -> Result<(), WriteError> {
        let stays_live = !was_settled && !matches!(write.progress.state, TaskState::Settled(_));
        let statement = self.get(if stays_live { UPDATE_LIVE } else { UPDATE_WHOLE })?;
        bind_progress(statement, write.progress)?;
        if stays_live {
            statement.raw_bind_parameter(11, write.task.to_integer())?;
            statement.raw_bind_parameter(12, fact_column(write.facts.granted))?;
        } else {
            statement.raw_bind_parameter(20, write.task.to_integer())?;
            statement.raw_bind_parameter(21, was_settled)?;
            statement.raw_bind_parameter(22, fact_column(write.facts.granted))?;
            statement.raw_bind_parameter(23, fact_column(write.facts.settled))?;
        }
        must_be_one(statement.raw_execute()?, Contradiction::OutOfOrder(write.task))
    }

    fn end_attempt(&mut self, ended: &EndedWrite<'_>) -> Result<(), WriteError> {
        let EndedWrite { task, attempt, may_exist } = ended;
        let (report, failure) = match &attempt.ending {
            Ending::Failed { report, failure } => (Some(*report), Some(failure)),
            Ending::Expired | Ending::TimedOut | Ending::Undelivered | Ending::Stopped => {
                (None, None)
            }
        };
        let statement = self.get(if *may_exist { INSERT_ENDED_IF_NEW } else { INSERT_ENDED })?;
        statement.raw_bind_parameter(1, task.to_integer())?;
        statement.raw_bind_parameter(2, attempt.epoch)?;
        statement.raw_bind_parameter(3, attempt.worker.as_str())?;
        statement.raw_bind_parameter(4, attempt.at.to_integer())?;
        statement.raw_bind_parameter(5, ending_text(&attempt.ending))?;
        statement.raw_bind_parameter(6, report.map(report_key_bytes))?;
        bind_failure(statement, 7, failure)?;
        let twice = Contradiction::AttemptEndedTwice(*task);
        statement.raw_execute().map_err(|error| meaning(error, twice))?;
        Ok(())
    }
}

/// Parameters 1 to 19: where a task stands. All others are cleared, and those that its state does
/// not have stay `NULL`.
fn bind_progress(
    statement: &mut CachedStatement<'_>,
    progress: &Progress,
) -> Result<(), rusqlite::Error> {
    statement.clear_bindings();
    statement.raw_bind_parameter(1, progress.state.word().word())?;
    statement.raw_bind_parameter(3, progress.attempt)?;
    statement.raw_bind_parameter(4, progress.epoch)?;
    statement.raw_bind_parameter(5, progress.losses)?;
    match &progress.state {
        TaskState::Ready => Ok(()),
        TaskState::Waiting { until, why } => {
            statement.raw_bind_parameter(2, until.to_integer())?;
            statement.raw_bind_parameter(10, wait_text(*why))
        }
        // `confirm_by` has no column. Signs of life are not written, so after a restart nobody
        // knows whether the holder confirmed; the lease gets a fresh term instead.
        TaskState::Leased(lease) => {
            statement.raw_bind_parameter(6, lease.holder.as_str())?;
            statement.raw_bind_parameter(7, lease.granted_at.to_integer())?;
            statement.raw_bind_parameter(8, lease.expires_at.to_integer())?;
            statement.raw_bind_parameter(9, lease.attempt_ends_at.map(Timestamp::to_integer))
        }
        TaskState::Settled(settlement) => {
            let extra = settlement.extra.as_deref();
            let artifacts = extra.and_then(|extra| extra.artifacts.as_deref());
            statement.raw_bind_parameter(6, settlement.holder.as_ref().map(WorkerId::as_str))?;
            statement.raw_bind_parameter(11, settlement.at.to_integer())?;
            statement.raw_bind_parameter(12, settlement.report.map(report_key_bytes))?;
            bind_failure(statement, 13, settlement.failure.as_ref())?;
            statement.raw_bind_parameter(16, settlement.result.as_deref().map(Text))?;
            statement.raw_bind_parameter(17, extra.map(|extra| extra.is_skipped))?;
            statement.raw_bind_parameter(18, artifacts.map(Text))?;
            statement.raw_bind_parameter(19, settlement.granted_at.map(Timestamp::to_integer))
        }
    }
}

/// Parameters 34 to 40: the part of a run that a task executes.
fn bind_link(statement: &mut CachedStatement<'_>, link: &NodeLink) -> Result<(), rusqlite::Error> {
    statement.raw_bind_parameter(34, link.run.to_integer())?;
    statement.raw_bind_parameter(35, link.frame)?;
    statement.raw_bind_parameter(36, link.node)?;
    statement.raw_bind_parameter(37, link.item)?;
    statement.raw_bind_parameter(38, link.level)?;
    statement.raw_bind_parameter(39, link.step_id.into_bytes())?;
    statement.raw_bind_parameter(40, link.call.as_deref().map(stored_json::write))
}

/// Three parameters side by side: code, reason and details.
pub(super) fn bind_failure(
    statement: &mut CachedStatement<'_>,
    first: usize,
    failure: Option<&Failure>,
) -> Result<(), rusqlite::Error> {
    let details = failure.and_then(|failure| failure.details.as_deref());
    statement.raw_bind_parameter(first, failure.map(|failure| failure.code.as_str()))?;
    statement.raw_bind_parameter(first + 1, failure.map(|failure| failure.reason.as_str()))?;
    statement.raw_bind_parameter(first + 2, details.map(Text))
}

/// Report keys are kept as 16 bytes, the most significant one first.
fn report_key_bytes(key: ReportKey) -> [u8; 16] {
    key.0.to_be_bytes()
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

/// A statement names the row that it expects; when nothing is written, the coordinator and the store
/// disagree about what is true.
pub(super) fn must_be_one(n_written: usize, otherwise: Contradiction) -> Result<(), WriteError> {
    if n_written == 1 { Ok(()) } else { Err(otherwise.into()) }
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
