//! Rows become tasks again.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use coordinator::{
    EndedAttempt, Ending, FactNumber, Lease, Outcome, Progress, Settlement, StateWord, TaskFacts,
    TaskRecord, TaskState, WaitReason,
};
use model::{
    Failure, IdempotencyMark, NodeLink, Pin, ReportKey, ResultExtra, RunId, TaskId, Timestamp,
};
use rusqlite::types::FromSql;
use rusqlite::{CachedStatement, Connection, Params, Row, Statement};
use uuid::Uuid;

use super::commit::NO_PARAMETERS;
use super::specs::SpecReader;
use crate::contract::StoreError;
use crate::stored_json;
use crate::words::{
    ENDING_EXPIRED, ENDING_FAILED, ENDING_STOPPED, ENDING_TIMED_OUT, ENDING_UNDELIVERED,
    WAIT_FOR_DELAY, WAIT_FOR_SIGNAL,
};

/// Names each column once: where it stands in a row, and what a query selects for it.
macro_rules! columns {
    ($first:ident: $first_sql:literal, $($name:ident: $sql:literal,)+) => {
        mod column {
            #[expect(non_camel_case_types, clippy::upper_case_acronyms, reason = "counts only")]
            enum Position { $first, $($name),+ }
            pub(super) const $first: usize = Position::$first as usize;
            $(pub(super) const $name: usize = Position::$name as usize;)+
        }
        const COLUMNS: &str = concat!($first_sql, $(", ", $sql),+);
    };
}

columns! {
    ID: "t.id",
    SPEC_ID: "t.spec_id",
    CONCURRENCY_KEY: "t.concurrency_key",
    IDEMPOTENCY_KEY: "t.idempotency_key",
    CREATED_AT: "t.created_at",
    STATE: "t.state",
    WAIT_UNTIL: "t.wait_until",
    ATTEMPT: "t.attempt",
    EPOCH: "t.epoch",
    LOSSES: "t.losses",
    HOLDER: "t.holder",
    GRANTED_AT: "t.granted_at",
    EXPIRES_AT: "t.expires_at",
    ATTEMPT_ENDS_AT: "t.attempt_ends_at",
    SETTLED_AT: "t.settled_at",
    HELD_SINCE: "t.held_since",
    REPORT_KEY: "t.report_key",
    WAIT_FOR: "t.wait_for",
    RUN: "t.run",
    RUN_BEGUN: "t.run_begun",
    RUN_GRANTED: "t.run_granted",
    RUN_SETTLED: "t.run_settled",
    RUN_ID: "t.run_id",
    RUN_FRAME: "t.run_frame",
    RUN_NODE: "t.run_node",
    RUN_ITEM: "t.run_item",
    RUN_LEVEL: "t.run_level",
    RUN_STEP: "t.run_step",
    RUN_CALL: "t.run_call",
    AFTER_TASKS: "t.after_tasks",
    PIN: "t.pin",
    SKIPPED: "t.skipped",
    ARTIFACTS: "t.artifacts",
    FINGERPRINT: "i.fingerprint",
    RESULT: "t.result",
    PARAMETERS: "p.json",
    FAILURE_CODE: "t.failure_code, t.failure_reason, t.failure_details",
}

const JOINS: &str = "LEFT JOIN parameters AS p ON p.task_id = t.id
    LEFT JOIN idempotency AS i ON i.shard = t.id >> 40 AND i.key = t.idempotency_key";

/// A task by its number.
pub(super) static SELECT_TASK: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {COLUMNS} FROM tasks AS t {JOINS} WHERE t.id = ?1"));

/// The same without values of more than `?2` bytes. Whether the parameters are one of them is told.
pub(super) static SELECT_SUMMARY: LazyLock<String> = LazyLock::new(|| {
    let short = |columns: String, name| {
        columns.replace(name, &format!("iif(octet_length({name}) <= ?2, {name}, NULL)"))
    };
    let columns = ["t.failure_details", "t.result", "p.json"].into_iter();
    let columns = columns.fold(COLUMNS.to_owned(), short);
    format!(
        "SELECT {columns}, octet_length(p.json) > ?2 AS has_long_parameters
           FROM tasks AS t {JOINS} WHERE t.id = ?1"
    )
});

