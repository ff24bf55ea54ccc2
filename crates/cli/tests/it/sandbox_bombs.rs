//! Programs that want more than they get.

use std::process::Command;
use std::time::Duration;

use serde_json::json;
use worker::sandbox::profile::{Level, Profile};
use worker::sandbox::profile::{PROCESSES_MAX, PROCESSES_SHARED_MAX};

use crate::sandbox::{profile, run};
use crate::waiting::wait_until;

#[tokio::test]
async fn a_program_cannot_have_processes_without_end() {
    let is_root = rustix::process::geteuid().is_root();
    let limit = if is_root { PROCESSES_MAX } else { PROCESSES_SHARED_MAX };
    let script = format!(
        "echo $$; i=0; while [ $i -lt {} ]; do sleep 100 & i=$((i+1)); done; echo all",
        limit + 100
    );
    let parameters = json!({"argv": ["sh", "-c", script], "timeout_ms": 60_000});
    let (outcome, result) = run(profile(Level::Basic), &parameters).await;
    assert!(outcome.starts_with("E.RUNNER.EXIT"), "{outcome}");
    let said = result["stdout"].as_str().expect("text");
    assert!(!said.contains("all"), "{said}");
    check_gone(said.lines().next().expect("a number")).await;
}

#[tokio::test]
async fn a_program_cannot_have_memory_without_end() {
    let script = r#"BEGIN { s = "x"; while (length(s) < 500000000) s = s s; print length(s) }"#;
    let little = Profile { memory_bytes: 128 << 20, ..profile(Level::Basic) };
    let (outcome, result) = run(little, &json!({"argv": ["awk", script]})).await;
    assert!(outcome.starts_with("E.RUNNER.EXIT"), "{outcome}");
    assert_eq!(result["stdout"], "", "{outcome}");
}

#[tokio::test]
async fn a_program_that_takes_too_long_dies_with_all_that_it_started() {
    for level in [Level::Basic, Level::Strict] {
        let script = "echo $$; trap '' TERM; (sleep 100 & sleep 100) & sleep 100; sleep 100";
        let parameters = json!({"argv": ["sh", "-c", script], "timeout_ms": 500});
        let (outcome, result) = run(profile(level), &parameters).await;
        assert!(outcome.starts_with("E.TIMEOUT again"), "{outcome}");
        check_gone(result["stdout"].as_str().expect("text").trim()).await;
    }
}

/// Processes vanish a moment after they were killed.
async fn check_gone(group: &str) {
    assert!(!group.is_empty());
    let gone = async || {
        let listed = Command::new("ps").args(["-eo", "pgid=,stat="]).output().expect("runs");
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let remains = listed.lines().any(|line| {
            let mut words = line.split_whitespace();
            words.next() == Some(group) && words.next().is_some_and(|stat| !stat.starts_with('Z'))
        });
        if remains { Err(listed) } else { Ok(()) }
    };
    wait_until("the end of a process group", Duration::from_secs(10), gone).await;
}
