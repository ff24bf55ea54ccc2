//! A job, in its submitter's words, and the task that it becomes.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::{
    Demand, IdempotencyKey, IdempotencyMark, InvalidText, NewTask, PRIORITY_LIMIT, QueueName,
    RetryPolicy, RunName, TagKey, TagValue, TaskSpec, Timestamp, ToolName, TypeName,
    is_deeper_than,
};
use protocol::plan::{PLAN, PLAN_STEP, Plan, PlanJob, PlanTask};
use protocol::rest::actions::{JobMoment, JobTags, SubmitJob};
use serde_json::value::RawValue;
use shard::report_key::fingerprint;

use super::kept::{self, PlanError};
use crate::app::App;
use crate::handle::ShardHandle;
use crate::wire_words::payload::{
    DEMAND_ENTRIES_MAX, PARAMETERS_BYTES_MAX, PAYLOAD_DEPTH_MAX, describe,
};

/// The type of a job that is no plan: its payload means something to its worker alone.
pub(crate) const FREE_JOB: &str = "job";
/// Where whole plans wait (seed 004 section 4.1).
pub(crate) const READY_QUEUE: &str = "ready";
/// Where single commands wait.
pub(crate) const DEFAULT_QUEUE: &str = "default";
/// Limit: a job without a sign of life for so long is taken back: three heartbeats.
const JOB_LEASE_TTL: Duration = Duration::from_secs(90);
/// Limit: the longest attempt of a job, if it does not say.
const JOB_TIMEOUT: Duration = Duration::from_hours(1);
/// The longest that a job may ask for.
const JOB_TIMEOUT_MAX_SECS: u64 = 30 * 24 * 3_600;
/// Limit: retries that a job may ask for.
const JOB_RETRIES_MAX: u32 = 100;
/// Attempts beyond the first and its retries: workers that are lost say nothing about the job.
const LOSS_ATTEMPTS: u32 = 2;
/// Limit: the name of a job, a plan or an action, in characters.
pub(crate) const NAME_CHARS_MAX: usize = 64;
/// The plan of a job that brought its steps along and has no name; shown under the job's own name.
pub(crate) const INLINE_PLAN: &str = "inline";
/// Jobs that one job may wait for.
pub(crate) const AFTER_MAX: usize = 1_000;

/// How often a worker may fail at a job before the failure is final.
pub(crate) fn retries_of(spec: &TaskSpec) -> u32 {
    spec.retry.max_attempts.saturating_sub(1 + LOSS_ATTEMPTS)
}

/// Names of jobs, plans and actions: they become parts of keys, so they hold no colon.
pub(crate) fn check_name(field: &str, name: &str) -> Result<(), PlanError> {
    let fits = (1..=NAME_CHARS_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    if fits {
        return Ok(());
    }
    Err(PlanError::Invalid(format!(
        "{field} must be 1 to {NAME_CHARS_MAX} characters of A-Z a-z 0-9 - _"
    )))
}

/// The key under which a job's own name is found.
pub(crate) fn name_key(job_id: &str) -> IdempotencyKey {
    format!("job:{job_id}").parse().expect("a checked name is a key")
}

/// Reads a job. Fields that are unknown stay in the payload of a free job, and mean nothing in a
/// plan.
fn read(json: &Bytes) -> Result<SubmitJob<'_>, PlanError> {
    if json.len() > PARAMETERS_BYTES_MAX {
        let length = json.len();
        let text = format!("the job has {length} bytes; at most {PARAMETERS_BYTES_MAX} go");
        return Err(PlanError::Invalid(text));
    }
    let text = std::str::from_utf8(json)
        .map_err(|_| PlanError::invalid("a job is text in UTF-8; put other bytes in as base64"))?;
    if is_deeper_than(json, PAYLOAD_DEPTH_MAX) {
        let text = format!("the job nests more than {PAYLOAD_DEPTH_MAX} levels deep");
        return Err(PlanError::Invalid(text));
    }
    let job: SubmitJob<'_> = serde_json::from_str(text).map_err(|error| not_a_job(json, &error))?;
    // A list is read as the fields in their order.
    if json.trim_ascii_start().first() == Some(&b'[') {
        return Err(PlanError::invalid("a job is a JSON object, like {\"plan_id\":\"p1\"}"));
    }
    if let Some(job_id) = &job.job_id {
        check_name("job_id", job_id)?;
    }
    if job.after.len() > AFTER_MAX {
        let text = format!("after names {} jobs; at most {AFTER_MAX}", job.after.len());
        return Err(PlanError::Invalid(text));
    }
    Ok(job)
}

