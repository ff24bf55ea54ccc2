//! From the coordinator's and the store's types to words on the wire.

use std::io::Write;

use bytes::Bytes;
use coordinator::{
    EndedAttempt, Ending, Grant, HeartbeatVerdict, TaskRecord, TaskState, Violation,
};
use model::{Failure, LeaseId, Timestamp};
use protocol::rest::leases::{HeartbeatAnswer, HeartbeatWord, VerdictAnswer, VerdictWord};
use protocol::rest::tasks::{self as wire, CurrentLease, Task, TaskError};
use serde_json::value::RawValue;
use shard::verdict_words::{lost_authority_word, violation_word};
use uuid::fmt::Hyphenated;

use crate::wire_words::problem::ApiError;

/// What a lease takes on the wire, without its parameters, roughly: room is made once.
const LEASE_BYTES: usize = 320;

/// Why a report is refused before any coordinator sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoLease {
    /// The text names no lease.
    Malformed,
    /// The lease is of another tenant. Told as if there were no such task.
    Foreign,
}

impl NoLease {
    fn word(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Foreign => violation_word(Violation::UnknownTask),
        }
    }

    pub(crate) fn verdict(self) -> VerdictAnswer {
        let reason = Some(self.word().to_owned());
        VerdictAnswer { verdict: VerdictWord::Rejected, reason, task_state: None }
    }

    pub(crate) fn heartbeat(self) -> HeartbeatAnswer {
        let reason = Some(self.word().to_owned());
        HeartbeatAnswer { verdict: HeartbeatWord::Rejected, expires_at: None, reason }
    }
}

pub(crate) fn heartbeat_answer(verdict: HeartbeatVerdict) -> HeartbeatAnswer {
    let (verdict, expires_at, reason) = match verdict {
        HeartbeatVerdict::Extended { expires_at } => {
            (HeartbeatWord::Extended, Some(expires_at.to_string()), None)
        }
        HeartbeatVerdict::Cancelled(lost) => {
            (HeartbeatWord::Cancelled, None, Some(lost_authority_word(lost)))
        }
        HeartbeatVerdict::Rejected(violation) => {
            (HeartbeatWord::Rejected, None, Some(violation_word(violation)))
        }
    };
    HeartbeatAnswer { verdict, expires_at, reason: reason.map(str::to_owned) }
}

/// A task, whole.
pub(crate) fn task(record: &TaskRecord) -> Result<Task, ApiError> {
    let progress = &record.progress;
    let demand = &record.spec.demand;
    let ended_attempts = record.ended_attempts.iter().map(|one| ended(record, one));
    let mut task = Task {
        task_id: record.id.to_string(),
        task_type: demand.task_type.to_string(),
        queue: demand.queue.to_string(),
        state: record.progress.state.word(),
        priority: record.spec.priority,
        parameters: raw(&record.parameters)?,
        created_at: record.created_at.to_string(),
        attempt: progress.attempt,
        max_attempts: record.spec.retry.max_attempts,
        not_before: None,
        after: record.after.iter().map(ToString::to_string).collect(),
        lease: None,
        settled_at: None,
        worker_id: None,
        result: None,
        error: None,
        feedback: None,
        ended_attempts: ended_attempts.collect::<Result<_, _>>()?,
        concurrency_key: record.concurrency_key.as_ref().map(ToString::to_string),
        run: record.run.as_ref().map(ToString::to_string),
        node_id: record.link.as_ref().map(|link| link.step_id.to_string()),
        item: record.link.as_ref().and_then(|link| link.item),
        idempotency_key: record.idempotency.as_ref().map(|mark| mark.key.to_string()),
    };
    add_state(&mut task, record)?;
    Ok(task)
}

/// What only a task in this state has.
fn add_state(task: &mut Task, record: &TaskRecord) -> Result<(), ApiError> {
    match &record.progress.state {
        // Who waits only for others has no moment of its own.
        TaskState::Waiting { until, .. } => {
            let moment = Some(until).filter(|until| **until > Timestamp::default());
            task.not_before = moment.map(ToString::to_string);
        }
        TaskState::Ready => {}
        TaskState::Leased(lease) => {
            let lease_id = LeaseId { task: record.id, epoch: record.progress.epoch };
            task.lease = Some(CurrentLease {
                lease_id: lease_id.to_string(),
                worker_id: lease.holder.to_string(),
                granted_at: lease.granted_at.to_string(),
            });
        }
        TaskState::Settled(settlement) => {
            task.settled_at = Some(settlement.at.to_string());
            task.worker_id = settlement.holder.as_ref().map(ToString::to_string);
            task.result = settlement.result.as_ref().map(raw).transpose()?;
            task.error = settlement.failure.as_ref().map(task_error).transpose()?;
        }
    }
    Ok(())
}

