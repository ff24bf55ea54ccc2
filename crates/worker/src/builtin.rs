//! Types that every worker executes: the package `core`.
//!
//! Reading order: this file has the table and the types that take no time; [`transform`] and [`http_request`] have one type each, [`resource`] has two about files,
//! [`middleware`] has those that are wrapped around others.

use std::time::Duration;

use protocol::session::payload::exec::Channel;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use tokio::time::{Instant, sleep_until};

use crate::core::executor::{
    Assignment, Context, Executor, Outcome, PARAMETERS_INVALID, TYPE_UNKNOWN, Work,
};
use crate::core::feedback::Status;

mod http_request;
mod middleware;
mod resource;
mod transform;

/// A gate that is not open.
const GATE_CLOSED: &str = "E.GATE.CLOSED";

/// The builtin types.
#[derive(Clone, Copy, Debug, Default)]
pub struct Builtin;

const TYPES: [&str; 13] = [
    "core.echo",
    "core.fail",
    "core.file",
    "core.gate",
    "core.http_request",
    "core.log",
    "core.loop",
    "core.noop",
    "core.read_resource",
    "core.retry",
    "core.sleep",
    "core.timeout",
    "core.transform",
];

impl Executor for Builtin {
    fn types(&self) -> Vec<String> {
        TYPES.map(str::to_owned).into()
    }

    fn execute(&self, assignment: Assignment, context: Context) -> Work {
        let builtin = *self;
        Box::pin(async move {
            let stop = context.stop.clone();
            tokio::select! {
                outcome = builtin.work(assignment, context) => outcome,
                () = stop.cancelled() => Outcome::stopped(),
            }
        })
    }

    fn execute_at_once(&self, assignment: Assignment) -> Result<Outcome, Assignment> {
        match assignment.task_type.as_str() {
            "core.noop" => Ok(Outcome::done(RawValue::NULL.to_owned())),
            "core.echo" => Ok(Outcome::done(assignment.parameters)),
            "core.fail" => Ok(either(fail(&assignment))),
            "core.gate" => Ok(either(gate(&assignment.parameters))),
            _ => Err(assignment),
        }
    }
}