/// The live tasks of a range. The index is named, so that a restart can never read the settled
/// history by a planner's mistake.
pub(super) static SELECT_LIVE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {COLUMNS} FROM tasks AS t INDEXED BY tasks_live {JOINS}
          WHERE t.settled_at IS NULL AND t.id BETWEEN ?1 AND ?2 ORDER BY t.id"
    )
});

/// All tasks that a run made, or only the settled ones. The index is named, so that the tasks of
/// other runs are never read by a planner's mistake.
pub(super) static SELECT_OF_RUN: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {COLUMNS} FROM tasks AS t INDEXED BY tasks_run {JOINS}
          WHERE t.run = ?1 AND t.id BETWEEN ?2 AND ?3
            AND (t.run_id IS NOT NULL OR t.run_call IS NOT NULL)
            AND (NOT ?4 OR t.settled_at IS NOT NULL)
          ORDER BY t.id"
    )
});

/// Reads rows of the queries above.
pub(super) struct RecordReader<'c> {
    specs: SpecReader<'c>,
    ended_attempts: CachedStatement<'c>,
}

impl<'c> RecordReader<'c> {
    pub(super) fn new(connection: &'c Connection) -> Result<Self, StoreError> {
        let ended_attempts =
            connection.prepare_cached(include_str!("queries/select_ended_attempts.sql"))?;
        Ok(Self { specs: SpecReader::new(connection)?, ended_attempts })
    }

    pub(super) fn read(&mut self, row: &Row<'_>) -> Result<TaskRecord, StoreError> {
        let id: i64 = row.get(column::ID)?;
        let task = TaskId::from_integer(id)
            .ok_or_else(|| StoreError::Damaged(format!("{id} is no task's number")))?;
        self.read_task(task, row).map_err(|error| match error {
            StoreError::Damaged(why) => {
                StoreError::Damaged(format!("task {task} (row {id}): {why}"))
            }
            StoreError::Unavailable(_) | StoreError::InUse(_) => error,
        })
    }

    fn read_task(&mut self, id: TaskId, row: &Row<'_>) -> Result<TaskRecord, StoreError> {
        let parameters = bytes_if_any(row, column::PARAMETERS)?;
        let after = read_after(row)?;
        let progress = read_progress(row, !after.is_empty())?;
        Ok(TaskRecord {
            id,
            spec: self.specs.get(row.get(column::SPEC_ID)?)?,
            parameters: parameters.unwrap_or(Bytes::from_static(NO_PARAMETERS)),
            created_at: moment(row, column::CREATED_AT)?,
            concurrency_key: parsed_if_any(row, column::CONCURRENCY_KEY)?,
            idempotency: read_mark(row)?,
            run: parsed_if_any(row, column::RUN)?,
            after,
            link: read_link(row)?,
            facts: TaskFacts {
                begun: fact_if_any(row, column::RUN_BEGUN)?,
                granted: fact_if_any(row, column::RUN_GRANTED)?,
                settled: fact_if_any(row, column::RUN_SETTLED)?,
            },
            pin: read_pin(row)?,
            ended_attempts: self.read_ended_attempts(id, &progress)?,
            progress,
        })
    }

    fn read_ended_attempts(
        &mut self,
        task: TaskId,
        progress: &Progress,
    ) -> Result<Vec<EndedAttempt>, StoreError> {
        // Only leases before the current one can have ended; most tasks have none.
        let is_first_lease = progress.epoch == 1 && matches!(progress.state, TaskState::Leased(_));
        if progress.epoch == 0 || is_first_lease {
            return Ok(Vec::new());
        }
        all(&mut self.ended_attempts, [task.to_integer()], |row| {
            Ok(EndedAttempt {
                epoch: row.get(0)?,
                worker: parsed(text(row, 1)?)?,
                at: moment(row, 2)?,
                ending: read_ending(row)?,
            })
        })
    }
}

fn read_mark(row: &Row<'_>) -> Result<Option<IdempotencyMark>, StoreError> {
    let key = parsed_if_any(row, column::IDEMPOTENCY_KEY)?;
    let fingerprint: Option<i64> = row.get(column::FINGERPRINT)?;
    Ok(key.zip(fingerprint).map(|(key, fingerprint)| IdempotencyMark {
        key,
        fingerprint: fingerprint.cast_unsigned(),
    }))
}