fn priority_of(job: &SubmitJob<'_>) -> Result<i16, PlanError> {
    let priority = i16::try_from(job.priority.unwrap_or(0)).ok();
    priority.filter(|one| (-PRIORITY_LIMIT..=PRIORITY_LIMIT).contains(one)).ok_or_else(|| {
        let text = format!("priority must lie between -{PRIORITY_LIMIT} and {PRIORITY_LIMIT}");
        PlanError::Invalid(text)
    })
}

fn timeout_of(job: &SubmitJob<'_>) -> Result<Duration, PlanError> {
    match job.timeout_secs {
        None => Ok(JOB_TIMEOUT),
        Some(secs @ 1..=JOB_TIMEOUT_MAX_SECS) => Ok(Duration::from_secs(secs)),
        Some(_) => {
            let text = format!("timeout_secs must be 1 to {JOB_TIMEOUT_MAX_SECS}");
            Err(PlanError::Invalid(text))
        }
    }
}

fn retries_in(job: &SubmitJob<'_>) -> Result<u32, PlanError> {
    let retries = job.max_retries.unwrap_or(0);
    if retries > JOB_RETRIES_MAX {
        return Err(PlanError::Invalid(format!("max_retries must be 0 to {JOB_RETRIES_MAX}")));
    }
    Ok(retries)
}

fn moment(given: &JobMoment) -> Result<Timestamp, PlanError> {
    match given {
        JobMoment::Other(_) => {
            Err(PlanError::invalid("run_at must be a moment in RFC 3339, or seconds since 1970"))
        }
        JobMoment::Seconds(seconds) => Ok(Timestamp::from_millis(seconds.saturating_mul(1_000))),
        JobMoment::Text(text) => text
            .parse()
            .map_err(|error| PlanError::Invalid(format!("run_at: {error}; or seconds since 1970"))),
    }
}

/// A bare tag has the value `true`, so that both forms meet.
pub(crate) fn tags(given: JobTags) -> Result<BTreeMap<TagKey, TagValue>, PlanError> {
    let text = |value: serde_json::Value| match value {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    };
    let pairs: Vec<(String, String)> = match given {
        JobTags::Other(_) => {
            let forms = r#"["gpu"] or {"gpu": true}"#;
            return Err(PlanError::Invalid(format!("tags must be a list or an object: {forms}")));
        }
        JobTags::None => Vec::new(),
        JobTags::List(tags) => tags.into_iter().map(|tag| (tag, "true".to_owned())).collect(),
        JobTags::Map(tags) => tags.into_iter().map(|(key, value)| (key, text(value))).collect(),
    };
    let pair = |(key, value): (String, String)| {
        let problem = |error: InvalidText| problem("tags", &error);
        Ok((key.parse().map_err(problem)?, value.parse().map_err(problem)?))
    };
    pairs.into_iter().map(pair).collect()
}

/// A job that is to be a task.
pub(crate) struct Order {
    /// The task, but for the jobs that it waits for.
    pub(crate) task: NewTask,
    /// Names of jobs that must be done first.
    pub(crate) after: Vec<String>,
    /// The job's own name.
    pub(crate) job_id: Option<String>,
}

/// Makes tasks of jobs. Neighbours of one kind share their specification, and those of one plan
/// what was read of it.
pub(crate) struct OrderDesk<'a> {
    app: &'a App,
    handle: &'a ShardHandle,
    now: Timestamp,
    last: Option<Arc<TaskSpec>>,
    last_plan: Option<Plan>,
}

impl<'a> OrderDesk<'a> {
    pub(crate) fn new(app: &'a App, handle: &'a ShardHandle) -> Self {
        Self { app, handle, now: app.clock.now(), last: None, last_plan: None }
    }