impl Builtin {
    async fn work(self, assignment: Assignment, context: Context) -> Outcome {
        let assignment = middleware::lay_aside(assignment, &context);
        let assignment = match self.execute_at_once(assignment) {
            Ok(outcome) => return outcome,
            Err(assignment) => assignment,
        };
        let parameters = &assignment.parameters;
        let outcome = match assignment.task_type.as_str() {
            "core.http_request" => http_request::run(parameters).await,
            "core.file" => resource::write(parameters, &context).await,
            "core.read_resource" => resource::look(parameters, &context).await,
            "core.log" => log(parameters, &context).await,
            "core.loop" => middleware::run_loop(parameters, &context).await,
            "core.retry" => middleware::run_retry(parameters, &context).await,
            "core.timeout" => middleware::run_timeout(parameters, &context).await,
            "core.sleep" => sleep(parameters, &context).await,
            "core.transform" => transform::run(parameters),
            other => Ok(Outcome::hopeless(TYPE_UNKNOWN, format!("{other} is not offered here"))),
        };
        either(outcome)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Gate {
    open: bool,
    reason: Option<String>,
}

/// Lets pass or not. A closed gate is a decision, so another attempt would not change it.
fn gate(parameters: &RawValue) -> Executed {
    let wanted = r#"core.gate wants {"open": true, "reason": "..."}"#;
    let Gate { open, reason } = read(parameters, wanted)?;
    if open {
        return Ok(Outcome::done(raw(&json!({ "open": true, "reason": reason }))));
    }
    let reason = reason.unwrap_or_else(|| "the gate is closed".into());
    Err(Outcome::hopeless(GATE_CLOSED, reason))
}

/// The outcome of a builtin type: `Err` is a failure that ends it early.
type Executed = Result<Outcome, Outcome>;

fn either(executed: Executed) -> Outcome {
    executed.unwrap_or_else(|outcome| outcome)
}

/// The parameters, or a failure that says what was wanted.
fn read<T: DeserializeOwned>(parameters: &RawValue, wanted: &str) -> Result<T, Outcome> {
    serde_json::from_str(parameters.get())
        .map_err(|error| Outcome::hopeless(PARAMETERS_INVALID, format!("{wanted}: {error}")))
}

fn raw(value: &impl serde::Serialize) -> Box<RawValue> {
    to_raw_value(value).expect("plain values become JSON")
}

/// A failure that was asked for.
const FAILURE_ASKED: &str = "E.RUNNER.FAILURE";
const FAIL_WANTED: &str = r#"core.fail wants {"reason", "code", "retryable", "details", "times"}"#;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fail {
    #[serde(alias = "message")]
    reason: Option<String>,
    code: Option<String>,
    retryable: Option<bool>,
    details: Option<Box<RawValue>>,
    /// Only so many attempts fail; the next one is done.
    times: Option<u32>,
    /// Which attempt of a middleware around it this is; each of its calls is a new task.
    attempt: Option<u32>,
}

fn fail(assignment: &Assignment) -> Executed {
    let fail: Fail = read(&assignment.parameters, FAIL_WANTED)?;
    let attempt = fail.attempt.unwrap_or(0).max(assignment.attempt);
    if fail.times.is_some_and(|times| attempt > times) {
        return Ok(Outcome::done(raw(&json!({ "attempt": attempt }))));
    }
    Err(Outcome::Failed {
        code: fail.code.unwrap_or_else(|| FAILURE_ASKED.into()),
        reason: fail.reason.unwrap_or_else(|| "core.fail fails, as asked".into()),
        retryable: fail.retryable.unwrap_or(true),
        details: fail.details,
    })
}

const LOG_WANTED: &str =
    "core.log wants {\"message\": \"...\", \"level\": \"info\", \"channel\": \"log\"}";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Log {
    message: String,
    level: Option<Level>,
    channel: Option<Channel>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

async fn log(parameters: &RawValue, context: &Context) -> Executed {
    let Log { message, level, channel } = read(parameters, LOG_WANTED)?;
    let line = match level {
        Some(level) => format!("{} {message}\n", format!("{level:?}").to_uppercase()),
        None => format!("{message}\n"),
    };
    context.feedback.write(channel.unwrap_or(Channel::Log), line).await;
    context.feedback.say(Status { message: Some(message), ..Status::default() });
    Ok(Outcome::done(raw(&json!({}))))
}

/// The longest sleep.
const SLEEP_MAX: Duration = Duration::from_hours(24);
/// How often a sleeper says how much is done.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sleep {
    seconds: Option<f64>,
    ms: Option<u64>,
}

async fn sleep(parameters: &RawValue, context: &Context) -> Executed {
    let pause = serde_json::from_str(parameters.get()).ok().and_then(pause);
    let wanted = r#"core.sleep wants {"seconds": 1.5} or {"ms": 1500}, at most a day"#;
    let pause = pause.ok_or_else(|| Outcome::hopeless(PARAMETERS_INVALID, wanted))?;
    sleep_for(pause, context).await;
    Ok(Outcome::done(raw(&json!({ "slept_ms": pause.as_millis() }))))
}

async fn sleep_for(pause: Duration, context: &Context) {
    let began = Instant::now();
    let until = began + pause;
    let mut next = began + PROGRESS_EVERY;
    while next < until {
        sleep_until(next).await;
        context.feedback.progress(began.elapsed().div_duration_f64(pause));
        next += PROGRESS_EVERY;
    }
    sleep_until(until).await;
}

fn pause(sleep: Sleep) -> Option<Duration> {
    let pause = match (sleep.seconds, sleep.ms) {
        (Some(seconds), None) => Duration::try_from_secs_f64(seconds).ok()?,
        (None, Some(ms)) => Duration::from_millis(ms),
        (None, None) | (Some(_), Some(_)) => return None,
    };
    (pause <= SLEEP_MAX).then_some(pause)
}

#[cfg(test)]
mod tests;
