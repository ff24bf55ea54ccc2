use protocol::session::payload::exec::ResultError;
use serde_json::value::RawValue;

use super::*;

#[test]
fn what_a_failed_result_carries_becomes_its_details() {
    check(r#"{"steps":[1,2]}"#, "it broke", Some(r#"{"steps":[1,2]}"#));
    check("{}", "it broke", None);
}

#[test]
fn an_older_failure_says_its_text_once() {
    let text = |result| match failed_result(failed(result, None)) {
        ReportedOutcome::Failed { failure, .. } => (failure.reason, failure.details),
        ReportedOutcome::Completed { .. } => panic!("it failed"),
    };
    assert_eq!(text(r#"{"error":"boom"}"#), ("boom".to_owned(), None));
    let more = r#"{"error":"boom","steps":[1]}"#;
    assert_eq!(text(more), ("boom".to_owned(), Some(Bytes::from_static(more.as_bytes()))));
}

fn check(result: &str, reason: &str, details: Option<&'static str>) {
    let error = ResultError { code: "E.X".into(), message: reason.into(), remediation: None };
    let outcome = failed_result(failed(result, Some(error)));
    let details = details.map(|text| Bytes::from_static(text.as_bytes()));
    let failure = Failure { details, ..Failure::new("E.X", reason) };
    assert_eq!(outcome, ReportedOutcome::Failed { failure, retryable: true });
}

fn failed(result: &str, error: Option<ResultError>) -> ExecResult {
    let raw = RawValue::from_string(result.to_owned()).expect("JSON");
    ExecResult {
        run_id: "r".into(),
        task_id: "t".into(),
        status: ResultStatus::Failed,
        result: OpenObject::new(raw).expect("an object"),
        duration_ms: None,
        metadata: None,
        artifacts: None,
        error,
    }
}