    /// Reads a job. `queue` is where it goes unless it says so itself.
    pub(crate) async fn read(
        &mut self,
        json: &Bytes,
        queue: Option<&str>,
    ) -> Result<Order, PlanError> {
        let mut words = read(json)?;
        let job_id = words.job_id.as_ref().map(|name| name.clone().into_owned());
        let after = std::mem::take(&mut words.after);
        let plan = self.plan_of(&mut words).await?;
        let run = match &words.action_id {
            Some(name) => {
                Some(name.parse::<RunName>().map_err(|error| problem("action_id", &error))?)
            }
            None => None,
        };
        let parameters = match &plan {
            Some(plan) => Bytes::from(serde_json::to_vec(plan).expect("plans are JSON")),
            None => free_payload(json, job_id.as_deref()),
        };
        let not_before = self.start_of(&words)?;
        let spec = self.spec(words, plan.as_ref(), queue)?;
        let idempotency = job_id.as_deref().map(|name| IdempotencyMark {
            key: name_key(name),
            fingerprint: fingerprint(b"astra.job.v1", &[json]),
        });
        let task = NewTask {
            spec,
            parameters,
            not_before,
            concurrency_key: None,
            idempotency,
            run,
            after: Vec::new(),
            pin: None,
        };
        Ok(Order { task, after, job_id })
    }

    fn start_of(&self, words: &SubmitJob<'_>) -> Result<Option<Timestamp>, PlanError> {
        match (&words.run_at, words.delay_secs) {
            (Some(_), Some(_)) => {
                Err(PlanError::invalid("run_at and delay_secs exclude each other"))
            }
            (Some(given), None) => moment(given).map(Some),
            (None, Some(seconds)) => Ok(Some(self.now.after(Duration::from_secs(seconds)))),
            (None, None) => Ok(None),
        }
    }

    /// The plan that the job executes, if it is one.
    async fn plan_of(&mut self, words: &mut SubmitJob<'_>) -> Result<Option<PlanJob>, PlanError> {
        let unnamed = || words_plan_id(words.plan_id.as_deref(), words.job_id.as_deref());
        let plan = if let Some(inline) = words.plan.take() {
            let plan_id = inline.plan_id.unwrap_or_else(unnamed);
            Plan { plan_id, plan_description: inline.plan_description, tasks: inline.tasks }
        } else if let Some(tasks) = words.tasks.take() {
            let plan_id = unnamed();
            Plan { plan_id, plan_description: words.plan_description.take(), tasks }
        } else if let Some(command) = words.command.take() {
            let plan_id = unnamed();
            let args = std::mem::take(&mut words.args);
            let timeout_secs = words.timeout_secs.and_then(|secs| u32::try_from(secs).ok());
            let task =
                PlanTask { task_number: 1, command, args, timeout_secs, input_from_task: None };
            Plan { plan_id, plan_description: None, tasks: vec![task] }
        } else if let Some(plan_id) = &words.plan_id {
            self.kept_plan(plan_id).await?.clone()
        } else {
            return Ok(None);
        };
        let job = PlanJob {
            job_id: words.job_id.as_ref().map(|name| name.clone().into_owned()),
            action_id: words.action_id.as_ref().map(|name| name.clone().into_owned()),
            plan_id: plan.plan_id,
            plan_description: plan.plan_description,
            tasks: plan.tasks,
            input: words.input.map(RawValue::to_owned),
            input_index: words.input_index,
            env: std::mem::take(&mut words.env),
            max_retries: words.max_retries.unwrap_or(0),
        };
        job.check().map_err(|error| PlanError::Invalid(error.to_string()))?;
        Ok(Some(job))
    }

    async fn kept_plan(&mut self, plan_id: &str) -> Result<&Plan, PlanError> {
        if self.last_plan.as_ref().is_none_or(|last| last.plan_id != plan_id) {
            let kept = kept::plan(&*self.app.store, self.handle, plan_id).await?;
            let kept = kept.ok_or_else(|| PlanError::NoPlan(plan_id.to_owned()))?;
            self.last_plan = Some(kept.plan);
        }
        Ok(self.last_plan.as_ref().expect("it was just read"))
    }

