//! From words on the wire to what the coordinator is asked: numbers, texts, offers, tasks.
//!
//! Text is checked here or in the `FromStr` of its type, and nowhere deeper.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use coordinator::{LeaseRequest, StateWord};
use flow::{ResourceConflict, resource_pin};
use model::{
    AFTER_MAX, Demand, IdempotencyKey, IdempotencyMark, InvalidText, LEASE_TTL_DEFAULT, NewTask,
    Offer, PackageRef, QueueName, RetryPolicy, TagKey, TagValue, TaskId, TaskSpec, Timestamp,
};
use protocol::error_code::ErrorCode;
use protocol::rest::leases::RequestLeases;
use protocol::rest::tasks::{Package, Requires, Retry, TaskToSubmit};
use serde_json::value::RawValue;
use shard::report_key::fingerprint;

use crate::bulk::TASKS_PER_CALL_MAX;
use crate::wire_words::payload::{
    DEMAND_ENTRIES_MAX, PARAMETERS_BYTES_MAX, TASKS_PER_SUBMIT_MAX, payload,
};
use crate::wire_words::problem::ApiError;

/// Limit: leases that one request may ask for.
const LEASES_PER_REQUEST_MAX: i64 = 1_000;
/// Limit: how long a request may wait, in milliseconds.
const WAIT_MS_MAX: i64 = 60_000;
/// Limit: how long a worker may take to confirm a lease, in milliseconds.
const CONFIRM_MS_MAX: i64 = 600_000;
/// Limit: tasks on a page.
pub(crate) const PAGE_TASKS_MAX: i64 = 500;
/// Limit: runs, and workflows, on a page.
const PAGE_RUNS_MAX: i64 = 200;
/// Limit: types, queues, tools, tags or packages that a worker may offer, of each.
const OFFER_ENTRIES_MAX: usize = 1_000;

/// A number's name and its range, both ends included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NumberRange {
    name: &'static str,
    min: i64,
    max: i64,
}

const fn range(name: &'static str, min: i64, max: i64) -> NumberRange {
    NumberRange { name, min, max }
}

pub(crate) const PRIORITY: NumberRange =
    range("priority", -(model::PRIORITY_LIMIT as i64), model::PRIORITY_LIMIT as i64);
pub(crate) const TIMEOUT_MS: NumberRange = range("timeout_ms", 1, millis(model::TIMEOUT_MAX));
pub(crate) const LEASE_TTL_MS: NumberRange =
    range("lease_ttl_ms", millis(model::LEASE_TTL_MIN), millis(model::LEASE_TTL_MAX));
pub(crate) const MAX_ATTEMPTS: NumberRange = range("max_attempts", 1, model::ATTEMPTS_MAX as i64);
pub(crate) const BACKOFF_MS: NumberRange = range("backoff_ms", 0, millis(model::BACKOFF_MAX));
pub(crate) const BACKOFF_MAX_MS: NumberRange =
    range("backoff_max_ms", 0, millis(model::BACKOFF_MAX));
const MAX_LEASES: NumberRange = range("max", 1, LEASES_PER_REQUEST_MAX);
pub(crate) const WAIT_MS: NumberRange = range("wait_ms", 0, WAIT_MS_MAX);
const CONFIRM_MS: NumberRange = range("confirm_ms", 1, CONFIRM_MS_MAX);
pub(crate) const PAGE_LIMIT: NumberRange = range("limit", 1, PAGE_TASKS_MAX);
pub(crate) const PAGE_OFFSET: NumberRange = range("offset", 0, i64::MAX);
pub(crate) const LOG_OFFSET: NumberRange = range("offset", 0, i64::MAX);
pub(crate) const RUNS_LIMIT: NumberRange = range("limit", 1, PAGE_RUNS_MAX);
pub(crate) const RUN_WAIT: NumberRange = range("wait", 0, WAIT_MS_MAX / 1_000);
pub(crate) const WORKFLOW_VERSION: NumberRange = range("version", 1, i64::MAX);
pub(crate) const BASE_VERSION: NumberRange = range("baseVersion", 0, i64::MAX);
pub(crate) const FRAME: NumberRange = range("frame", 0, u32::MAX as i64);
pub(crate) const QUEUE_MAX: NumberRange = range("max", 1, TASKS_PER_CALL_MAX);

const RANGES: [NumberRange; 10] = [
    PRIORITY,
    TIMEOUT_MS,
    LEASE_TTL_MS,
    MAX_ATTEMPTS,
    BACKOFF_MS,
    BACKOFF_MAX_MS,
    MAX_LEASES,
    WAIT_MS,
    CONFIRM_MS,
    PAGE_LIMIT,
];

