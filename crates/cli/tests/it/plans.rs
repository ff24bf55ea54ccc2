//! Plans of Unix tools, submitted and executed by real processes.

use serde_json::{Value, json};

use crate::support::Site;

#[test]
fn a_plan_is_executed_step_by_step() {
    let site = Site::with_worker();
    let job = json!({"plan_id": "count", "input": "b\na\nb\n", "tasks": [
        {"task_number": 1, "command": "sort"},
        {"task_number": 2, "command": "uniq", "args": ["-c"], "input_from_task": 1},
    ]});
    let result = submit(&site, &job, &[]);
    assert_eq!(result["state"], "COMPLETED", "{result}");
    let steps = &result["result"]["task_results"];
    let counted: Vec<_> = steps[1]["stdout"].as_str().expect("text").split_whitespace().collect();
    assert_eq!(counted, ["1", "a", "2", "b"]);
}

#[test]
fn a_plan_that_fails_tells_what_was_done() {
    let site = Site::with_worker();
    let job = json!({"plan_id": "fails", "tasks": [
        {"task_number": 1, "command": "echo", "args": ["one"]},
        {"task_number": 2, "command": "ls", "args": ["/no/such/folder"]},
        {"task_number": 3, "command": "echo", "args": ["never"]},
    ]});
    let task = submit(&site, &job, &["--max-attempts", "1"]);
    let error = &task["error"];
    assert_eq!(error["code"], "E.RUNNER.EXIT", "{task}");
    let reason = error["reason"].as_str().expect("a sentence");
    assert!(reason.starts_with("task 2 (ls) exited with 2: ls: "), "{reason}");
    let steps = error["details"]["task_results"].as_array().expect("steps");
    assert_eq!((steps.len(), &steps[0]["stdout"]), (2, &json!("one\n")), "{task}");
}

#[test]
fn a_worker_starts_only_what_it_allows_and_tells_only_that() {
    let mut site = Site::new();
    site.add_worker_with("w1", &["--allow-tool", "echo", "--sandbox", "basic"]);
    let job = |command: &str| {
        json!({"plan_id": "p", "tasks": [
            {"task_number": 1, "command": command, "args": ["hi"], "timeout_secs": 20}]})
    };
    let good =
        submit(&site, &job("echo"), &["--needs-tool", "echo", "--needs-tag", "sandbox=basic"]);
    assert_eq!(good["result"]["task_results"][0]["stdout"], "hi\n", "{good}");
    let bad = submit(&site, &job("printf"), &[]);
    assert_eq!(bad["error"]["code"], "E.RUNNER.NOT_ALLOWED", "{bad}");
    let words = ["task", "submit", "plan", "--needs-tool", "printf", "-o", "quiet", "-p"];
    let asked = job("printf").to_string();
    let waiting = site.run(&[&words[..], &[&asked]].concat()).with_code(0);
    let why = site.run(&["explain", waiting.text()]).with_code(0);
    assert!(why.text().contains("printf"), "{}", why.text());
}

#[test]
fn a_sandbox_that_cannot_be_had_keeps_a_worker_from_starting() {
    let site = Site::new();
    let words = ["worker", "start", "--sandbox", "strict", "--sandbox-ro", "/no/such/path"];
    let refused = site.run(&words).with_code(2);
    assert!(refused.stderr.contains("/no/such/path cannot be shown"), "{}", refused.stderr);
    let refused = site.run(&["worker", "start", "--sandbox-no-net"]).with_code(2);
    assert!(refused.stderr.contains("the sandbox off"), "{}", refused.stderr);
}

/// The task when it has ended.
fn submit(site: &Site, job: &Value, flags: &[&str]) -> Value {
    let job = job.to_string();
    let words = ["task", "submit", "plan", "--wait", "--json", "-p", &job];
    let ended = site.run(&[&words[..], flags].concat());
    let shown: Value = serde_json::from_str(ended.text()).expect("JSON");
    shown["tasks"][0].clone()
}
