//! Types that are wrapped around a node, or around other middlewares: `core.retry`, `core.loop` and
//! `core.timeout`.
//!
//! What one of them lays over the parameters of the next in line has a fixed name: `attempt`,
//! `item` and `index`. What they got so from further out they hand on. Parameters that they do not
//! know may be meant for others in the chain, and are passed over.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::session::codec::OpenObject;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Executed, raw, read};
use crate::core::executor::{Assignment, Context, Outcome, PARAMETERS_INVALID};
use crate::core::feedback::Status;
use crate::core::next::{NextFailure, NextWords};

/// The most executions of one `core.loop`, or of one `core.retry`.
const TIMES_MAX: u64 = 10_000;
/// The longest pause between two executions.
const DELAY_MAX: Duration = Duration::from_hours(24);
/// The longest that the next in line may be waited for.
const TIMEOUT_MAX: Duration = Duration::from_hours(30 * 24);
/// Executions of one `core.retry`, unless it says otherwise.
const ATTEMPTS_DEFAULT: u64 = 3;
/// What middlewares lay over the parameters of the next in line.
const LAID_OVER: [&str; 4] = ["attempt", "index", "item", "iteration"];
/// Types that make use of what is laid over their parameters.
const TAKING: [&str; 7] = [
    "core.echo",
    "core.fail",
    "core.loop",
    "core.noop",
    "core.retry",
    "core.timeout",
    "core.transform",
];

const RETRY_WANTED: &str = r#"core.retry wants {"attempts": 3, "delayMs": 1000, "backoff": 2}"#;
const LOOP_WANTED: &str = r#"core.loop wants {"times": 3} or {"items": [1, 2, 3]}"#;
const TIMEOUT_WANTED: &str = r#"core.timeout wants {"ms": 1000}"#;