fn task_error(failure: &Failure) -> Result<TaskError, ApiError> {
    Ok(TaskError {
        code: failure.code.clone(),
        reason: failure.reason.clone(),
        details: failure.details.as_ref().map(raw).transpose()?,
    })
}

fn ended(record: &TaskRecord, attempt: &EndedAttempt) -> Result<wire::EndedAttempt, ApiError> {
    let (ending, error) = match &attempt.ending {
        Ending::Failed { failure, .. } => ("FAILED", Some(task_error(failure)?)),
        Ending::Expired => ("EXPIRED", None),
        Ending::TimedOut => ("TIMED_OUT", None),
        Ending::Undelivered => ("UNDELIVERED", None),
        Ending::Stopped => ("STOPPED", None),
    };
    Ok(wire::EndedAttempt {
        lease_id: LeaseId { task: record.id, epoch: attempt.epoch }.to_string(),
        worker_id: attempt.worker.to_string(),
        ended_at: attempt.at.to_string(),
        ending: ending.to_owned(),
        error,
    })
}

/// Bytes that were checked when they came in, as JSON.
fn raw(bytes: &Bytes) -> Result<Box<RawValue>, ApiError> {
    let text = String::from_utf8(bytes.to_vec()).ok();
    text.and_then(|text| RawValue::from_string(text).ok())
        .ok_or_else(|| ApiError::internal("the store holds a payload that is not JSON"))
}

/// The body of `POST /leases`, written by hand: parameters are JSON already, and parsing each
/// again only to copy it would cost more than all the rest of the answer. A test reads it back as
/// `GrantedLeases`.
pub(crate) fn granted_leases(grants: &[Grant]) -> Vec<u8> {
    let payload: usize = grants.iter().map(|grant| grant.parameters.len()).sum();
    let mut body = Vec::with_capacity(payload + LEASE_BYTES * grants.len() + LEASE_BYTES);
    body.extend_from_slice(b"{\"leases\":[");
    let mut expires = Moment::default();
    for (position, grant) in grants.iter().enumerate() {
        if position > 0 {
            body.push(b',');
        }
        write_lease(&mut body, grant, expires.text(grant.expires_at));
    }
    body.extend_from_slice(b"]}");
    body
}

/// Names of types hold no character that JSON would have to escape.
fn write_lease(body: &mut Vec<u8>, grant: &Grant, expires_at: &str) {
    let mut buffer = [0; Hyphenated::LENGTH];
    let task = grant.lease.task.to_uuid().hyphenated().encode_lower(&mut buffer).as_bytes();
    body.extend_from_slice(b"{\"lease_id\":\"");
    body.extend_from_slice(task);
    body.push(b'-');
    write_number(body, grant.lease.epoch.into());
    body.extend_from_slice(b"\",\"task_id\":\"");
    body.extend_from_slice(task);
    body.extend_from_slice(b"\",\"attempt\":");
    write_number(body, grant.attempt.into());
    body.extend_from_slice(b",\"type\":\"");
    body.extend_from_slice(grant.spec.demand.task_type.as_str().as_bytes());
    body.extend_from_slice(b"\",\"parameters\":");
    body.extend_from_slice(&grant.parameters);
    body.extend_from_slice(b",\"expires_at\":\"");
    body.extend_from_slice(expires_at.as_bytes());
    body.extend_from_slice(b"\",\"heartbeat_ms\":");
    write_number(body, grant.heartbeat_every.as_millis());
    body.push(b'}');
}

fn write_number(body: &mut Vec<u8>, number: u128) {
    let number = u64::try_from(number).unwrap_or(u64::MAX);
    write!(body, "{number}").expect("a Vec takes everything");
}

/// Leases of one answer mostly end at the same moment; its text is made once.
#[derive(Default)]
struct Moment {
    at: Timestamp,
    text: String,
}

impl Moment {
    fn text(&mut self, at: Timestamp) -> &str {
        if self.text.is_empty() || self.at != at {
            *self = Self { at, text: at.to_string() };
        }
        &self.text
    }
}

#[cfg(test)]
mod tests;
