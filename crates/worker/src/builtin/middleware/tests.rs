use std::sync::Mutex;

use super::*;
use crate::builtin::Builtin;
use crate::core::executor::Executor;
use crate::core::next::tests::answering;
use crate::core::next::{Next, NextAnswer, NextFailure};

#[tokio::test(start_paused = true)]
async fn retry_calls_until_it_succeeds_and_waits_longer_each_time() {
    let began = tokio::time::Instant::now();
    let parameters = r#"{"attempts":4,"delayMs":100,"backoff":2,"typo":"not mine"}"#;
    let (outcome, payloads) =
        run("core.retry", parameters, |n| if n < 3 { failed() } else { done(r#"{"b":2.50}"#) })
            .await;
    assert_eq!(outcome, r#"completed {"attempts":3,"b":2.50}"#);
    assert_eq!(payloads, [r#"{"attempt":1}"#, r#"{"attempt":2}"#, r#"{"attempt":3}"#]);
    assert_eq!(began.elapsed(), Duration::from_millis(100 + 200));
}

#[tokio::test(start_paused = true)]
async fn retry_passes_the_last_failure_on() {
    let (outcome, payloads) = run("core.retry", r#"{"attempts":2}"#, |_| failed()).await;
    assert_eq!(outcome, "failed E.HOST final: no luck");
    assert_eq!(payloads.len(), 2);
    let (outcome, payloads) = run("core.retry", "{}", |_| ended("next_cancelled")).await;
    assert_eq!((outcome.as_str(), payloads.len()), ("failed E.RUNNER.CANCELLED final: x", 1));
    let (outcome, payloads) = run("core.retry", "{}", |_| ended("next_skipped")).await;
    assert_eq!((outcome.as_str(), payloads.len()), ("skipped null", 1));
}

#[tokio::test]
async fn loop_calls_for_each_item_or_a_number_of_times() {
    let (outcome, payloads) =
        run("core.loop", r#"{"items":["a",{"b":1}]}"#, |n| done(&n.to_string())).await;
    assert_eq!(outcome, r#"completed {"count":2,"items":[1,2]}"#);
    assert_eq!(payloads, [r#"{"index":0,"item":"a"}"#, r#"{"index":1,"item":{"b":1}}"#]);
    let (outcome, payloads) =
        run("core.loop", r#"{"times":3,"collect":false}"#, |_| done("1")).await;
    assert_eq!((outcome.as_str(), payloads.len()), (r#"completed {"count":3}"#, 3));
    let (outcome, payloads) =
        run("core.loop", r#"{"times":3}"#, |n| if n == 2 { failed() } else { done("1") }).await;
    assert_eq!((outcome.as_str(), payloads.len()), ("failed E.HOST final: no luck", 2));
    let (outcome, _) = run("core.loop", r#"{"times":2}"#, |_| ended("next_skipped")).await;
    assert_eq!(outcome, r#"completed {"count":2,"items":[null,null]}"#);
}

#[tokio::test]
async fn timeout_says_how_long_it_waits() {
    let (outcome, _) = run("core.timeout", r#"{"ms":5}"#, |_| ended("next_timeout")).await;
    assert_eq!(outcome, "failed E.TIMEOUT final: x");
    let (outcome, payloads) = run("core.timeout", r#"{"ms":5}"#, |_| done("7")).await;
    assert_eq!((outcome.as_str(), payloads), ("completed 7", vec!["none within 5ms".to_owned()]));
}

#[tokio::test]
async fn what_comes_from_further_out_is_handed_on() {
    let parameters = r#"{"ms":5,"item":{"a":1},"index":3,"own":1}"#;
    let (_, payloads) = run("core.timeout", parameters, |_| done("1")).await;
    assert_eq!(payloads, [r#"{"index":3,"item":{"a":1}} within 5ms"#]);
    let (_, payloads) =
        run("core.loop", r#"{"times":1,"index":3,"attempt":2}"#, |_| done("1")).await;
    assert_eq!(payloads, [r#"{"attempt":2,"index":0}"#]);
}

#[tokio::test]
async fn parameters_that_make_no_sense_are_refused_before_anything_is_called() {
    for (name, parameters) in [
        ("core.retry", r#"{"attempts":0}"#),
        ("core.retry", r#"{"attempts":10001}"#),
        ("core.retry", r#"{"backoff":-1}"#),
        ("core.loop", "{}"),
        ("core.loop", r#"{"times":1,"items":[]}"#),
        ("core.loop", r#"{"times":10001}"#),
        ("core.timeout", r#"{"ms":0}"#),
        ("core.timeout", "{}"),
    ] {
        let (outcome, payloads) = run(name, parameters, |_| done("1")).await;
        assert!(outcome.starts_with("failed E.PARAMETERS.INVALID final"), "{name}: {outcome}");
        assert!(payloads.is_empty());
    }
}

#[tokio::test]
async fn without_a_chain_a_middleware_fails() {
    let outcome = execute("core.retry", r#"{"attempts":1}"#, Next::nowhere()).await;
    assert!(outcome.starts_with("failed E.MIDDLEWARE.NO_CHAIN final"), "{outcome}");
}

#[tokio::test]
async fn what_is_laid_over_strict_parameters_is_no_mistake_in_a_chain() {
    let parameters = r#"{"ms":0,"index":1,"item":2,"attempt":3}"#;
    let in_chain = execute("core.sleep", parameters, answering(|_| done("1"))).await;
    assert_eq!(in_chain, r#"completed {"slept_ms":0}"#);
    let alone = execute("core.sleep", parameters, Next::nowhere()).await;
    assert!(alone.starts_with("failed E.PARAMETERS.INVALID"), "{alone}");
}

#[tokio::test]
async fn a_failure_of_the_first_times_counts_the_calls_of_a_retry() {
    let next = || answering(|_| done("1"));
    let first = execute("core.fail", r#"{"times":1,"attempt":1}"#, next()).await;
    assert!(first.starts_with("failed E.RUNNER.FAILURE retryable"), "{first}");
    let second = execute("core.fail", r#"{"times":1,"attempt":2}"#, next()).await;
    assert_eq!(second, r#"completed {"attempt":2}"#);
}

/// Executes a middleware whose next in line answers its n-th call so; gives its end, and what it
/// gave the next in line.
async fn run(
    name: &str,
    parameters: &str,
    answer: impl Fn(usize) -> NextAnswer + Send + Sync + 'static,
) -> (String, Vec<String>) {
    let payloads = std::sync::Arc::new(Mutex::new(Vec::new()));
    let seen = std::sync::Arc::clone(&payloads);
    let next = answering(move |words| {
        let mut seen = seen.lock().expect("no panic");
        let payload = words.payload.map_or("none".into(), |payload| payload.get().to_owned());
        let within = words.timeout.map(|time| format!(" within {time:?}")).unwrap_or_default();
        seen.push(payload + &within);
        answer(seen.len())
    });
    let outcome = execute(name, parameters, next).await;
    let payloads = payloads.lock().expect("no panic").clone();
    (outcome, payloads)
}

async fn execute(name: &str, parameters: &str, next: Next) -> String {
    let assignment = Assignment {
        lease_id: "l".into(),
        task_id: "t".into(),
        attempt: 1,
        task_type: name.into(),
        parameters: RawValue::from_string(parameters.into()).expect("JSON"),
    };
    let context = Context { next, ..Context::detached() };
    match Builtin.execute(assignment, context).await {
        Outcome::Completed { result, extra: Some(extra) } if extra.is_skipped => {
            format!("skipped {}", result.get())
        }
        Outcome::Completed { result, .. } => format!("completed {}", result.get()),
        Outcome::Failed { code, reason, retryable, .. } => {
            let word = if retryable { "retryable" } else { "final" };
            format!("failed {code} {word}: {reason}")
        }
    }
}

fn done(result: &str) -> NextAnswer {
    RawValue::from_string(result.into()).map_err(|_| NextFailure::new("next_failed", "no JSON"))
}

fn failed() -> NextAnswer {
    let cause = Some("E.HOST".into());
    Err(NextFailure { cause, ..NextFailure::new("next_failed", "no luck") })
}

fn ended(code: &str) -> NextAnswer {
    Err(NextFailure::new(code, "x"))
}
