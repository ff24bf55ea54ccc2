//! Tasks: submit, look at, stop, requeue, explain.

use std::collections::BTreeMap;

pub use model::StateWord as State;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::logs::TaskFeedback;
use super::runs::given;

/// `POST /tasks`: many tasks, all or none.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitTasks {
    /// What to make; at least one.
    pub tasks: Vec<TaskToSubmit>,
}

/// One task to make.
#[skip_serializing_none]
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskToSubmit {
    /// What kind of work it is.
    #[serde(rename = "type")]
    #[schema(example = "core.echo")]
    pub task_type: String,
    /// Any JSON; workers get it as it stands. Default `{}`.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub parameters: Option<Box<RawValue>>,
    /// The queue that it stands in. Default `default`.
    pub queue: Option<String>,
    /// From -1000 to 1000, higher first. Default 0.
    pub priority: Option<i64>,
    /// It does not start before this moment (RFC 3339).
    #[schema(format = "date-time")]
    pub not_before: Option<String>,
    /// It does not start before all these tasks (their ids) are completed, and fails if one of
    /// them comes to another end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// The longest that one attempt may take. Default: no limit.
    pub timeout_ms: Option<i64>,
    /// How long a lease lasts without a heartbeat. Default 30000.
    pub lease_ttl_ms: Option<i64>,
    /// When a failed attempt is tried again.
    pub retry: Option<Retry>,
    /// At most one task with the same key runs at a time.
    pub concurrency_key: Option<String>,
    /// The run that it belongs to: the submitter's name for what was asked for together.
    pub run: Option<String>,
    /// What a worker must have.
    pub requires: Option<Requires>,
    /// A repeated submit with the same key makes no second task.
    pub idempotency_key: Option<String>,
}

/// When a failed attempt is tried again.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// Attempts in all, the first included. Default 3.
    pub max_attempts: Option<i64>,
    /// The pause before the second attempt; it doubles with each further one. Default 1000.
    pub backoff_ms: Option<i64>,
    /// The longest pause. Default 60000.
    pub backoff_max_ms: Option<i64>,
}

/// What a worker must have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Requires {
    /// All these tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// All these tags, with these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// This package, in exactly this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<Package>,
}

/// One version of a package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// Which package.
    pub name: String,
    /// Which version.
    pub version: String,
}

/// `201` of `POST /tasks`: the tasks exist and survive a crash.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SubmittedTasks {
    /// In the order of the request.
    pub tasks: Vec<SubmittedTask>,
}

/// A task that exists.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SubmittedTask {
    /// Its name from now on.
    pub task_id: String,
    /// Where it stands.
    pub state: State,
    /// `true` when an earlier submit with the same key made it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub existed: bool,
}

/// A task, whole.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Task {
    /// Its name.
    pub task_id: String,
    /// What kind of work it is.
    #[serde(rename = "type")]
    pub task_type: String,
    /// The queue that it stands in.
    pub queue: String,
    /// Where it stands.
    pub state: State,
    /// Higher first.
    pub priority: i16,
    /// What its worker gets.
    #[schema(value_type = serde_json::Value)]
    pub parameters: Box<RawValue>,
    /// When it was submitted.
    pub created_at: String,
    /// Attempts since it was submitted or requeued.
    pub attempt: u32,
    /// How often it may be tried.
    pub max_attempts: u32,
    /// When it may start, if that lies ahead.
    pub not_before: Option<String>,
    /// The tasks that had to be completed before it could start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// The current lease, while it runs.
    pub lease: Option<CurrentLease>,
    /// When it came to its end.
    pub settled_at: Option<String>,
    /// Who brought it to its end.
    pub worker_id: Option<String>,
    /// What it gave.
    #[schema(value_type = Option<serde_json::Value>)]
    pub result: Option<Box<RawValue>>,
    /// Why it did not complete.
    pub error: Option<TaskError>,
    /// Attempts that ended without settling it, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended_attempts: Vec<EndedAttempt>,
    /// How it fares, if its worker said so lately. Only where one task is looked at.
    pub feedback: Option<TaskFeedback>,
    /// At most one task with the same key runs at a time.
    pub concurrency_key: Option<String>,
    /// The run that it belongs to.
    pub run: Option<String>,
    /// The node of its run that it executes, or the middleware: the author's id.
    pub node_id: Option<String>,
    /// Which element of the node's list, from 0.
    pub item: Option<u32>,
    /// The submitter's own name for it.
    pub idempotency_key: Option<String>,
}

/// Who holds a task.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CurrentLease {
    /// The lease.
    pub lease_id: String,
    /// Its holder.
    pub worker_id: String,
    /// When it was granted.
    pub granted_at: String,
}

/// Why a task did not complete.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TaskError {
    /// A short code, the worker's or ours.
    pub code: String,
    /// A sentence.
    pub reason: String,
    /// What the failed attempt left behind, if it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub details: Option<Box<RawValue>>,
}

/// An attempt that ended without settling its task.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct EndedAttempt {
    /// Its lease.
    pub lease_id: String,
    /// Who held it.
    pub worker_id: String,
    /// When it ended.
    pub ended_at: String,
    /// How it ended: `FAILED`, `EXPIRED`, `TIMED_OUT`, `UNDELIVERED` or `STOPPED`.
    pub ending: String,
    /// What the worker said, when it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<TaskError>,
}

/// A page of `GET /tasks`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TaskPage {
    /// Newest first.
    pub tasks: Vec<Task>,
    /// Give it as `cursor` to go on; absent at the end. A page may be short, or empty, and still
    /// have one: a call looks at a bounded number of rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Why a task does not run.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// Its name.
    pub task_id: String,
    /// Where it stands.
    pub state: State,
    /// How long it exists.
    pub age_ms: u64,
    /// Attempts so far.
    pub attempt: u32,
    /// One sentence that says it all.
    pub summary: String,
    /// The reasons, most telling first.
    pub reasons: Vec<Reason>,
}

/// One reason.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Reason {
    /// For programs: `paused`, `held_by`, `not_before`, `blocked_by`, `backoff`, `key_held`,
    /// `pinned_away`, `pinned_busy`, `no_workers`, `lacking`, `workers_lost`, `workers_drained`,
    /// `workers_kept_away`, `none_asking`, `behind`, `settled`.
    pub code: String,
    /// For people.
    pub message: String,
    /// What to do about it, where there is something to do.
    pub hint: Option<String>,
    /// How many workers or tasks it is about.
    pub count: Option<u64>,
}

impl Reason {
    /// A reason that says nothing about what to do.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), hint: None, count: None }
    }

    /// The same reason, with what to do about it.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The same reason, about so many workers or tasks.
    #[must_use]
    pub fn count(self, count: u64) -> Self {
        Self { count: Some(count), ..self }
    }
}