fn read_after(row: &Row<'_>) -> Result<Vec<TaskId>, StoreError> {
    let Some(document) = text_if_any(row, column::AFTER_TASKS)? else { return Ok(Vec::new()) };
    let ids: Vec<i64> = serde_json::from_str(document).map_err(damaged)?;
    let task = |id: i64| {
        TaskId::from_integer(id)
            .ok_or_else(|| StoreError::Damaged(format!("it waits for {id}, which is no task")))
    };
    ids.into_iter().map(task).collect()
}

fn read_link(row: &Row<'_>) -> Result<Option<Arc<NodeLink>>, StoreError> {
    let call = text_if_any(row, column::RUN_CALL)?;
    let Some(run) = row.get::<_, Option<i64>>(column::RUN_ID)? else {
        return call.map_or(Ok(None), |text| Err(StoreError::Damaged(format!("link is {text}"))));
    };
    let run = RunId::from_integer(run)
        .ok_or_else(|| StoreError::Damaged(format!("{run} is not the number of a run")))?;
    Ok(Some(Arc::new(NodeLink {
        run,
        frame: row.get(column::RUN_FRAME)?,
        node: row.get(column::RUN_NODE)?,
        item: row.get(column::RUN_ITEM)?,
        level: row.get(column::RUN_LEVEL)?,
        step_id: Uuid::from_bytes(row.get(column::RUN_STEP)?),
        call: call.map(|json| stored_json::read("call", json)).transpose()?.map(Box::new),
    })))
}

fn read_pin(row: &Row<'_>) -> Result<Option<Box<Pin>>, StoreError> {
    let Some(json) = text_if_any(row, column::PIN)? else { return Ok(None) };
    Ok(Some(Box::new(stored_json::read("pin", json)?)))
}

fn read_progress(row: &Row<'_>, has_after: bool) -> Result<Progress, StoreError> {
    let word = text(row, column::STATE)?;
    let word = StateWord::from_word(word)
        .ok_or_else(|| StoreError::Damaged(format!("{word} is no state of a task")))?;
    let state = match word {
        StateWord::Waiting => waiting(row, wait_reason(row, has_after)?)?,
        StateWord::Retrying => waiting(row, WaitReason::Backoff)?,
        StateWord::Queued => TaskState::Ready,
        StateWord::Running => TaskState::Leased(read_lease(row)?),
        StateWord::Completed => settled(row, Outcome::Completed)?,
        StateWord::Failed => settled(row, Outcome::Failed)?,
        StateWord::Dead => settled(row, Outcome::Dead)?,
        StateWord::Stopped => settled(row, Outcome::Stopped)?,
    };
    Ok(Progress {
        state,
        attempt: row.get(column::ATTEMPT)?,
        epoch: row.get(column::EPOCH)?,
        losses: row.get(column::LOSSES)?,
    })
}

/// Without a word of its own, a task that has to run after others waits for that reason alone.
fn wait_reason(row: &Row<'_>, has_after: bool) -> Result<WaitReason, StoreError> {
    match text_if_any(row, column::WAIT_FOR)? {
        Some(WAIT_FOR_DELAY) => Ok(WaitReason::Delay),
        Some(WAIT_FOR_SIGNAL) => Ok(WaitReason::Signal),
        Some(other) => {
            Err(StoreError::Damaged(format!("{other} is nothing that a task waits for")))
        }
        None if has_after => Ok(WaitReason::After),
        None => Ok(WaitReason::Scheduled),
    }
}

fn waiting(row: &Row<'_>, why: WaitReason) -> Result<TaskState, StoreError> {
    Ok(TaskState::Waiting { until: moment(row, column::WAIT_UNTIL)?, why })
}

fn read_lease(row: &Row<'_>) -> Result<Lease, StoreError> {
    Ok(Lease {
        holder: parsed(text(row, column::HOLDER)?)?,
        granted_at: moment(row, column::GRANTED_AT)?,
        expires_at: moment(row, column::EXPIRES_AT)?,
        attempt_ends_at: moment_if_any(row, column::ATTEMPT_ENDS_AT)?,
        confirm_by: None,
        is_doubtful: true,
    })
}

