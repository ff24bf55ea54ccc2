//! `astra queue` and tokens of one worker.

use serde_json::Value;

use crate::support::Site;

#[test]
fn a_queue_is_paused_looked_at_and_resumed() {
    let site = Site::new();
    let submit = ["task", "submit", "core.noop", "--queue", "q1", "--count", "3"];
    site.run(&submit).with_code(0);
    let paused = site.run(&["queue", "pause", "q1"]).with_code(0);
    assert!(paused.text().contains("paused with 3 tasks"), "{}", paused.text());
    let shown = site.run(&["queue", "show", "q1"]).with_code(0);
    assert!(shown.text().contains("queued    3"), "{}", shown.text());
    assert!(shown.text().contains("paused    by "), "{}", shown.text());
    let peeked = site.run(&["queue", "peek", "q1", "--limit", "2"]).with_code(0);
    assert_eq!(peeked.text().lines().count(), 3, "{}", peeked.text());
    assert!(peeked.stderr.contains("astra queue resume q1"), "{}", peeked.stderr);
    assert!(peeked.stderr.contains("of 3"), "{}", peeked.stderr);
    let listed = site.run(&["queue", "list"]).with_code(0);
    assert!(listed.text().contains("by "), "{}", listed.text());
    let resumed = site.run(&["queue", "resume", "q1"]).with_code(0);
    assert_eq!(resumed.text(), "queue q1 goes on with 3 tasks");
}

#[test]
fn a_purge_is_asked_for_or_meant() {
    let site = Site::new();
    site.run(&["task", "submit", "core.noop", "--queue", "q1", "--count", "3"]).with_code(0);
    let asked = site.run(&["queue", "purge", "q1"]).with_code(2);
    assert!(asked.stderr.contains("Stop 3 tasks of queue q1?"), "{}", asked.stderr);
    assert!(asked.stderr.contains("use --yes"), "{}", asked.stderr);
    assert_eq!(site.run(&["queue", "show", "q1", "-o", "quiet"]).text(), "3");
    let meant = site.run(&["queue", "purge", "q1", "--yes"]).with_code(0);
    assert!(meant.text().starts_with("3 tasks of queue q1 stopped"), "{}", meant.text());
    assert_eq!(site.run(&["queue", "purge", "q1", "-y", "-o", "quiet"]).text(), "0");
}

#[test]
fn dead_tasks_are_shown_and_brought_back() {
    let site = Site::with_worker();
    let fail = ["task", "submit", "core.fail", "--queue", "q1", "--max-attempts", "2"];
    site.run(&[&fail[..], &["--backoff", "1ms", "--wait"]].concat()).with_code(1);
    let dead = site.run(&["queue", "dead", "q1"]).with_code(0);
    assert!(dead.stderr.contains("astra queue requeue q1"), "{}{}", dead.text(), dead.stderr);
    site.run(&["queue", "pause", "q1"]).with_code(0);
    let back = site.run(&["queue", "requeue", "q1", "-o", "json"]).with_code(0);
    let back: Value = serde_json::from_str(back.text()).expect("JSON");
    assert_eq!((back["requeued"].as_u64(), back["dead"].as_u64()), (Some(1), Some(0)));
    assert_eq!(site.run(&["queue", "show", "q1", "-o", "quiet"]).text(), "1");
    let none = site.run(&["queue", "dead", "q1"]).with_code(0);
    assert_eq!(none.text(), "no task is dead");
}

#[test]
fn a_token_of_one_worker_starts_that_worker_and_no_other() {
    let site = Site::new();
    let create = ["token", "create", "--role", "worker", "--worker-id", "w7", "-o", "quiet"];
    let token = site.run(&create).with_code(0);
    let token = token.text();
    let listed = site.run(&["token", "list"]).with_code(0);
    assert!(listed.text().contains("w7"), "{}", listed.text());
    let wrong = ["token", "create", "--role", "admin", "--worker-id", "w7"];
    let wrong = site.run(&wrong).with_code(7);
    assert!(wrong.stderr.contains("only the role worker"), "{}", wrong.stderr);
    let start = ["worker", "start", "--name", "w8", "--data", "w8", "--token", token];
    let other = site.run(&start);
    assert_ne!(other.code, Some(0));
    assert!(other.stderr.contains("made for worker w7"), "{}", other.stderr);
    assert_eq!(site.run(&["worker", "list", "-o", "quiet"]).text(), "");
}
