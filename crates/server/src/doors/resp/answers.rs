//! Nouns to wire words (jobs as JSON, refusals as errors), and words of clients to nouns.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use bytes::Bytes;
use coordinator::{
    Grant, LostAuthority, StateWord, TaskRecord, TaskState, Verdict, Violation, WaitReason,
};
use model::{InvalidText, LeaseId, QueueName, TaskId, Timestamp, WorkerId};
use protocol::plan::PlanJob;
use protocol::resp::reply::Reply;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use store::StoreError;

use crate::handle::AskError;
use crate::plans::job::{DEFAULT_QUEUE, FREE_JOB, INLINE_PLAN, READY_QUEUE, job_id_in};
use crate::plans::kept::PlanError;
use crate::resp_workers::ABILITIES_MAX;
use crate::wire_words::problem::ApiError;

/// The seed's word for where a job stands.
pub(super) fn status_word(state: StateWord) -> &'static str {
    match state {
        StateWord::Waiting => "scheduled",
        StateWord::Queued | StateWord::Retrying => "pending",
        StateWord::Running => "running",
        StateWord::Completed => "completed",
        StateWord::Failed => "failed",
        StateWord::Dead => "dead",
        StateWord::Stopped => "cancelled",
    }
}

/// What a job is called outside: by its own name, or by its task's.
pub(super) fn job_id(task: TaskId, parameters: &[u8]) -> String {
    job_id_in(parameters).map_or_else(|| task.to_string(), str::to_owned)
}

/// A job as a pop gives it. The payload is spliced in as it is: it was read once, at the door.
pub(super) fn popped_job(grant: &Grant, worker: &WorkerId) -> Bytes {
    let lease = grant.lease;
    if grant.spec.demand.task_type.as_str() == FREE_JOB {
        return free_job(lease, grant, worker);
    }
    let mut job = plan_fields(lease.task, &grant.parameters);
    job.insert("status".into(), "running".into());
    job.insert("worker_id".into(), worker.as_str().into());
    job.insert("lease_id".into(), lease.to_string().into());
    job.insert("attempt".into(), grant.attempt.into());
    job.insert("queue".into(), grant.spec.demand.queue.as_str().into());
    if let Some(timeout) = grant.spec.timeout {
        job.insert("timeout_secs".into(), timeout.as_secs().into());
    }
    Bytes::from(Value::Object(job).to_string())
}

fn free_job(lease: LeaseId, grant: &Grant, worker: &WorkerId) -> Bytes {
    let payload = std::str::from_utf8(&grant.parameters).expect("parameters are JSON");
    let own_name = job_id_in(&grant.parameters).is_some();
    let mut text = String::with_capacity(payload.len() + 256);
    text.push('{');
    if !own_name {
        let _ = write!(text, "\"job_id\":\"{}\",", lease.task);
    }
    let _ = write!(
        text,
        "\"lease_id\":\"{lease}\",\"attempt\":{},\"worker_id\":\"{worker}\",\"queue\":\"{}\"",
        grant.attempt, grant.spec.demand.queue
    );
    let rest = payload.trim_start().strip_prefix('{').unwrap_or("}").trim_start();
    if rest != "}" {
        text.push(',');
    }
    text.push_str(rest);
    Bytes::from(text)
}

/// The fields that every kind of worker looks for.
fn plan_fields(task: TaskId, parameters: &[u8]) -> Map<String, Value> {
    let mut job: Map<String, Value> = serde_json::from_slice(parameters).unwrap_or_default();
    let name = job_id(task, parameters);
    job.insert("id".into(), name.clone().into());
    job.insert("job_id".into(), name.clone().into());
    job.insert("task_id".into(), task.to_string().into());
    job.entry("action_id").or_insert_with(|| "".into());
    if let Ok(plan) = serde_json::from_slice::<PlanJob>(parameters) {
        if let [only] = &plan.tasks[..] {
            job.insert("task_number".into(), only.task_number.into());
            job.insert("command".into(), only.command.clone().into());
            job.insert("args".into(), json!(only.args));
        }
        if plan.plan_id == INLINE_PLAN {
            // Whoever asks for the plan by its name finds it under the job's.
            job.insert("plan_id".into(), name.into());
        }
        let plan = json!({ "plan_id": job["plan_id"], "tasks": plan.tasks });
        job.insert("plan".into(), plan);
    }
    let input = job.get("input").cloned();
    job.insert("inputs".into(), input.map_or_else(|| json!([]), |input| json!([input])));
    job
}