fn settled(row: &Row<'_>, outcome: Outcome) -> Result<TaskState, StoreError> {
    let report: Option<[u8; 16]> = row.get(column::REPORT_KEY)?;
    Ok(TaskState::Settled(Box::new(Settlement {
        outcome,
        at: moment(row, column::SETTLED_AT)?,
        holder: parsed_if_any(row, column::HOLDER)?,
        granted_at: moment_if_any(row, column::HELD_SINCE)?,
        report: report.map(report_key),
        result: bytes_if_any(row, column::RESULT)?,
        failure: read_failure(row, column::FAILURE_CODE)?,
        extra: read_extra(row)?,
    })))
}

/// Three columns side by side: code, reason and details.
pub(super) fn read_failure(row: &Row<'_>, first: usize) -> Result<Option<Failure>, StoreError> {
    let Some(code) = row.get(first)? else { return Ok(None) };
    let details = bytes_if_any(row, first + 2)?;
    Ok(Some(Failure { code, reason: row.get(first + 1)?, details }))
}

fn read_extra(row: &Row<'_>) -> Result<Option<Box<ResultExtra>>, StoreError> {
    let Some(is_skipped) = row.get(column::SKIPPED)? else { return Ok(None) };
    let artifacts = bytes_if_any(row, column::ARTIFACTS)?;
    Ok(Some(Box::new(ResultExtra { is_skipped, artifacts })))
}

fn read_ending(row: &Row<'_>) -> Result<Ending, StoreError> {
    match text(row, 3)? {
        ENDING_FAILED => Ok(Ending::Failed {
            report: report_key(row.get(4)?),
            failure: read_failure(row, 5)?.ok_or_else(|| damaged("a failure without a code"))?,
        }),
        ENDING_EXPIRED => Ok(Ending::Expired),
        ENDING_TIMED_OUT => Ok(Ending::TimedOut),
        ENDING_UNDELIVERED => Ok(Ending::Undelivered),
        ENDING_STOPPED => Ok(Ending::Stopped),
        other => Err(StoreError::Damaged(format!("{other} is no ending of an attempt"))),
    }
}

fn report_key(bytes: [u8; 16]) -> ReportKey {
    ReportKey(u128::from_be_bytes(bytes))
}

/// Every row that a statement gives.
pub(super) fn all<T>(
    select: &mut Statement<'_>,
    parameters: impl Params,
    mut read: impl FnMut(&Row<'_>) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut rows = select.query(parameters)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

pub(super) fn damaged(why: impl Display) -> StoreError {
    StoreError::Damaged(why.to_string())
}

pub(super) fn text<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r str, StoreError> {
    row.get_ref(column)?.as_str().map_err(damaged)
}

pub(super) fn text_if_any<'r>(
    row: &'r Row<'_>,
    column: usize,
) -> Result<Option<&'r str>, StoreError> {
    row.get_ref(column)?.as_str_or_null().map_err(damaged)
}

pub(super) fn bytes_if_any(row: &Row<'_>, column: usize) -> Result<Option<Bytes>, StoreError> {
    let bytes = row.get_ref(column)?.as_bytes_or_null().map_err(damaged)?;
    Ok(bytes.map(Bytes::copy_from_slice))
}

pub(super) fn parsed<T: FromStr<Err: Display>>(text: &str) -> Result<T, StoreError> {
    text.parse().map_err(damaged)
}

pub(super) fn parsed_if_any<T: FromStr<Err: Display>>(
    row: &Row<'_>,
    column: usize,
) -> Result<Option<T>, StoreError> {
    text_if_any(row, column)?.map(parsed).transpose()
}

pub(super) fn moment(row: &Row<'_>, column: usize) -> Result<Timestamp, StoreError> {
    Ok(Timestamp::from_integer(get(row, column)?))
}

pub(super) fn moment_if_any(row: &Row<'_>, column: usize) -> Result<Option<Timestamp>, StoreError> {
    Ok(get::<Option<i64>>(row, column)?.map(Timestamp::from_integer))
}

/// The number of a fact within its run.
pub(super) fn fact_if_any(row: &Row<'_>, column: usize) -> Result<Option<FactNumber>, StoreError> {
    let Some(number) = get::<Option<i64>>(row, column)? else { return Ok(None) };
    let fact = u64::try_from(number).ok().and_then(FactNumber::new);
    fact.map(Some).ok_or_else(|| StoreError::Damaged(format!("{number} numbers no fact")))
}

fn get<T: FromSql>(row: &Row<'_>, column: usize) -> Result<T, StoreError> {
    Ok(row.get(column)?)
}