    fn spec(
        &mut self,
        words: SubmitJob<'_>,
        plan: Option<&PlanJob>,
        queue: Option<&str>,
    ) -> Result<Arc<TaskSpec>, PlanError> {
        let is_step = plan.is_some_and(PlanJob::is_single_step);
        let task_type = match plan {
            Some(_) if is_step => PLAN_STEP,
            Some(_) => PLAN,
            None => FREE_JOB,
        };
        let usual = if is_step { DEFAULT_QUEUE } else { READY_QUEUE };
        let queue = words.queue.as_deref().or(queue).unwrap_or(usual);
        let (priority, timeout) = (priority_of(&words)?, timeout_of(&words)?);
        let retries = retries_in(&words)?;
        let names = words.tools.iter().chain(&words.agentic_units).map(String::as_str);
        let spec = TaskSpec {
            demand: Demand {
                queue: queue.parse::<QueueName>().map_err(|error| problem("queue", &error))?,
                task_type: task_type.parse::<TypeName>().expect("our own word"),
                tools: tools(names, plan)?,
                tags: tags(words.tags)?,
                package: None,
            },
            priority,
            lease_ttl: JOB_LEASE_TTL,
            timeout: Some(timeout),
            retry: RetryPolicy {
                max_attempts: 1 + retries + LOSS_ATTEMPTS,
                ..RetryPolicy::default()
            },
        };
        if let Some(last) = self.last.as_ref().filter(|last| ***last == spec) {
            return Ok(Arc::clone(last));
        }
        Ok(Arc::clone(self.last.insert(Arc::new(spec))))
    }
}

fn words_plan_id(plan_id: Option<&str>, job_id: Option<&str>) -> String {
    plan_id.or(job_id).unwrap_or(INLINE_PLAN).to_owned()
}

fn tools<'a>(
    names: impl Iterator<Item = &'a str>,
    plan: Option<&PlanJob>,
) -> Result<BTreeSet<ToolName>, PlanError> {
    let mut tools = BTreeSet::new();
    for name in names {
        tools.insert(name.parse::<ToolName>().map_err(|error| problem("tools", &error))?);
    }
    for name in plan.map(PlanJob::tools).into_iter().flatten() {
        tools.insert(name.parse::<ToolName>().map_err(|error| problem("command", &error))?);
    }
    if tools.len() > DEMAND_ENTRIES_MAX {
        let text = format!("the job needs {} tools; at most {DEMAND_ENTRIES_MAX}", tools.len());
        return Err(PlanError::Invalid(text));
    }
    Ok(tools)
}

fn problem(field: &str, error: &InvalidText) -> PlanError {
    PlanError::Invalid(format!("{field}: {error}"))
}

fn not_a_job(json: &[u8], error: &serde_json::Error) -> PlanError {
    if error.is_data() {
        return PlanError::Invalid(describe(json, error));
    }
    PlanError::Invalid(format!("a job is a JSON object, like {{\"plan_id\":\"p1\"}}: {error}"))
}

/// The payload of a free job as it was sent, with its own name first: so it is found again without
/// reading all of it.
fn free_payload(json: &Bytes, job_id: Option<&str>) -> Bytes {
    let Some(job_id) = job_id else { return Bytes::copy_from_slice(json) };
    let mut fields: BTreeMap<Cow<'_, str>, &RawValue> =
        serde_json::from_slice(json).expect("it was read as an object");
    fields.remove("job_id");
    fields.remove("id");
    let rest = serde_json::to_string(&fields).expect("fields are JSON");
    let comma = if fields.is_empty() { "" } else { "," };
    Bytes::from(format!("{{\"job_id\":\"{job_id}\"{comma}{}", &rest[1..]))
}

/// The job's own name, from the parameters that were made of it.
pub(crate) fn job_id_in(parameters: &[u8]) -> Option<&str> {
    let rest = parameters.strip_prefix(b"{\"job_id\":\"")?;
    let end = rest.iter().take(NAME_CHARS_MAX + 1).position(|byte| *byte == b'"')?;
    std::str::from_utf8(&rest[..end]).ok()
}
