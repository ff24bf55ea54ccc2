//! Rows become tasks again.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use coordinator::{
    EndedAttempt, Ending, FactNumber, Lease, Outcome, Progress, Settlement, StateWord, TaskFacts,
    TaskRecord, TaskState, WaitReason,
};
use model::{Failure, IdempotencyMark, NodeLink, Pin, ReportKey, ResultExtra, TaskId, Timestamp};
use rusqlite::types::FromSql;
use rusqlite::{CachedStatement, Connection, Row};

use super::commit::NO_PARAMETERS;
use super::specs::SpecReader;
use crate::contract::StoreError;
use crate::stored_json;
use crate::words::{
    ENDING_EXPIRED, ENDING_FAILED, ENDING_STOPPED, ENDING_TIMED_OUT, ENDING_UNDELIVERED,
    WAIT_FOR_DELAY, WAIT_FOR_SIGNAL, state_from_text,
};

/// Reads rows of `select_task.sql`, `select_live_tasks.sql` and `select_run_tasks.sql`.
pub(super) struct RecordReader<'c> {
    specs: SpecReader<'c>,
    ended_attempts: CachedStatement<'c>,
}

/// The columns, in the order in which all queries name them.
mod column {
    pub(super) const ID: usize = 0;
    pub(super) const SPEC_ID: usize = 1;
    pub(super) const CONCURRENCY_KEY: usize = 2;
    pub(super) const IDEMPOTENCY_KEY: usize = 3;
    pub(super) const CREATED_AT: usize = 4;
    pub(super) const STATE: usize = 5;
    pub(super) const WAIT_UNTIL: usize = 6;
    pub(super) const ATTEMPT: usize = 7;
    pub(super) const EPOCH: usize = 8;
    pub(super) const LOSSES: usize = 9;
    pub(super) const HOLDER: usize = 10;
    pub(super) const GRANTED_AT: usize = 11;
    pub(super) const EXPIRES_AT: usize = 12;
    pub(super) const ATTEMPT_ENDS_AT: usize = 13;
    pub(super) const SETTLED_AT: usize = 14;
    pub(super) const REPORT_KEY: usize = 15;
    pub(super) const FAILURE_CODE: usize = 16;
    pub(super) const RESULT: usize = 19;
    pub(super) const PARAMETERS: usize = 20;
    pub(super) const FINGERPRINT: usize = 21;
    pub(super) const RUN: usize = 22;
    pub(super) const AFTER_TASKS: usize = 23;
    pub(super) const LINK: usize = 24;
    pub(super) const PIN: usize = 25;
    pub(super) const WAIT_FOR: usize = 26;
    pub(super) const SKIPPED: usize = 27;
    pub(super) const ARTIFACTS: usize = 28;
    pub(super) const HELD_SINCE: usize = 29;
    pub(super) const RUN_BEGUN: usize = 30;
    pub(super) const RUN_GRANTED: usize = 31;
    pub(super) const RUN_SETTLED: usize = 32;
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
        let mut ended = Vec::new();
        let mut rows = self.ended_attempts.query([task.to_integer()])?;
        while let Some(row) = rows.next()? {
            ended.push(EndedAttempt {
                epoch: row.get(0)?,
                worker: parsed(text(row, 1)?)?,
                at: moment(row, 2)?,
                ending: read_ending(row)?,
            });
        }
        Ok(ended)
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
    let Some(json) = text_if_any(row, column::LINK)? else { return Ok(None) };
    Ok(Some(Arc::new(stored_json::read("link", json)?)))
}

fn read_pin(row: &Row<'_>) -> Result<Option<Box<Pin>>, StoreError> {
    let Some(json) = text_if_any(row, column::PIN)? else { return Ok(None) };
    Ok(Some(Box::new(stored_json::read("pin", json)?)))
}

fn read_progress(row: &Row<'_>, has_after: bool) -> Result<Progress, StoreError> {
    let word = text(row, column::STATE)?;
    let word = state_from_text(word)
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
            failure: Failure {
                code: row.get(5)?,
                reason: row.get(6)?,
                details: bytes_if_any(row, 7)?,
            },
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