/// A job as it stands in the store.
pub(super) fn job_view(record: &TaskRecord) -> Map<String, Value> {
    let mut job = if record.spec.demand.task_type.as_str() == FREE_JOB {
        let mut job: Map<String, Value> =
            serde_json::from_slice(&record.parameters).unwrap_or_default();
        job.insert("job_id".into(), job_id(record.id, &record.parameters).into());
        job.insert("task_id".into(), record.id.to_string().into());
        job
    } else {
        plan_fields(record.id, &record.parameters)
    };
    add_standing(&mut job, record);
    job
}

/// Where a job stands, without what it is.
pub(super) fn job_status(record: &TaskRecord) -> Map<String, Value> {
    let mut job = Map::new();
    job.insert("job_id".into(), job_id(record.id, &record.parameters).into());
    job.insert("task_id".into(), record.id.to_string().into());
    if record.spec.demand.task_type.as_str() != FREE_JOB {
        let (action_id, plan_id) = plan_names(&record.parameters);
        job.insert("plan_id".into(), plan_id.into());
        job.insert("action_id".into(), action_id.into());
    }
    add_standing(&mut job, record);
    job
}

/// The names of a job's action and plan, which stand at the head of parameters that may be cut.
fn plan_names(parameters: &[u8]) -> (Option<String>, Option<String>) {
    let mut rest = parameters.strip_prefix(b"{").unwrap_or_default();
    let mut next = |field: &str| {
        let text = rest.strip_prefix(format!("\"{field}\":").as_bytes())?;
        let mut values = serde_json::Deserializer::from_slice(text).into_iter::<String>();
        let value = values.next()?.ok()?;
        rest = text[values.byte_offset()..].strip_prefix(b",").unwrap_or_default();
        Some(value)
    };
    next("job_id");
    (next("action_id"), next("plan_id"))
}

fn add_standing(job: &mut Map<String, Value>, record: &TaskRecord) {
    let word = record.progress.state.word();
    job.insert("status".into(), status_word(word).into());
    job.insert("queue".into(), record.spec.demand.queue.as_str().into());
    job.insert("priority".into(), record.spec.priority.into());
    job.insert("attempt".into(), record.progress.attempt.into());
    job.insert("created_at".into(), seconds(record.created_at));
    if !record.after.is_empty() {
        let others: Vec<String> = record.after.iter().map(ToString::to_string).collect();
        job.insert("dependencies".into(), others.into());
    }
    let tools: Vec<&str> = record.spec.demand.tools.iter().map(model::ToolName::as_str).collect();
    job.insert("tools".into(), tools.into());
    match &record.progress.state {
        TaskState::Leased(lease) => {
            let id = LeaseId { task: record.id, epoch: record.progress.epoch };
            job.insert("worker_id".into(), lease.holder.as_str().into());
            job.insert("lease_id".into(), id.to_string().into());
            job.insert("started_at".into(), seconds(lease.granted_at));
        }
        TaskState::Waiting { why: WaitReason::After, .. } => {
            job.insert("status".into(), "pending".into());
        }
        TaskState::Waiting { until, .. } => {
            job.insert("next_attempt_at".into(), seconds(*until));
        }
        TaskState::Ready => {}
        TaskState::Settled(settlement) => {
            job.insert("completed_at".into(), seconds(settlement.at));
            if let Some(holder) = &settlement.holder {
                job.insert("worker_id".into(), holder.as_str().into());
            }
            if let Some(result) = &settlement.result {
                add_result(job, result);
            }
            if let Some(failure) = &settlement.failure {
                job.insert("error".into(), failure.reason.clone().into());
                job.insert("error_code".into(), failure.code.clone().into());
                if let Some(details) = &failure.details {
                    add_result(job, details);
                }
            }
        }
    }
}

/// What an update says about the report itself, and the job shows elsewhere.
const OWN_FIELDS: [&str; 9] = [
    "status",
    "worker_id",
    "lease_id",
    "started_at",
    "completed_at",
    "failed_at",
    "error",
    "error_code",
    "retryable",
];

