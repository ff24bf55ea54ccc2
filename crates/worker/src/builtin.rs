//! Types that every worker executes: the package `core`.
//!
//! Reading order: this file has the table and the types that take no time; [`fail`], [`sleep`],
//! [`log`], [`transform`] and [`http_request`] have one type each, [`resource`] has two about files,
//! [`middleware`] has those that are wrapped around others.

mod fail;
mod http_request;
mod log;
pub(crate) mod middleware;
mod resource;
mod sleep;
mod transform;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::executor::{
    Assignment, Context, Executor, Outcome, PARAMETERS_INVALID, TYPE_UNKNOWN, Work,
};

/// A gate that is not open.
const GATE_CLOSED: &str = "E.GATE.CLOSED";

/// The builtin types.
#[derive(Clone, Copy, Debug, Default)]
pub struct Builtin {
    /// Also offer the types that exist to test the system itself: `core.crash`, which ends this
    /// process, and `core.stamp`, whose result names the lease that gave it.
    pub with_test_types: bool,
}

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
const TEST_TYPES: [&str; 2] = ["core.crash", "core.stamp"];

impl Executor for Builtin {
    fn types(&self) -> Vec<String> {
        let test_types = if self.with_test_types { &TEST_TYPES[..] } else { &[] };
        TYPES.iter().chain(test_types).map(ToString::to_string).collect()
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
            "core.fail" => Ok(fail::run(&assignment)),
            "core.gate" => Ok(gate(&assignment.parameters)),
            "core.crash" if self.with_test_types => std::process::abort(),
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
        match assignment.task_type.as_str() {
            "core.http_request" => http_request::run(parameters).await,
            "core.file" => resource::write(parameters, &context).await,
            "core.read_resource" => resource::look(parameters, &context).await,
            "core.log" => log::run(parameters, &context).await,
            "core.loop" => middleware::run_loop(parameters, &context).await,
            "core.retry" => middleware::run_retry(parameters, &context).await,
            "core.timeout" => middleware::run_timeout(parameters, &context).await,
            "core.sleep" => sleep::run(parameters, &context).await,
            "core.transform" => transform::run(parameters),
            "core.stamp" if self.with_test_types => stamp(&assignment).await,
            other => Outcome::hopeless(TYPE_UNKNOWN, format!("{other} is not offered here")),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Gate {
    open: bool,
    reason: Option<String>,
}

/// Lets pass or not. A closed gate is a decision, so another attempt would not change it.
fn gate(parameters: &RawValue) -> Outcome {
    match read::<Gate>(parameters, r#"core.gate wants {"open": true, "reason": "..."}"#) {
        Ok(Gate { open: true, reason }) => {
            Outcome::done(raw(&json!({ "open": true, "reason": reason })))
        }
        Ok(Gate { open: false, reason }) => {
            Outcome::hopeless(GATE_CLOSED, reason.unwrap_or_else(|| "the gate is closed".into()))
        }
        Err(outcome) => outcome,
    }
}

/// Takes `ms`, then says under which lease it ran, so that a result tells whose it is.
async fn stamp(assignment: &Assignment) -> Outcome {
    tokio::time::sleep(sleep::pause_of(&assignment.parameters)).await;
    Outcome::done(raw(&json!({ "lease_id": assignment.lease_id })))
}

/// The parameters, or a failure that says what was wanted.
fn read<T: DeserializeOwned>(parameters: &RawValue, wanted: &str) -> Result<T, Outcome> {
    serde_json::from_str(parameters.get())
        .map_err(|error| Outcome::hopeless(PARAMETERS_INVALID, format!("{wanted}: {error}")))
}

fn raw(value: &impl serde::Serialize) -> Box<RawValue> {
    to_raw_value(value).expect("plain values become JSON")
}

#[cfg(test)]
mod tests;
