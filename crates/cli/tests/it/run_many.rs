//! `astra run --each` and `--array`: one command for many items.

use crate::support::Site;

#[test]
fn each_file_gets_its_task_and_failures_are_listed() {
    let site = Site::with_worker();
    for name in ["b.txt", "a.txt", "c.txt"] {
        std::fs::write(site.work().join(name), name).expect("written");
    }
    let words = ["run", "--name", "r1", "--each", "*.txt", "--", "sh", "-c"];
    let script = "cat {} > {stem}.out; echo {n}; [ {name} != b.txt ]";
    let ended = site.run(&[&words[..], &[script]].concat()).with_code(1);
    assert!(ended.stderr.starts_with("run r1 · sh × 3\n"), "{}", ended.stderr);
    assert!(ended.stderr.contains("✗ run r1 failed: 1 of 3 tasks"), "{}", ended.stderr);
    assert!(ended.stderr.contains("\n  b.txt: exit code 1\n"), "{}", ended.stderr);
    for name in ["a", "b", "c"] {
        let copy = std::fs::read_to_string(site.work().join(format!("{name}.out")));
        assert_eq!(copy.expect("made"), format!("{name}.txt"));
    }
    let check = |item: &str, expected: &str| {
        assert_eq!(site.run(&["run", "logs", "r1", item]).with_code(0).text(), expected);
    };
    check("b.txt", "2");
    check("3", "3");
    assert_eq!(site.run(&["run", "logs", "r1"]).with_code(0).text(), "1\n2\n3");
    site.run(&["run", "follow", "r1"]).with_code(1);
    site.run(&["run", "wait", "r1"]).with_code(1);
    let shown = site.run(&["run", "show", "r1"]).with_code(0);
    assert!(shown.text().contains("✗ b.txt: exit code 1"), "{}", shown.text());
    let shown = site.run(&["run", "show", "r1", "-o", "json"]).with_code(0);
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    assert_eq!(shown["summary"]["states"]["COMPLETED"], 2);
}

#[test]
fn no_more_run_at_once_than_asked_for() {
    let site = Site::with_worker();
    // Two at a time would find the folder there.
    let script = "mkdir lock && sleep 0.02 && rmdir lock";
    let words = ["run", "--array", "1-20", "--max-parallel", "1", "--", "sh", "-c", script];
    site.run(&words).with_code(0);
    let both = "touch {}; while ! [ -e 1 -a -e 2 ]; do sleep 0.01; done";
    let words = ["run", "--array", "1-2", "--max-parallel", "2", "--", "sh", "-c", both];
    site.run(&words).with_code(0);
}

#[test]
fn more_tasks_than_a_page_come_to_their_end() {
    let site = Site::with_worker();
    let words = ["run", "-o", "json", "--array", "1-1300", "--", "sh", "-c", "[ {} -ne 1234 ]"];
    let ended = site.run(&words).with_code(1);
    let ended: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    assert_eq!((&ended["tasks"], &ended["succeeded"]), (&1300.into(), &1299.into()));
    assert_eq!(ended["failures"][0]["item"], "1234");
    let listed = site.run(&["run", "list"]).with_code(0);
    assert!(listed.text().contains("1299/1300"), "{}", listed.text());
}

#[test]
fn a_run_of_many_is_stopped_whole() {
    let site = Site::with_worker();
    let gate = site.gate("gate");
    let words = ["run", "-d", "--name", "r1", "--array", "1-600", "--", "cat", "gate"];
    site.run(&words).with_code(0);
    let stopped = site.run(&["run", "stop", "r1", "-o", "json"]).with_code(0);
    let stopped: serde_json::Value = serde_json::from_slice(&stopped.stdout).expect("JSON");
    assert_eq!(stopped["tasks"], 600);
    site.run(&["run", "wait", "r1"]).with_code(1);
    drop(gate);
}
