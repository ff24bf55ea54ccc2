//! `astra run`: one command, as if it ran here.

use std::io::Read as _;

use rustix::process::Signal;

use crate::support::{Site, line_of, until_line};

#[test]
fn output_arrives_byte_by_byte_as_it_was_written() {
    let site = Site::with_worker();
    let script = r"printf 'a\rb\377\n'; printf 'e\r\376' >&2";
    let ended = site.run(&["run", "-q", "--", "sh", "-c", script]).with_code(0);
    assert_eq!(ended.stdout, b"a\rb\xff\n");
    assert_eq!(ended.stderr, "e\r\u{fffd}");
}

#[test]
fn remarks_stand_beside_the_output() {
    let site = Site::with_worker();
    let ended = site.run(&["run", "--name", "r1", "--", "echo", "hello"]).with_code(0);
    assert_eq!(ended.stdout, b"hello\n");
    let lines: Vec<_> = ended.stderr.lines().collect();
    assert_eq!(lines[0], "run r1 · echo · w1");
    assert!(lines[1].starts_with("✓ run r1 succeeded in "), "{lines:?}");
    assert_eq!(lines.len(), 2);
}

#[test]
fn what_a_command_is_told_reaches_it() {
    let site = Site::with_worker();
    let words = ["run", "-q", "--env", "A=b c", "--cwd", "/", "--", "sh", "-c", "echo $A $PWD"];
    assert_eq!(site.run(&words).with_code(0).text(), "b c /");
    let here = site.run(&["run", "-q", "--", "pwd"]).with_code(0);
    let work = site.work().canonicalize().expect("there");
    assert_eq!(here.text(), work.to_str().expect("text"));
    std::fs::write(site.work().join("in.txt"), "from a file").expect("written");
    let words = ["run", "-q", "--stdin", "in.txt", "--", "cat"];
    assert_eq!(site.run(&words).with_code(0).text(), "from a file");
}

#[test]
fn output_comes_while_the_command_runs() {
    let site = Site::with_worker();
    let gate = site.gate("gate");
    let (process, mut stdout) =
        site.start(&["run", "--", "sh", "-c", "echo first; cat gate; exit 3"]);
    assert_eq!(line_of(&mut stdout), "first\n");
    gate.write("second\n");
    assert_eq!(line_of(&mut stdout), "second\n");
    let (status, _, stderr) = process.end();
    assert_eq!(status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("failed: exit code 3"), "{stderr}");
    assert!(stderr.contains("more: astra run show"), "{stderr}");
}

#[test]
fn a_killed_server_costs_no_byte_and_repeats_none() {
    let mut site = Site::with_worker();
    let gate = site.gate("gate");
    let (process, mut stdout) =
        site.start(&["run", "-q", "--", "sh", "-c", "echo one; echo two; cat gate; echo end"]);
    assert_eq!(line_of(&mut stdout) + &line_of(&mut stdout), "one\ntwo\n");
    site.kill_server();
    gate.write("three\n");
    site.restart_server();
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).expect("text");
    assert_eq!(rest, "three\nend\n");
    let (status, _, stderr) = process.end();
    assert_eq!(status.code(), Some(0), "{stderr}");
}

#[test]
fn a_run_that_was_left_alone_is_found_again() {
    let site = Site::with_worker();
    let gate = site.gate("gate");
    let detached = site.run(&["run", "-d", "--", "sh", "-c", "echo before; cat gate"]).with_code(0);
    let name = detached.text().to_owned();
    assert_eq!(name.len(), 8, "{name}");
    let (process, mut stdout) = site.start(&["run", "follow", &name[..5]]);
    assert_eq!(line_of(&mut stdout), "before\n");
    assert_eq!(site.run(&["run", "logs", "last"]).with_code(0).text(), "before");
    let (tail, mut tail_stdout) = site.start(&["run", "follow", "last", "--tail"]);
    // It says who runs it once it knows where the output ends.
    let mut tail_stderr = tail.stderr();
    assert!(line_of(&mut tail_stderr).contains(&name));
    gate.write("after\n");
    assert_eq!(line_of(&mut stdout), "after\n");
    assert_eq!(line_of(&mut tail_stdout), "after\n");
    assert_eq!(process.end().0.code(), Some(0));
    site.run(&["run", "wait", "last"]).with_code(0);
    assert_eq!(site.run(&["run", "list", "-o", "quiet"]).with_code(0).text(), name);
    let shown = site.run(&["run", "show", "last", "-o", "quiet"]).with_code(0);
    assert_eq!(shown.text(), "COMPLETED");
}

#[test]
fn ctrl_c_leaves_a_run_alone() {
    let site = Site::with_worker();
    let gate = site.gate("gate");
    let (process, mut stdout) = site.start(&["run", "--", "sh", "-c", "echo up; cat gate"]);
    assert_eq!(line_of(&mut stdout), "up\n");
    process.signal(Signal::INT);
    let (status, _, stderr) = process.end();
    assert_eq!(status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("astra run follow"), "{stderr}");
    gate.write("on\n");
    assert_eq!(site.run(&["run", "follow", "last", "-q"]).with_code(0).text(), "up\non");
}

#[test]
fn ctrl_c_twice_stops_a_run() {
    let site = Site::with_worker();
    let _gate = site.gate("gate");
    let (process, mut stdout) = site.start(&["run", "--", "sh", "-c", "echo up; cat gate"]);
    assert_eq!(line_of(&mut stdout), "up\n");
    let mut stderr = process.stderr();
    process.signal(Signal::INT);
    until_line(&mut stderr, "which goes on");
    process.signal(Signal::INT);
    let (status, _, rest) = process.end();
    assert_eq!(status.code(), Some(130), "{rest}");
    let shown = site.run(&["run", "show", "last", "-o", "quiet"]).with_code(0);
    assert_eq!(shown.text(), "STOPPED");
}

#[test]
fn the_same_name_with_the_same_command_is_the_same_run() {
    let site = Site::with_worker();
    let words = ["run", "-q", "--name", "once", "--", "sh", "-c", "echo x >> f; cat f"];
    assert_eq!(site.run(&words).with_code(0).text(), "x");
    assert_eq!(site.run(&words).with_code(0).text(), "x", "it did not run again");
    site.run(&["run", "-q", "--name", "once", "--", "echo", "other"]).with_code(6);
}

#[test]
fn programs_get_one_value_or_lines() {
    let site = Site::with_worker();
    let whole = site.run(&["run", "-o", "json", "--", "echo", "hi"]).with_code(0);
    let task: serde_json::Value = serde_json::from_slice(&whole.stdout).expect("one value");
    assert_eq!(task["result"]["stdout"], "hi\n");
    assert_eq!(whole.stderr, "");
    let lines = site.run(&["run", "-o", "jsonl", "--", "echo", "hi"]).with_code(0);
    let lines: Vec<serde_json::Value> =
        lines.text().lines().map(|line| serde_json::from_str(line).expect("a value")).collect();
    assert_eq!((&lines[0]["text"], &lines[1]["state"]), (&"hi\n".into(), &"COMPLETED".into()));
}
