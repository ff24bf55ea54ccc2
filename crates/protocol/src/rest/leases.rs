//! Leases: ask for work, stay alive, report.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::tasks::{Package, State};

/// `POST /leases`: a worker asks for work.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestLeases {
    /// Who asks: 1 to 64 characters of `A-Z a-z 0-9 - _`, the same one every time.
    pub worker_id: String,
    /// The types it executes. Default: every type.
    pub types: Option<Vec<String>>,
    /// The queues it serves. Default: every queue.
    pub queues: Option<Vec<String>>,
    /// The tools it has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// The tags it carries.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// The packages it has installed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<Package>,
    /// At most so many leases. Default 1.
    pub max: Option<i64>,
    /// How long to wait for the first one. Default 0.
    pub wait_ms: Option<i64>,
    /// A lease is taken back unless a heartbeat or a report shows within this time that it
    /// arrived. Default: only its own end takes it back.
    pub confirm_ms: Option<i64>,
}

/// The leases that were granted; empty when the wait is over.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct GrantedLeases {
    /// Best first.
    pub leases: Vec<GrantedLease>,
}

/// The right to decide one attempt of a task.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct GrantedLease {
    /// `<task_id>-<epoch>`: name it in heartbeats and reports.
    pub lease_id: String,
    /// The task.
    pub task_id: String,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// What kind of work it is.
    #[serde(rename = "type")]
    pub task_type: String,
    /// What the submitter gave.
    #[schema(value_type = serde_json::Value)]
    pub parameters: Box<RawValue>,
    /// When the right ends unless a heartbeat comes first.
    pub expires_at: String,
    /// How often a heartbeat should come.
    pub heartbeat_ms: u64,
}

/// `POST /leases/{lease_id}/heartbeat`: the worker still works on it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// Who works.
    pub worker_id: String,
}

/// What became of a heartbeat.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct HeartbeatAnswer {
    /// `EXTENDED`, or `CANCELLED` (stop the work), or `REJECTED` (a bug).
    pub verdict: HeartbeatWord,
    /// The lease's new end, when it was extended.
    pub expires_at: Option<String>,
    /// Why not, when it was not.
    pub reason: Option<String>,
}

/// What became of a heartbeat, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum HeartbeatWord {
    /// The lease lasts on.
    Extended,
    /// The lease is over: stop the work.
    Cancelled,
    /// The heartbeat makes no sense.
    Rejected,
}

/// `POST /leases/{lease_id}/complete`: the work is done.
#[skip_serializing_none]
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Complete {
    /// Who did it.
    pub worker_id: String,
    /// Any JSON. Default `null`.
    #[schema(value_type = Option<serde_json::Value>)]
    pub result: Option<Box<RawValue>>,
    /// What the work left on its worker: references with `resource_id`, `worker_name`, `type` and,
    /// optionally, `size_bytes`, `inline`, `expires_at`, `metadata`.
    #[schema(value_type = Option<Vec<serde_json::Value>>)]
    pub artifacts: Option<Vec<Box<RawValue>>>,
    /// Whether the worker found that there was nothing to do. Default `false`.
    pub skipped: Option<bool>,
    /// The worker's own name for this report; the same one when it is sent again.
    pub report_id: Option<String>,
}

/// `POST /leases/{lease_id}/fail`: the work failed.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Fail {
    /// Whose attempt failed.
    pub worker_id: String,
    /// A sentence that says why.
    pub reason: String,
    /// A short code. Default `E.RUNNER.FAILURE`.
    pub code: Option<String>,
    /// Whether another attempt could help. Default `true`.
    pub retryable: Option<bool>,
    /// What the attempt leaves behind although it failed, such as the results of the steps before
    /// the failure: any JSON.
    #[schema(value_type = Option<serde_json::Value>)]
    pub details: Option<Box<RawValue>>,
    /// The worker's own name for this report; the same one when it is sent again.
    pub report_id: Option<String>,
}

/// `POST /reports`: many reports, judged one by one in order.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Reports {
    /// What happened.
    pub reports: Vec<Report>,
}

/// One report: `result` of a completed attempt, or `reason` of a failed one.
#[skip_serializing_none]
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The lease that it is about.
    pub lease_id: String,
    /// Who reports.
    pub worker_id: String,
    /// `complete` or `fail`.
    pub outcome: ReportOutcome,
    /// With `complete`: any JSON. Default `null`.
    #[schema(value_type = Option<serde_json::Value>)]
    pub result: Option<Box<RawValue>>,
    /// With `fail`: a sentence that says why.
    pub reason: Option<String>,
    /// With `fail`: a short code.
    pub code: Option<String>,
    /// With `fail`: whether another attempt could help. Default `true`.
    pub retryable: Option<bool>,
    /// With `fail`: what the attempt leaves behind although it failed, such as the results of the steps
    /// before the failure: any JSON.
    #[schema(value_type = Option<serde_json::Value>)]
    pub details: Option<Box<RawValue>>,
    /// With `complete`: what the work left on its worker: references with `resource_id`, `worker_name`, `type` and,
    /// optionally, `size_bytes`, `inline`, `expires_at`, `metadata`.
    #[schema(value_type = Option<Vec<serde_json::Value>>)]
    pub artifacts: Option<Vec<Box<RawValue>>>,
    /// With `complete`: whether the worker found that there was nothing to do. Default `false`.
    pub skipped: Option<bool>,
    /// The worker's own name for this report; the same one when it is sent again.
    pub report_id: Option<String>,
}

/// What a report says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReportOutcome {
    /// The work is done.
    Complete,
    /// The work failed.
    Fail,
}

/// Verdicts, in the order of the reports.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Verdicts {
    /// One for each report.
    pub verdicts: Vec<VerdictAnswer>,
}

/// The coordinator's word about a report. All three are final for the attempt.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct VerdictAnswer {
    /// The verdict.
    pub verdict: VerdictWord,
    /// Why, unless it was committed: `expired`, `superseded`, `task_cancelled`, `unknown_task`,
    /// `malformed`, `unknown_lease`, `not_holder`, `duplicate_report`.
    pub reason: Option<String>,
    /// Where the task stands now; absent when there is no such task.
    pub task_state: Option<State>,
}

/// The three verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum VerdictWord {
    /// The report counts: the attempt is finished.
    Committed,
    /// The lease was lost: discard the result. Not a failure.
    Cancelled,
    /// The report makes no sense: a bug; do not retry.
    Rejected,
}
