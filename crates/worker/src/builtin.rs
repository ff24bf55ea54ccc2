//! Types that every worker executes: enough to try things out and to test them.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::executor::{Assignment, Executor, Outcome, Work};

/// Parameters that a builtin type does not understand.
const PARAMETERS_INVALID: &str = "E.PARAMETERS.INVALID";
/// A failure that was asked for.
const FAILURE_ASKED: &str = "E.RUNNER.FAILURE";
/// A type that this executor was never offered for.
const TYPE_UNKNOWN: &str = "E.TYPE.UNKNOWN";
/// The longest `core.sleep`.
const SLEEP_MAX: Duration = Duration::from_hours(24);

/// The builtin types.
#[derive(Clone, Copy, Debug, Default)]
pub struct Builtin {
    /// Also offer the types that exist to test the system itself: `core.crash`, which ends this
    /// process, and `core.stamp`, whose result names the lease that gave it.
    pub with_test_types: bool,
}

const TYPES: [&str; 4] = ["core.echo", "core.fail", "core.noop", "core.sleep"];
const TEST_TYPES: [&str; 2] = ["core.crash", "core.stamp"];

impl Executor for Builtin {
    fn types(&self) -> Vec<String> {
        let test_types = if self.with_test_types { &TEST_TYPES[..] } else { &[] };
        TYPES.iter().chain(test_types).map(ToString::to_string).collect()
    }

    fn execute(&self, assignment: Assignment) -> Work {
        let with_test_types = self.with_test_types;
        Box::pin(async move {
            match assignment.task_type.as_str() {
                "core.echo" => Outcome::Completed { result: assignment.parameters },
                "core.noop" => Outcome::Completed { result: raw(&()) },
                "core.sleep" => sleep(&assignment.parameters).await,
                "core.fail" => fail(&assignment.parameters),
                "core.crash" if with_test_types => std::process::abort(),
                "core.stamp" if with_test_types => stamp(&assignment).await,
                other => Outcome::hopeless(TYPE_UNKNOWN, format!("{other} is not offered here")),
            }
        })
    }
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sleep {
    seconds: Option<f64>,
    ms: Option<u64>,
}

async fn sleep(parameters: &RawValue) -> Outcome {
    match serde_json::from_str(parameters.get()).map(pause) {
        Ok(Some(pause)) => {
            tokio::time::sleep(pause).await;
            Outcome::Completed { result: raw(&json!({ "slept_ms": pause.as_millis() })) }
        }
        Ok(None) | Err(_) => Outcome::hopeless(
            PARAMETERS_INVALID,
            r#"core.sleep wants {"seconds": 1.5} or {"ms": 1500}, at most a day"#,
        ),
    }
}

fn pause(sleep: Sleep) -> Option<Duration> {
    let pause = match (sleep.seconds, sleep.ms) {
        (Some(seconds), None) => Duration::try_from_secs_f64(seconds).ok()?,
        (None, Some(ms)) => Duration::from_millis(ms),
        (None, None) | (Some(_), Some(_)) => return None,
    };
    (pause <= SLEEP_MAX).then_some(pause)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fail {
    reason: Option<String>,
    code: Option<String>,
    retryable: Option<bool>,
}

fn fail(parameters: &RawValue) -> Outcome {
    match serde_json::from_str::<Fail>(parameters.get()) {
        Ok(fail) => Outcome::Failed {
            code: fail.code.unwrap_or_else(|| FAILURE_ASKED.into()),
            reason: fail.reason.unwrap_or_else(|| "core.fail fails, as asked".into()),
            retryable: fail.retryable.unwrap_or(true),
        },
        Err(error) => Outcome::hopeless(
            PARAMETERS_INVALID,
            format!(r#"core.fail wants {{"reason", "code", "retryable"}}: {error}"#),
        ),
    }
}

/// Takes `ms`, then says under which lease it ran, so that a result tells whose it is.
async fn stamp(assignment: &Assignment) -> Outcome {
    let sleep: Sleep = serde_json::from_str(assignment.parameters.get()).unwrap_or_default();
    tokio::time::sleep(pause(sleep).unwrap_or_default()).await;
    Outcome::Completed { result: raw(&json!({ "lease_id": assignment.lease_id })) }
}

fn raw(value: &impl serde::Serialize) -> Box<RawValue> {
    to_raw_value(value).expect("plain values become JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn echo_gives_back_its_parameters() {
        check("core.echo", r#"{"a": [1, 2]}"#, r#"completed {"a": [1, 2]}"#).await;
        check("core.noop", "{}", "completed null").await;
    }

    #[tokio::test]
    async fn sleep_takes_seconds_or_milliseconds() {
        check("core.sleep", r#"{"ms": 1}"#, r#"completed {"slept_ms":1}"#).await;
        check("core.sleep", r#"{"seconds": 0.002}"#, r#"completed {"slept_ms":2}"#).await;
        for wrong in ["{}", r#"{"ms":1,"seconds":1}"#, r#"{"ms":-1}"#, "7", r#"{"seconds":1e99}"#] {
            check("core.sleep", wrong, "failed E.PARAMETERS.INVALID final").await;
        }
    }

    #[tokio::test]
    async fn fail_fails_as_asked() {
        check("core.fail", "{}", "failed E.RUNNER.FAILURE retryable").await;
        check("core.fail", r#"{"code":"E.X","retryable":false}"#, "failed E.X final").await;
        check("core.fail", r#"{"typo":1}"#, "failed E.PARAMETERS.INVALID final").await;
    }

    #[tokio::test]
    async fn test_types_are_not_offered_to_everyone() {
        check("core.crash", "{}", "failed E.TYPE.UNKNOWN final").await;
        assert!(!Builtin::default().types().contains(&"core.crash".to_owned()));
    }

    async fn check(task_type: &str, parameters: &str, expected: &str) {
        let assignment = Assignment {
            lease_id: "l-1".into(),
            task_id: "l".into(),
            attempt: 1,
            task_type: task_type.into(),
            parameters: RawValue::from_string(parameters.into()).expect("JSON"),
        };
        let shown = match Builtin::default().execute(assignment).await {
            Outcome::Completed { result } => format!("completed {}", result.get()),
            Outcome::Failed { code, retryable, .. } => {
                format!("failed {code} {}", if retryable { "retryable" } else { "final" })
            }
        };
        assert_eq!(shown, expected, "{task_type} {parameters}");
    }
}
