//! Tasks to submit.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flow::{ResourceConflict, resource_pin};
use model::{
    AFTER_MAX, After, Demand, IdempotencyKey, IdempotencyMark, LEASE_TTL_DEFAULT, NewTask,
    QueueName, RetryPolicy, TaskSpec,
};
use protocol::error_code::ErrorCode;
use protocol::rest::tasks::{Requires, Retry, TaskToSubmit};
use serde_json::value::RawValue;
use shard::report_key::digest_of;

use super::{
    ApiError, BACKOFF_MAX_MS, BACKOFF_MS, LEASE_TTL_MS, MAX_ATTEMPTS, PRIORITY, TIMEOUT_MS, moment,
    package, set, tags, text,
};
use crate::wire_words::payload::payload;
use crate::wire_words::payload::{DEMAND_ENTRIES_MAX, PARAMETERS_BYTES_MAX, TASKS_PER_SUBMIT_MAX};

const DEFAULT_QUEUE: &str = "default";

/// What tasks of one kind have in common, in the submitter's words.
#[derive(PartialEq, Eq)]
struct SpecWords {
    task_type: String,
    queue: Option<String>,
    priority: Option<i64>,
    timeout_ms: Option<i64>,
    lease_ttl_ms: Option<i64>,
    retry: Option<Retry>,
    requires: Option<Requires>,
}

/// Where a task stands in the request, for sentences: `tasks[3].`.
struct Place(usize);

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "tasks[{}].", self.0)
    }
}

/// All tasks of a submit. Neighbours with equal words share one specification.
pub(crate) fn new_tasks(tasks: Vec<TaskToSubmit>) -> Result<Vec<NewTask>, ApiError> {
    if tasks.is_empty() {
        return Err(ApiError::invalid("tasks", "is empty; at least one task is needed"));
    }
    if tasks.len() > TASKS_PER_SUBMIT_MAX {
        return Err(ApiError::batch("tasks", tasks.len(), TASKS_PER_SUBMIT_MAX));
    }
    let mut made = Vec::with_capacity(tasks.len());
    let mut last: Option<(SpecWords, Arc<TaskSpec>)> = None;
    for (position, task) in tasks.into_iter().enumerate() {
        let place = Place(position);
        let idempotency = mark(&place, &task)?;
        let (words, rest) = split(task);
        let spec = match &last {
            Some((last_words, spec)) if *last_words == words => Arc::clone(spec),
            Some(_) | None => {
                let spec = Arc::new(spec(&place, &words)?);
                last = Some((words, Arc::clone(&spec)));
                spec
            }
        };
        made.push(new_task(&place, spec, rest, idempotency)?);
    }
    Ok(made)
}

/// What belongs to one task alone.
struct OwnWords {
    parameters: Option<Box<RawValue>>,
    not_before: Option<String>,
    after: Vec<String>,
    concurrency_key: Option<String>,
    run: Option<String>,
}

fn split(task: TaskToSubmit) -> (SpecWords, OwnWords) {
    let TaskToSubmit {
        task_type,
        parameters,
        queue,
        priority,
        not_before,
        after,
        timeout_ms,
        lease_ttl_ms,
        retry,
        concurrency_key,
        run,
        requires,
        idempotency_key: _,
    } = task;
    let words = SpecWords { task_type, queue, priority, timeout_ms, lease_ttl_ms, retry, requires };
    (words, OwnWords { parameters, not_before, after, concurrency_key, run })
}

fn new_task(
    place: &Place,
    spec: Arc<TaskSpec>,
    own: OwnWords,
    idempotency: Option<IdempotencyMark>,
) -> Result<NewTask, ApiError> {
    let not_before = own.not_before.as_deref();
    let not_before =
        not_before.map(|text| moment(&format_args!("{place}not_before"), text)).transpose()?;
    let key = own.concurrency_key.as_deref().map(|key| text(place, key)).transpose()?;
    let parameters = parameters(place, own.parameters)?;
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
        after: after(place, &own.after)?,
        pin,
        parameters,
        not_before,
        concurrency_key: key,
        idempotency,
        run: own.run.as_deref().map(|run| text(place, run)).transpose()?,
    })
}

/// The tasks to run after, by their ids.
fn after(place: &Place, ids: &[String]) -> Result<Vec<After>, ApiError> {
    if ids.len() > AFTER_MAX {
        return Err(ApiError::batch(&format!("{place}after"), ids.len(), AFTER_MAX));
    }
    let after = |id: &String| match id.parse() {
        Ok(task) => Ok(After::Task(task)),
        Err(_) => Err(ApiError::invalid(format_args!("{place}after"), "names no task id")),
    };
    ids.iter().map(after).collect()
}

fn parameters(place: &Place, given: Option<Box<RawValue>>) -> Result<Bytes, ApiError> {
    let Some(given) = given else { return Ok(Bytes::from_static(b"{}")) };
    payload("parameters", given, PARAMETERS_BYTES_MAX).map_err(|mut error| {
        error.message.insert_str(0, &place.to_string());
        error
    })
}

fn spec(place: &Place, words: &SpecWords) -> Result<TaskSpec, ApiError> {
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

fn demand(place: &Place, words: &SpecWords) -> Result<Demand, ApiError> {
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

fn retry(place: &Place, given: Option<&Retry>) -> Result<RetryPolicy, ApiError> {
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
fn mark(place: &Place, task: &TaskToSubmit) -> Result<Option<IdempotencyMark>, ApiError> {
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
    let digest = digest_of(b"astra.task.v1", &parts);
    let (first, _) = digest.split_first_chunk().expect("32 bytes");
    Ok(Some(IdempotencyMark { key, fingerprint: u64::from_be_bytes(*first) }))
}

#[cfg(test)]
mod tests;