/// Takes away what middlewares laid over the parameters of a type that has no use for it and would
/// take it for a mistake.
pub(super) fn lay_aside(assignment: Assignment, context: &Context) -> Assignment {
    if context.next.place().is_none() || TAKING.contains(&assignment.task_type.as_str()) {
        return assignment;
    }
    let text = assignment.parameters.get();
    let Ok(mut keys) = serde_json::from_str::<BTreeMap<String, &RawValue>>(text) else {
        return assignment;
    };
    for name in LAID_OVER {
        keys.remove(name);
    }
    let parameters = raw(&keys);
    Assignment { parameters, ..assignment }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Retry {
    attempts: Option<u64>,
    #[serde(alias = "delay_ms")]
    delay_ms: Option<u64>,
    /// What each further pause is multiplied with.
    backoff: Option<f64>,
    #[serde(alias = "delay_max_ms")]
    delay_max_ms: Option<u64>,
}

impl Retry {
    /// The pause after so many executions.
    fn pause(&self, n_done: u64) -> Duration {
        let base = Duration::from_millis(self.delay_ms.unwrap_or(0));
        let longest = self.delay_max_ms.map_or(DELAY_MAX, Duration::from_millis).min(DELAY_MAX);
        let power = i32::try_from(n_done.saturating_sub(1)).unwrap_or(i32::MAX);
        let factor = self.backoff.unwrap_or(1.0).max(1.0).powi(power);
        let pause = base.as_secs_f64() * factor;
        Duration::try_from_secs_f64(pause).unwrap_or(longest).min(longest)
    }
}

/// Has the next in line executed until it succeeds; gives what that one gave.
pub(super) async fn run_retry(parameters: &RawValue, context: &Context) -> Executed {
    let retry: Retry = read(parameters, RETRY_WANTED)?;
    let attempts = retry.attempts.unwrap_or(ATTEMPTS_DEFAULT);
    let is_sane = |backoff: f64| backoff.is_finite() && backoff >= 0.0;
    if !(1..=TIMES_MAX).contains(&attempts) || !retry.backoff.is_none_or(is_sane) {
        return Err(Outcome::hopeless(PARAMETERS_INVALID, RETRY_WANTED));
    }
    let mut attempt = 1;
    loop {
        match context.next.call(words(parameters, &json!({ "attempt": attempt }))).await {
            Ok(result) => return Ok(Outcome::done(with_attempts(&result, attempt))),
            Err(failure)
                if attempt >= attempts || failure.is_skipped() || failure.is_cancelled() =>
            {
                return Err(failure.into_outcome());
            }
            Err(failure) => {
                let why = format!("attempt {attempt} of {attempts} failed: {}", failure.message);
                context.feedback.say(Status { message: Some(why), ..Status::default() });
            }
        }
        tokio::time::sleep(retry.pause(attempt)).await;
        attempt += 1;
    }
}

/// What the next in line gave, and how often it was called for it.
fn with_attempts(result: &RawValue, attempts: u64) -> Box<RawValue> {
    let attempts = raw(&attempts);
    let mut keys: BTreeMap<String, &RawValue> =
        serde_json::from_str(result.get()).unwrap_or_default();
    keys.insert("attempts".to_owned(), &attempts);
    raw(&keys)
}

#[derive(Deserialize)]
struct Loop {
    times: Option<u64>,
    items: Option<Vec<Box<RawValue>>>,
    /// Whether the results are gathered. Default yes.
    collect: Option<bool>,
}

/// Has the next in line executed a number of times, or once for each of a list.
pub(super) async fn run_loop(parameters: &RawValue, context: &Context) -> Executed {
    let Loop { times, items, collect } = read(parameters, LOOP_WANTED)?;
    let count = match (times, &items) {
        (Some(times), None) => times,
        (None, Some(items)) => u64::try_from(items.len()).unwrap_or(u64::MAX),
        (None, None) | (Some(_), Some(_)) => u64::MAX,
    };
    if count > TIMES_MAX {
        return Err(Outcome::hopeless(PARAMETERS_INVALID, LOOP_WANTED));
    }
    let mut items = items.into_iter().flatten();
    let mut results = Vec::new();
    for index in 0..count {
        let payload = match items.next() {
            Some(item) => json!({ "index": index, "item": item }),
            None => json!({ "index": index }),
        };
        match context.next.call(words(parameters, &payload)).await {
            Ok(result) => results.push(result),
            // One of many that had nothing to do does not make the others pointless.
            Err(failure) if failure.is_skipped() => results.push(raw(&Value::Null)),
            Err(failure) => return Err(failure.into_outcome()),
        }
        context.feedback.progress(share(index + 1, count));
    }
    let results = collect.unwrap_or(true).then_some(results);
    Ok(Outcome::done(match results {
        Some(results) => raw(&json!({ "count": count, "items": results })),
        None => raw(&json!({ "count": count })),
    }))
}

fn share(n_done: u64, count: u64) -> f64 {
    Duration::from_millis(n_done).div_duration_f64(Duration::from_millis(count.max(1)))
}

#[derive(Deserialize)]
struct Timeout {
    ms: u64,
}

/// Waits no longer than so for the next in line; gives what that one gave.
pub(super) async fn run_timeout(parameters: &RawValue, context: &Context) -> Executed {
    let Timeout { ms } = read(parameters, TIMEOUT_WANTED)?;
    let time = Duration::from_millis(ms);
    if time.is_zero() || time > TIMEOUT_MAX {
        return Err(Outcome::hopeless(PARAMETERS_INVALID, TIMEOUT_WANTED));
    }
    let words = NextWords { timeout: Some(time), ..words(parameters, &json!({})) };
    let result = context.next.call(words).await.map_err(NextFailure::into_outcome)?;
    Ok(Outcome::done(result))
}

/// What the next in line is given: what was laid over our own parameters, and `payload` over it.
fn words(parameters: &RawValue, payload: &Value) -> NextWords {
    let own: Value = serde_json::from_str(parameters.get()).unwrap_or_default();
    let handed_on = LAID_OVER.iter().filter_map(|name| Some(((*name).to_owned(), own.get(name)?)));
    let mut given: BTreeMap<String, &Value> = handed_on.collect();
    given
        .extend(payload.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), value)));
    let payload = (!given.is_empty()).then(|| raw(&given)).and_then(OpenObject::new);
    NextWords { payload, timeout: None }
}

#[cfg(test)]
mod tests;
