use serde_json::Value;
use serde_json::value::to_raw_value;

use super::*;

#[test]
fn a_failure_tells_what_was_done_before() {
    let steps = serde_json::json!({ "task_results": [{ "task_number": 1 }] });
    let failed = Outcome::Failed {
        code: "E.RUNNER.EXIT".into(),
        reason: "task 2 (b) exited with 1".into(),
        retryable: true,
        details: Some(to_raw_value(&steps).expect("JSON")),
    };
    for (attempt, max_retries, retryable) in [(1, 0, false), (1, 1, true), (2, 1, false)] {
        let job = Job {
            id: "j".into(),
            claim: Claim::Leased(Some("l-1".into())),
            attempt,
            max_retries,
            time: None,
            plan: Err(String::new()),
        };
        let worker_id = "w".parse().expect("a name");
        let request = Speaker { job: &job, worker_id: &worker_id }.ended(&failed);
        assert_eq!(request[..2], ["JOB.UPDATE", "j"]);
        let update: Value = serde_json::from_slice(&request[2]).expect("JSON");
        assert_eq!(update["status"], "failed");
        assert_eq!((&update["lease_id"], &update["worker_id"]), (&"l-1".into(), &"w".into()));
        assert_eq!(update["error"], "task 2 (b) exited with 1");
        assert_eq!(update["error_code"], "E.RUNNER.EXIT");
        assert_eq!(update["task_results"], steps["task_results"]);
        assert_eq!(update["retryable"], retryable, "attempt {attempt} of 1 + {max_retries}");
        assert!(update["failed_at"].is_string() && update["completed_at"].is_null());
    }
}

#[test]
fn verdicts_are_told_from_errors_that_pass() {
    let judged = |verdict, text: &str| Heard::Judged(verdict, text.into());
    for (reply, expected) in [
        (Reply::ok(), Heard::Taken),
        (
            Reply::error("CANCELLED expired: x"),
            judged(VerdictWord::Cancelled, "CANCELLED expired: x"),
        ),
        (Reply::error("REJECTED x"), judged(VerdictWord::Rejected, "REJECTED x")),
        (
            Reply::error("ERR Job not found: j"),
            judged(VerdictWord::Rejected, "ERR Job not found: j"),
        ),
        (Reply::error("BUSY x"), Heard::Passing("BUSY x".into())),
    ] {
        assert_eq!(hear(&reply), expected);
    }
}
