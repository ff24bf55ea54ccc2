//! `astra plan` and `astra action`: plans are kept, jobs are made of them, real programs run.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Ended, Site};

#[test]
fn a_plan_is_saved_shown_and_deleted() {
    let site = Site::new();
    std::fs::write(site.work().join("dedupe.json"), dedupe().to_string()).expect("written");
    let kept = site.run(&["plan", "submit", "dedupe.json"]).with_code(0);
    assert_eq!(kept.text(), "plan dedupe is saved: sort, uniq");
    assert!(kept.stderr.contains("astra action submit"), "{}", kept.stderr);
    assert_eq!(piped(&site, &["plan", "submit", "-", "-o", "quiet"], &dedupe()).text(), "dedupe");
    let shown = site.run(&["plan", "show", "dedupe"]).with_code(0);
    for words in ["dedupe  lines, once each", "1     sort -f", "2     uniq", "step 1", "300s"] {
        assert!(shown.text().contains(words), "{words}: {}", shown.text());
    }
    let listed = site.run(&["plan", "list", "--pattern", "ded*", "-o", "json"]).with_code(0);
    let listed: Value = serde_json::from_str(listed.text()).expect("JSON");
    assert_eq!((&listed["total"], &listed["plans"][0]["task_count"]), (&json!(1), &json!(2)));
    let gone = site.run(&["plan", "rm", "dedupe"]).with_code(0);
    assert!(gone.text().starts_with("plan dedupe is deleted"), "{}", gone.text());
    let none = site.run(&["plan", "list"]).with_code(0);
    assert!(none.text().contains("astra plan submit FILE"), "{}", none.text());
}

#[test]
fn what_is_refused_says_what_to_do() {
    let site = Site::new();
    let check = |words: &[&str], body: &Value, code: i32, said: &str| {
        let ended = piped(&site, words, body).with_code(code);
        assert!(ended.stderr.contains(said), "{words:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("hint:"), "{words:?}: {}", ended.stderr);
    };
    let mut wrong = dedupe();
    wrong["tasks"][1]["command"] = "a;b".into();
    check(&["plan", "submit", "-"], &wrong, 7, "tasks[1].command");
    piped(&site, &["plan", "submit", "-"], &dedupe()).with_code(0);
    wrong["tasks"][1]["command"] = "wc".into();
    check(&["plan", "submit", "-"], &wrong, 6, "the plan dedupe has other steps");
    let nobody = json!({"action_id": "a1", "plan_id": "nobody"});
    check(&["action", "submit", "-"], &nobody, 3, "no plan with the name nobody");
    check(&["plan", "show", "nobody"], &Value::Null, 3, "astra plan list");
    check(&["action", "status", "nobody"], &Value::Null, 3, "astra action list");
    let unread = site.run(&["plan", "submit", "no-such-file"]).with_code(2);
    assert!(unread.stderr.contains("cannot read no-such-file"), "{}", unread.stderr);
    let waits = json!({"action_id": "a1", "plan_id": "dedupe"});
    piped(&site, &["action", "submit", "-"], &waits).with_code(0);
    check(&["plan", "rm", "dedupe"], &Value::Null, 6, "astra action cancel");
    let stopped = site.run(&["action", "cancel", "a1"]).with_code(0);
    assert_eq!(stopped.text(), "action a1: 1 job stopped");
    let again = site.run(&["action", "cancel", "a1"]).with_code(0);
    assert_eq!(again.text(), "action a1: nothing was left to stop");
    assert_eq!(site.run(&["action", "status", "a1", "-o", "quiet"]).text(), "STOPPED");
    site.run(&["action", "status", "a1", "--follow"]).with_code(1);
    site.run(&["plan", "rm", "dedupe"]).with_code(0);
}

#[test]
fn an_action_is_followed_to_its_end() {
    let site = Site::with_worker();
    piped(&site, &["plan", "submit", "-"], &dedupe()).with_code(0);
    let inputs = json!([{"text": "b\na\nb\n"}, {"text": "x\n"}]);
    let action = json!({"action_id": "a1", "plan_id": "dedupe", "inputs": inputs});
    let ended = piped(&site, &["action", "submit", "-", "--follow"], &action).with_code(0);
    assert!(ended.stderr.contains("action a1 · plan dedupe · 2 jobs"), "{}", ended.stderr);
    assert!(ended.stderr.contains("✓ Succeeded: action a1"), "{}", ended.stderr);
    let shown = site.run(&["action", "status", "a1", "-o", "json"]).with_code(0);
    let shown: Value = serde_json::from_str(shown.text()).expect("JSON");
    assert_eq!(shown["counts"]["completed"], 2);
    let task = shown["jobs"][0]["task_id"].as_str().expect("an id");
    let task = site.run(&["task", "show", task, "-o", "json"]).with_code(0);
    let task: Value = serde_json::from_str(task.text()).expect("JSON");
    assert_eq!(task["result"]["task_results"][1]["stdout"], "a\nb\n", "{task}");
    let listed = site.run(&["action", "list"]).with_code(0);
    assert!(listed.text().contains("2/2"), "{}", listed.text());

    let fails = json!({"plan_id": "fails", "tasks": [{"task_number": 1, "command": "false"}]});
    piped(&site, &["plan", "submit", "-"], &fails).with_code(0);
    let action = json!({"action_id": "a2", "plan_id": "fails"});
    let failed = piped(&site, &["action", "submit", "-", "--follow"], &action).with_code(1);
    assert!(failed.stderr.contains("✗ Failed: action a2"), "{}", failed.stderr);
}

fn dedupe() -> Value {
    json!({"plan_id": "dedupe", "description": "lines, once each", "tasks": [
        {"task_number": 1, "command": "sort", "args": ["-f"]},
        {"task_number": 2, "command": "uniq", "args": ["-i"], "input_from_task": 1}
    ]})
}

/// A command that reads a document on its stdin.
fn piped(site: &Site, words: &[&str], body: &Value) -> Ended {
    let mut command = site.astra(words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("starts");
    let mut stdin = child.stdin.take().expect("piped");
    // Some commands read nothing.
    let _ = stdin.write_all(body.to_string().as_bytes());
    drop(stdin);
    child.wait_with_output().expect("ends").into()
}
