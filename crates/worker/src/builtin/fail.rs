//! `core.fail`: fails, always or the first times.

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::{raw, read};
use crate::executor::{Assignment, Outcome};

/// A failure that was asked for.
const FAILURE_ASKED: &str = "E.RUNNER.FAILURE";
const WANTED: &str = r#"core.fail wants {"reason", "code", "retryable", "details", "times"}"#;

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

pub(super) fn run(assignment: &Assignment) -> Outcome {
    match read::<Fail>(&assignment.parameters, WANTED) {
        Ok(fail) => fail_or_not(fail, assignment.attempt),
        Err(outcome) => outcome,
    }
}

fn fail_or_not(fail: Fail, attempt: u32) -> Outcome {
    let attempt = fail.attempt.unwrap_or(0).max(attempt);
    if fail.times.is_some_and(|times| attempt > times) {
        return Outcome::done(raw(&json!({ "attempt": attempt })));
    }
    Outcome::Failed {
        code: fail.code.unwrap_or_else(|| FAILURE_ASKED.into()),
        reason: fail.reason.unwrap_or_else(|| "core.fail fails, as asked".into()),
        retryable: fail.retryable.unwrap_or(true),
        details: fail.details,
    }
}
