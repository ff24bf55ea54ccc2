use protocol::plan::TaskResult;
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
        let request = JobUpdates { job: &job, worker_id: &worker_id }.ended(&failed);
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

#[test]
fn outputs_of_all_steps_stand_one_after_the_other() {
    let result = to_raw_value(&steps(&[("a\n", ""), ("b\n", "odd")])).expect("JSON");
    let done = Outcome::done(result.clone());
    assert_eq!(told(&done), ("completed", "a\nb\n".into(), "odd".into()));
    let failed = Outcome::Failed {
        code: "E".into(),
        reason: "task 2 (b) exited with 1".into(),
        retryable: false,
        details: Some(result),
    };
    let stderr = "odd\ntask 2 (b) exited with 1\n";
    assert_eq!(told(&failed), ("failed", "a\nb\n".into(), stderr.into()));
    let never = Outcome::hopeless("E", "no such plan");
    assert_eq!(told(&never), ("failed", String::new(), "no such plan\n".into()));
}

#[test]
fn output_that_such_a_server_would_hang_up_on_is_cut() {
    let long = "é".repeat(OUTPUT_BYTES_MAX);
    let told = cut(format!("x{long}"));
    assert!(told.len() <= OUTPUT_BYTES_MAX && told.starts_with('é') && told.ends_with('é'));
    assert_eq!(cut("short".into()), "short");
}

fn steps(outputs: &[(&str, &str)]) -> PlanResult {
    let step = |(number, (stdout, stderr)): (u32, &(&str, &str))| TaskResult {
        task_number: number,
        command: "x".into(),
        exit_code: 0,
        stdout: (*stdout).into(),
        stderr: (*stderr).into(),
        duration_ms: 0,
        truncated: false,
    };
    PlanResult { task_results: (1..).zip(outputs).map(step).collect() }
}

#[test]
fn the_words_of_all_servers_are_understood() {
    for (text, expected) in [
        ("NOAUTH Authentication required.", Meaning::WrongKey),
        ("ERR NOAUTH Authentication required", Meaning::WrongKey),
        ("WRONGPASS invalid username-password pair or user is disabled.", Meaning::WrongKey),
        ("ERR Invalid authentication key", Meaning::WrongKey),
        ("NOPERM this key does not speak for worker w2", Meaning::NotAllowed),
        ("ERR unknown command 'WORKER.REGISTER'", Meaning::UnknownCommand),
        ("ERR Unknown command `JOB.GET`, with args beginning with:", Meaning::UnknownCommand),
        ("CANCELLED expired: the lease ended before the report came", Meaning::Cancelled),
        ("REJECTED duplicate_report: reported before, try again", Meaning::Rejected),
        ("ERR Worker not registered: w1", Meaning::NotRegistered),
        ("ERR too many failed AUTH attempts; try again in 3 s", Meaning::Passing),
        ("BUSY more requests than the server can take now", Meaning::Passing),
        ("ERR the server is stopping; connect again", Meaning::Passing),
        ("ERR Internal error", Meaning::Passing),
        ("ERR Worker ID already registered", Meaning::Other),
        ("ERR Job not found: j", Meaning::Other),
        ("", Meaning::Other),
    ] {
        assert_eq!(meaning(text), expected, "{text}");
    }
}