/// Milliseconds of a limit of the model; all of them fit.
#[expect(clippy::cast_possible_truncation, reason = "limits are days, i64 holds millennia")]
const fn millis(duration: Duration) -> i64 {
    duration.as_millis() as i64
}

impl NumberRange {
    /// The number, if it lies in the range. `prefix` is the path before the name.
    pub(crate) fn check(self, prefix: &dyn Display, value: i64) -> Result<i64, ApiError> {
        if (self.min..=self.max).contains(&value) {
            return Ok(value);
        }
        let Self { name, .. } = self;
        Err(ApiError::invalid(format_args!("{prefix}{name} is {value};"), self.words()))
    }

    /// The same, as a time.
    pub(crate) fn check_millis(
        self,
        prefix: &dyn Display,
        value: i64,
    ) -> Result<Duration, ApiError> {
        self.check(prefix, value).map(|value| Duration::from_millis(value.unsigned_abs()))
    }

    pub(crate) fn name(self) -> &'static str {
        self.name
    }

    /// The same range under another name.
    pub(crate) const fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// The number that a text stands for.
    pub(crate) fn parse(self, text: &str) -> Result<i64, ApiError> {
        let number: Option<i64> = text.parse().ok();
        let in_range = number.filter(|number| (self.min..=self.max).contains(number));
        in_range.ok_or_else(|| {
            ApiError::invalid(format_args!("{} is `{text}`;", self.name), self.words())
        })
    }

    fn words(self) -> String {
        format!("it must be a whole number from {} to {}", self.min, self.max)
    }
}

/// The rule of the number at the end of a path, in words.
pub(super) fn range_words(path: &str) -> Option<String> {
    let name = path.rsplit('.').next()?;
    RANGES.into_iter().find(|range| range.name == name).map(NumberRange::words)
}

/// The state with this word.
pub(crate) fn state(word: &str) -> Result<StateWord, ApiError> {
    StateWord::from_word(word).ok_or_else(|| {
        let known = StateWord::ALL.map(StateWord::word).join(", ");
        let rule = format!("is not a state; the states are {known}");
        ApiError::invalid(format_args!("state `{word}`"), rule)
    })
}

/// A text that follows the rule of its type.
pub(crate) fn text<T>(prefix: &dyn Display, value: &str) -> Result<T, ApiError>
where
    T: FromStr<Err = InvalidText>,
{
    value.parse().map_err(|error: InvalidText| {
        let InvalidText { what, rule } = error;
        ApiError::invalid(format_args!("{prefix}{what}"), format_args!("must be {rule}"))
    })
}

/// A moment in RFC 3339.
pub(crate) fn moment(field: &dyn Display, value: &str) -> Result<Timestamp, ApiError> {
    value.parse().map_err(|error| ApiError::invalid(field, format_args!("is {error}")))
}

/// A text for people, of a bounded number of characters.
pub(crate) fn prose(field: &dyn Display, value: &str, chars_max: usize) -> Result<(), ApiError> {
    // A text has at most as many characters as bytes, so short ones need no counting.
    if value.len() <= chars_max || value.chars().count() <= chars_max {
        return Ok(());
    }
    Err(ApiError::invalid(field, format_args!("is longer than {chars_max} characters")))
}

pub(crate) fn package(prefix: &dyn Display, package: &Package) -> Result<PackageRef, ApiError> {
    let name = text(prefix, &package.name)?;
    let version = text(prefix, &package.version)?;
    Ok(PackageRef { name, version })
}

pub(crate) fn tags(
    prefix: &dyn Display,
    tags: &BTreeMap<String, String>,
) -> Result<BTreeMap<TagKey, TagValue>, ApiError> {
    tags.iter().map(|(key, value)| Ok((text(prefix, key)?, text(prefix, value)?))).collect()
}

pub(crate) fn set<T>(prefix: &dyn Display, words: &[String]) -> Result<BTreeSet<T>, ApiError>
where
    T: FromStr<Err = InvalidText> + Ord,
{
    words.iter().map(|word| text(prefix, word)).collect()
}

/// A worker's request for work.
pub(crate) fn lease_request(
    request: &RequestLeases,
    now: Timestamp,
) -> Result<LeaseRequest, ApiError> {
    let max = MAX_LEASES.check(&"", request.max.unwrap_or(1))?;
    let wait = WAIT_MS.check_millis(&"", request.wait_ms.unwrap_or(0))?;
    let confirm = request.confirm_ms.map(|value| CONFIRM_MS.check_millis(&"", value));
    Ok(LeaseRequest {
        worker: text(&"", &request.worker_id)?,
        offer: Arc::new(offer(request)?),
        max: u32::try_from(max).expect("at most LEASES_PER_REQUEST_MAX"),
        wait_until: now.after(wait),
        slots: None,
        timeout_grace: Duration::ZERO,
        is_loss_noticed: false,
        confirm_within: confirm.transpose()?,
    })
}

