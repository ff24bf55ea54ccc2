//! What steps do. The result depends on the type and the parameters alone, so it does not matter
//! who executes a step, how often, and after which failures.

use bytes::Bytes;
use model::{Failure, ReportedOutcome, ResultExtra};
use serde_json::{Value, json};

/// What comes of a step.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Deed {
    /// It gives this.
    Gives(Value),
    /// It finds nothing to do.
    Skips,
    /// It fails, and would again.
    Fails,
    /// It fails the first time, and gives this the next time.
    Stumbles(Value),
    /// It calls the next in line so often; a strict one fails when a call does.
    Calls { times: u64, is_strict: bool },
}

pub(super) fn deed(step_type: &str, parameters: &Value) -> Deed {
    let n = (sum(parameters) + step_type.len() as u64) % 7;
    let gives = json!({ "n": n, "list": (0..n % 4).collect::<Vec<u64>>() });
    match step_type.split('.').collect::<Vec<_>>().as_slice() {
        ["fail"] => Deed::Fails,
        ["skip"] => Deed::Skips,
        ["flaky"] => Deed::Stumbles(gives),
        ["m", times, how] => {
            Deed::Calls { times: times.parse().unwrap_or(1), is_strict: *how == "strict" }
        }
        _ => Deed::Gives(gives),
    }
}

/// What a middleware gives after so many good calls.
pub(super) fn after_calls(good: u64) -> Value {
    json!({ "m": good })
}

fn sum(value: &Value) -> u64 {
    match value {
        Value::Number(number) => number.as_u64().unwrap_or(1),
        Value::Array(items) => items.iter().map(sum).sum(),
        Value::Object(fields) => fields.values().map(sum).sum(),
        Value::Bool(_) | Value::Null | Value::String(_) => 1,
    }
}

/// A step that a worker executes.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    kind: String,
    parameters: Value,
    attempt: u32,
    calls: u64,
    good: u64,
    /// A call was not answered well, and the middleware is a strict one.
    has_failed: bool,
}

/// What a step does next.
#[derive(Clone, Debug)]
pub(crate) enum StepMove {
    /// It calls the next in line.
    Call {
        /// The call's own name, the same whenever it is made again.
        request: String,
        payload: Value,
    },
    /// It is done.
    Report(ReportedOutcome),
}

impl Step {
    /// A step that begins with this attempt.
    pub(crate) fn new(kind: &str, parameters: Value, attempt: u32) -> Self {
        let kind = kind.to_owned();
        Self { kind, parameters, attempt, calls: 0, good: 0, has_failed: false }
    }

    pub(crate) fn next_move(&self) -> StepMove {
        StepMove::Report(match deed(&self.kind, &self.parameters) {
            Deed::Calls { times, .. } if !self.has_failed && self.calls < times => {
                let iteration = self.calls;
                let payload = json!({ "iteration": iteration });
                return StepMove::Call { request: format!("c{iteration}"), payload };
            }
            Deed::Calls { .. } if !self.has_failed => completed(&after_calls(self.good)),
            Deed::Stumbles(_) if self.attempt == 1 => failed(true),
            Deed::Gives(result) | Deed::Stumbles(result) => completed(&result),
            Deed::Fails | Deed::Calls { .. } => failed(false),
            Deed::Skips => {
                let extra = Some(Box::new(ResultExtra { is_skipped: true, artifacts: None }));
                ReportedOutcome::Completed { result: Bytes::from_static(b"{}"), extra }
            }
        })
    }

    /// A call was answered. `request` says which, so that an answer that comes twice counts once.
    pub(crate) fn on_called(&mut self, request: &str, is_good: bool) {
        if request != format!("c{}", self.calls) {
            return;
        }
        self.calls += 1;
        if is_good {
            self.good += 1;
        } else if let Deed::Calls { is_strict: true, .. } = deed(&self.kind, &self.parameters) {
            self.has_failed = true;
        }
    }
}

fn completed(result: &Value) -> ReportedOutcome {
    ReportedOutcome::Completed { result: Bytes::from(result.to_string()), extra: None }
}

fn failed(retryable: bool) -> ReportedOutcome {
    ReportedOutcome::Failed { failure: Failure::new("E.SIM", "it failed"), retryable }
}