/// What a worker gave; the results of steps stand beside the rest, as the seed has them.
fn add_result(job: &mut Map<String, Value>, result: &[u8]) {
    let Ok(mut result) = serde_json::from_slice::<Value>(result) else { return };
    if let Some(fields) = result.as_object_mut() {
        if let Some(steps) = fields.remove("task_results") {
            let last = steps.as_array().and_then(|steps| steps.last());
            if let Some(code) = last.and_then(|step| step.get("exit_code")) {
                job.insert("exit_code".into(), code.clone());
            }
            job.insert("task_results".into(), steps);
        }
        for own in OWN_FIELDS {
            fields.remove(own);
        }
        if fields.is_empty() {
            return;
        }
    }
    job.insert("result".into(), result);
}

/// Times are unix seconds on this wire.
pub(super) fn seconds(moment: Timestamp) -> Value {
    (moment.as_millis() / 1_000).into()
}

pub(super) fn json_bulk(value: impl Into<Value>) -> Reply {
    Reply::from(value.into().to_string())
}

/// A number; what has no room is the greatest that has.
pub(super) fn whole(number: impl TryInto<i64>) -> Reply {
    Reply::Integer(number.try_into().unwrap_or(i64::MAX))
}

/// The verdict on a report, as a reply.
pub(super) fn verdict_reply(verdict: Verdict, job: &str) -> Reply {
    match verdict {
        Verdict::Committed => Reply::ok(),
        Verdict::Cancelled(lost) => {
            let (word, why) = lost_words(lost);
            Reply::error(format!("CANCELLED {word}: {why}; the report about {job} does not count"))
        }
        Verdict::Rejected(violation) => {
            let (word, why) = violation_words(violation);
            Reply::error(format!("REJECTED {word}: {why} ({job})"))
        }
    }
}

pub(super) fn lost_words(lost: LostAuthority) -> (&'static str, &'static str) {
    match lost {
        LostAuthority::Expired => ("expired", "the lease ended before the report came"),
        LostAuthority::Superseded => ("superseded", "the job was given to another worker since"),
        LostAuthority::TaskCancelled => ("task_cancelled", "the job was stopped"),
        LostAuthority::Reported => ("reported", "the job was reported already"),
    }
}

fn violation_words(violation: Violation) -> (&'static str, &'static str) {
    match violation {
        Violation::UnknownTask => ("unknown_task", "there is no such job"),
        Violation::UnknownLease => ("unknown_lease", "this worker was never given the job"),
        Violation::NotHolder => ("not_holder", "the job was claimed by another worker"),
        Violation::DuplicateReport => {
            ("duplicate_report", "the job was reported before, with other words")
        }
    }
}

/// Why a command is not carried out: the error that the client reads, which begins with a code in
/// capitals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RespError(pub(super) Cow<'static, str>);

/// What a command comes to.
pub(super) type Answered<T = Reply> = Result<T, RespError>;

impl RespError {
    pub(super) fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self(text.into())
    }

    pub(super) fn not_found(job: &str) -> Self {
        Self::from(format!("Job not found: {job}"))
    }
}

impl From<RespError> for Reply {
    fn from(error: RespError) -> Self {
        Self::Error(error.0)
    }
}

/// A sentence without a code.
impl From<String> for RespError {
    fn from(text: String) -> Self {
        Self::new(format!("ERR {text}"))
    }
}

impl From<InvalidText> for RespError {
    fn from(error: InvalidText) -> Self {
        error.to_string().into()
    }
}

impl From<AskError> for RespError {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Overloaded => Self::new("BUSY more requests than the server can take now"),
            AskError::Unavailable => {
                Self::new("ERR the store cannot keep anything right now; try again")
            }
            AskError::Stopping => Self::new("ERR the server is stopping; connect again"),
            AskError::Refused(refusal) => {
                let text = ApiError::from(refusal);
                format!("{} ({})", text.message, text.code.name()).into()
            }
        }
    }
}

impl From<StoreError> for RespError {
    fn from(error: StoreError) -> Self {
        tracing::warn!(%error, "the store did not answer a Redis client");
        Self::new("ERR the store does not answer right now; try again")
    }
}

impl From<PlanError> for RespError {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Ask(error) => error.into(),
            PlanError::Store(error) => error.into(),
            other => other.to_string().into(),
        }
    }
}