fn offer(request: &RequestLeases) -> Result<Offer, ApiError> {
    let lengths = [
        ("types", request.types.as_ref().map_or(0, Vec::len)),
        ("queues", request.queues.as_ref().map_or(0, Vec::len)),
        ("tools", request.tools.len()),
        ("tags", request.tags.len()),
        ("packages", request.packages.len()),
    ];
    for (field, length) in lengths {
        if length > OFFER_ENTRIES_MAX {
            return Err(ApiError::batch(field, length, OFFER_ENTRIES_MAX));
        }
    }
    Ok(Offer {
        types: request.types.as_ref().map(|types| set(&"types: ", types)).transpose()?,
        queues: request.queues.as_ref().map(|queues| set(&"queues: ", queues)).transpose()?,
        tools: set(&"tools: ", &request.tools)?,
        all_tools: false,
        tags: tags(&"tags: ", &request.tags)?,
        packages: request
            .packages
            .iter()
            .map(|one| package(&"packages: ", one))
            .collect::<Result<_, _>>()?,
        limits: BTreeMap::new(),
    })
}

const DEFAULT_QUEUE: &str = "default";

/// All tasks of a submit. Neighbours with equal words share one specification.
pub(crate) fn new_tasks(tasks: Vec<TaskToSubmit>) -> Result<Vec<NewTask>, ApiError> {
    if tasks.is_empty() {
        return Err(ApiError::invalid("tasks", "is empty; at least one task is needed"));
    }
    if tasks.len() > TASKS_PER_SUBMIT_MAX {
        return Err(ApiError::batch("tasks", tasks.len(), TASKS_PER_SUBMIT_MAX));
    }
    let mut made = Vec::with_capacity(tasks.len());
    let mut last: Option<(TaskToSubmit, Arc<TaskSpec>)> = None;
    for (position, mut task) in tasks.into_iter().enumerate() {
        let place = &format_args!("tasks[{position}].");
        let idempotency = mark(place, &task)?;
        if let Some((_, spec)) = last.as_ref().filter(|(last, _)| is_of_one_kind(last, &task)) {
            made.push(new_task(place, Arc::clone(spec), &mut task, idempotency)?);
        } else {
            let spec = Arc::new(spec(place, &task)?);
            made.push(new_task(place, Arc::clone(&spec), &mut task, idempotency)?);
            last = Some((task, spec));
        }
    }
    Ok(made)
}

/// Whether two tasks have the same specification, in their submitter's words.
fn is_of_one_kind(one: &TaskToSubmit, other: &TaskToSubmit) -> bool {
    one.task_type == other.task_type
        && (&one.queue, one.priority) == (&other.queue, other.priority)
        && (one.timeout_ms, one.lease_ttl_ms) == (other.timeout_ms, other.lease_ttl_ms)
        && (&one.retry, &one.requires) == (&other.retry, &other.requires)
}

fn new_task(
    place: &dyn Display,
    spec: Arc<TaskSpec>,
    task: &mut TaskToSubmit,
    idempotency: Option<IdempotencyMark>,
) -> Result<NewTask, ApiError> {
    let not_before = task.not_before.as_deref();
    let not_before =
        not_before.map(|text| moment(&format_args!("{place}not_before"), text)).transpose()?;
    let key = task.concurrency_key.as_deref().map(|key| text(place, key)).transpose()?;
    let parameters = parameters(place, task.parameters.take())?;
    let pin = resource_pin(&parameters).map_err(|conflict| {
        let message = format!("{place}parameters: {conflict}");
        match conflict {
            ResourceConflict::TwoWorkers { .. } => {
                ApiError::new(ErrorCode::ResourceConflict, message)
            }
            ResourceConflict::Malformed { .. } => ApiError::new(ErrorCode::RequestInvalid, message),
        }
    })?;
    Ok(NewTask {
        spec,
        after: after(place, &task.after)?,
        pin,
        parameters,
        not_before,
        concurrency_key: key,
        idempotency,
        run: task.run.as_deref().map(|run| text(place, run)).transpose()?,
    })
}

/// The tasks to run after, by their ids.
fn after(place: &dyn Display, ids: &[String]) -> Result<Vec<TaskId>, ApiError> {
    if ids.len() > AFTER_MAX {
        return Err(ApiError::batch(&format!("{place}after"), ids.len(), AFTER_MAX));
    }
    let after = |id: &String| match id.parse() {
        Ok(task) => Ok(task),
        Err(_) => Err(ApiError::invalid(format_args!("{place}after"), "names no task id")),
    };
    ids.iter().map(after).collect()
}

fn parameters(place: &dyn Display, given: Option<Box<RawValue>>) -> Result<Bytes, ApiError> {
    let Some(given) = given else { return Ok(Bytes::from_static(b"{}")) };
    payload("parameters", given, PARAMETERS_BYTES_MAX).map_err(|mut error| {
        error.message.insert_str(0, &place.to_string());
        error
    })
}

fn spec(place: &dyn Display, words: &TaskToSubmit) -> Result<TaskSpec, ApiError> {
    let priority = PRIORITY.check(place, words.priority.unwrap_or(0))?;
    let lease_ttl = words.lease_ttl_ms.map(|value| LEASE_TTL_MS.check_millis(place, value));
    let timeout = words.timeout_ms.map(|value| TIMEOUT_MS.check_millis(place, value));
    Ok(TaskSpec {
        demand: demand(place, words)?,
        priority: i16::try_from(priority).expect("at most PRIORITY_LIMIT"),
        lease_ttl: lease_ttl.transpose()?.unwrap_or(LEASE_TTL_DEFAULT),
        timeout: timeout.transpose()?,
        retry: retry(place, words.retry.as_ref())?,
    })
}

fn demand(place: &dyn Display, words: &TaskToSubmit) -> Result<Demand, ApiError> {
    let queue: QueueName = text(place, words.queue.as_deref().unwrap_or(DEFAULT_QUEUE))?;
    let task_type = text(place, &words.task_type)?;
    let nothing = Requires::default();
    let requires = words.requires.as_ref().unwrap_or(&nothing);
    for (field, length) in [("tools", requires.tools.len()), ("tags", requires.tags.len())] {
        if length > DEMAND_ENTRIES_MAX {
            let field = format!("{place}requires.{field}");
            return Err(ApiError::batch(&field, length, DEMAND_ENTRIES_MAX));
        }
    }
    let prefix = format_args!("{place}requires.");
    Ok(Demand {
        queue,
        task_type,
        tools: set(&prefix, &requires.tools)?,
        tags: tags(&prefix, &requires.tags)?,
        package: requires.package.as_ref().map(|one| package(&prefix, one)).transpose()?,
    })
}

fn retry(place: &dyn Display, given: Option<&Retry>) -> Result<RetryPolicy, ApiError> {
    let mut policy = RetryPolicy::default();
    let Some(given) = given else { return Ok(policy) };
    let prefix = format_args!("{place}retry.");
    if let Some(value) = given.max_attempts {
        let value = MAX_ATTEMPTS.check(&prefix, value)?;
        policy.max_attempts = u32::try_from(value).expect("at most ATTEMPTS_MAX");
    }
    if let Some(value) = given.backoff_ms {
        policy.backoff = BACKOFF_MS.check_millis(&prefix, value)?;
        // Who asks for a longer pause than the default cap did not mean to have it cut.
        policy.backoff_max = policy.backoff_max.max(policy.backoff);
    }
    if let Some(value) = given.backoff_max_ms {
        policy.backoff_max = BACKOFF_MAX_MS.check_millis(&prefix, value)?;
        if policy.backoff_max < given_backoff(given, policy.backoff) {
            let rule = "must not be shorter than backoff_ms";
            return Err(ApiError::invalid(format_args!("{prefix}backoff_max_ms"), rule));
        }
    }
    policy.backoff = policy.backoff.min(policy.backoff_max);
    Ok(policy)
}

/// A default pause never contradicts a cap that was asked for.
fn given_backoff(given: &Retry, backoff: Duration) -> Duration {
    if given.backoff_ms.is_some() { backoff } else { Duration::ZERO }
}

/// Recognises the task when it is submitted again: the key, and a digest of all other words.
fn mark(place: &dyn Display, task: &TaskToSubmit) -> Result<Option<IdempotencyMark>, ApiError> {
    let Some(key) = task.idempotency_key.as_deref() else { return Ok(None) };
    let key: IdempotencyKey = text(place, key)?;
    let words = (
        (&task.task_type, &task.queue, task.priority, &task.not_before),
        (task.timeout_ms, task.lease_ttl_ms, &task.retry, &task.concurrency_key, &task.requires),
        &task.run,
    );
    let words = serde_json::to_vec(&words)
        .map_err(|_| ApiError::internal("the task cannot be written as JSON"))?;
    let parameters = task.parameters.as_ref().map_or("{}", |raw| raw.get());
    let mut parts = vec![words.as_slice(), parameters.as_bytes()];
    // Only where there are any, so that tasks of older versions keep their digests.
    parts.extend(task.after.iter().map(String::as_bytes));
    Ok(Some(IdempotencyMark { key, fingerprint: fingerprint(b"astra.task.v1", &parts) }))
}

#[cfg(test)]
mod tests;