/// What keys of queues begin with.
pub(super) const QUEUE_PREFIX: &[u8] = b"queue:";
/// Jobs that are held by workers, as a list.
pub(super) const PROCESSING: &str = "processing";
/// Jobs that wait for their moment, as a list.
pub(super) const SCHEDULED: &str = "scheduled";
/// A worker's name.
const WORKER_ID_CHARS_MAX: usize = 64;

/// A worker's name, or what is wrong with it in the words of seed 004 section 7.2.
pub(super) fn worker_id_in(text: &str) -> Answered<WorkerId> {
    let is_odd = |letter: char| !letter.is_ascii_alphanumeric() && letter != '-' && letter != '_';
    if text.contains(is_odd) {
        let text = "ERR Invalid worker ID characters: worker_id takes A-Z a-z 0-9 - _";
        return Err(RespError::new(text));
    }
    if text.len() > WORKER_ID_CHARS_MAX {
        let text = format!("Worker ID too long: worker_id takes {WORKER_ID_CHARS_MAX} characters");
        return Err(text.into());
    }
    Ok(text.parse::<WorkerId>()?)
}

/// The name in `queue:<name>`.
pub(super) fn queue_in(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.strip_prefix(QUEUE_PREFIX)?).ok()
}

/// The queues behind a list's name. `queue:ready` shows whole plans and single commands: a worker
/// of the one list takes both.
pub(super) fn queues_of(name: &str) -> Answered<BTreeSet<QueueName>> {
    let names: &[&str] = if name == READY_QUEUE { &[READY_QUEUE, DEFAULT_QUEUE] } else { &[name] };
    Ok(names.iter().map(|name| name.parse()).collect::<Result<_, InvalidText>>()?)
}

/// `a,b,c` as `SET worker:<id>:tools` has it.
pub(super) fn comma_list(text: &[u8]) -> Answered<Vec<&str>> {
    let text = std::str::from_utf8(text).map_err(|_| RespError::new("ERR the list is not text"))?;
    let names: Vec<&str> = text.split(',').map(str::trim).filter(|one| !one.is_empty()).collect();
    if names.len() > ABILITIES_MAX {
        let text = format!("the list has {} names; at most {ABILITIES_MAX}", names.len());
        return Err(text.into());
    }
    Ok(names)
}

/// What `JOB.UPDATE` takes (seed 004 section 4.2); all else stays in the result.
#[derive(Deserialize)]
pub(super) struct Update<'a> {
    #[serde(borrow)]
    pub(super) status: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) worker_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) lease_id: Option<Cow<'a, str>>,
    pub(super) current_task: Option<u64>,
    pub(super) progress_percent: Option<f64>,
    #[serde(borrow)]
    pub(super) message: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error_code: Option<Cow<'a, str>>,
    pub(super) retryable: Option<bool>,
}

/// What an update says of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It runs, or says how far it is.
    Progress,
    Completed,
    Failed,
}

impl Update<'_> {
    pub(super) fn step(&self) -> Answered<Step> {
        match self.status.as_deref() {
            None | Some("running" | "in_progress") => Ok(Step::Progress),
            Some("completed" | "success" | "succeeded") => Ok(Step::Completed),
            Some("failed" | "error") => Ok(Step::Failed),
            Some(other) => {
                let known = "running, completed or failed";
                Err(format!("status is '{other}'; a worker reports {known}").into())
            }
        }
    }

    /// Why the job failed, in the worker's words.
    pub(super) fn reason(&self) -> String {
        match self.error {
            None => "the worker reported a failure without a reason".to_owned(),
            Some(raw) => serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_workers_are_refused_in_the_words_of_the_seed() {
        check_name("worker-001_b", None);
        check_name("a b", Some("Invalid worker ID characters"));
        check_name("w\u{fc}", Some("Invalid worker ID characters"));
        check_name(&"x".repeat(64), None);
        check_name(&"x".repeat(65), Some("Worker ID too long"));
        check_name("", Some("worker_id must be"));
    }

    fn check_name(name: &str, refused: Option<&str>) {
        let said = worker_id_in(name).err().map(|RespError(text)| text);
        match (&said, refused) {
            (None, None) => {}
            (Some(said), Some(words)) => assert!(said.contains(words), "{name}: {said}"),
            _ => panic!("{name}: {said:?}"),
        }
    }
}
