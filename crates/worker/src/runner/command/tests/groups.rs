//! Whatever a program started is gone when it ends, however it ends.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use super::*;
use crate::waiting::wait_until;

/// Set for the process that plays a worker which is killed.
const ROLE: &str = "ASTRA_TEST_ROLE";

#[tokio::test]
async fn a_timeout_ends_the_whole_tree() {
    let script = "echo $$; sleep 100 & sleep 100";
    let mut running = start(&json!({"argv": ["sh", "-c", script], "timeout_ms": 200}));
    let group = group_of(&mut running).await;
    let (outcome, result) = running.end().await;
    assert!(outcome.starts_with("E.TIMEOUT again"), "{outcome}");
    assert!(result["duration_ms"].as_u64().is_some_and(|ms| ms >= 200));
    check_gone(&group).await;
}

#[tokio::test]
async fn a_program_may_say_good_bye() {
    let script = "trap 'echo bye; exit 0' TERM; echo $$; while :; do sleep 0.02; done";
    let mut running = start_with(patient(), &json!({"argv": ["sh", "-c", script]}));
    let group = group_of(&mut running).await;
    running.stop.cancel();
    let (outcome, result) = running.end().await;
    assert!(outcome.starts_with("E.RUNNER.CANCELLED again: the program was stopped"), "{outcome}");
    assert!(result["stdout"].as_str().is_some_and(|text| text.ends_with("bye\n")), "{result}");
    check_gone(&group).await;
}

#[tokio::test]
async fn a_program_that_does_not_listen_is_killed_after_the_grace() {
    let script = "trap '' TERM; echo $$; sleep 100 & sleep 100; sleep 100";
    let mut running = start(&json!({"argv": ["sh", "-c", script]}));
    let group = group_of(&mut running).await;
    let began = Instant::now();
    running.stop.cancel();
    let (outcome, _) = running.end().await;
    assert!(outcome.starts_with("E.RUNNER.CANCELLED"), "{outcome}");
    assert!(began.elapsed() >= Duration::from_millis(300), "the grace was given");
    check_gone(&group).await;
}

#[tokio::test]
async fn a_dropped_run_kills_the_whole_tree() {
    let mut running = start(&json!({"argv": ["sh", "-c", "echo $$; sleep 100 & sleep 100"]}));
    let group = group_of(&mut running).await;
    running.task.abort();
    assert!(running.task.await.is_err());
    check_gone(&group).await;
}

#[tokio::test]
async fn a_background_process_neither_hangs_the_run_nor_survives_it() {
    for redirection in ["", ">/dev/null 2>&1"] {
        let script = format!("echo $$; sleep 100 {redirection} & exit 0");
        let mut running = start(&json!({"argv": ["sh", "-c", script]}));
        let group = group_of(&mut running).await;
        let (outcome, result) = running.end().await;
        assert_eq!(outcome, "completed");
        assert_eq!(result["exit_code"], 0);
        check_gone(&group).await;
    }
}

#[tokio::test]
async fn a_process_that_left_the_group_does_not_hang_the_run() {
    let script = "setsid sh -c 'echo $$; exec sleep 100' & wait_for_it=1; exit 0";
    let mut running = start(&json!({"argv": ["sh", "-c", script]}));
    let stray = group_of(&mut running).await;
    let (outcome, _) = running.end().await;
    assert_eq!(outcome, "completed");
    let killed = Command::new("kill").args(["-KILL", &stray]).status().expect("runs");
    assert!(killed.success(), "it is out of reach; nothing else is promised");
}

#[tokio::test]
async fn a_background_process_that_never_stops_talking_is_cut_off() {
    let mut running = start(&json!({"argv": ["sh", "-c", "echo $$; yes & exit 0"]}));
    let group = group_of(&mut running).await;
    let (outcome, _) = running.end().await;
    assert_eq!(outcome, "completed");
    check_gone(&group).await;
}

#[tokio::test]
async fn a_program_that_closes_its_output_is_waited_for() {
    let script = "exec >&- 2>&-; read line; sleep 0.1; exit 7";
    let (outcome, _) = run(&json!({"argv": ["sh", "-c", script], "stdin": "x\n"})).await;
    assert_eq!(outcome, "E.RUNNER.EXIT again: the program exited with code 7");
}

/// This very test is also the worker: started again with a role, it runs a program and waits to
/// be killed.
#[tokio::test]
async fn programs_die_with_a_worker_that_is_killed() {
    let parameters = json!({"argv": ["sh", "-c", "echo $$; sleep 100 & exec sleep 100"]});
    if std::env::var_os(ROLE).is_some() {
        let mut running = start(&parameters);
        let group = group_of(&mut running).await;
        eprintln!("group {group}");
        let _ = running.task.await;
        return;
    }
    let mut worker = again("programs_die_with_a_worker_that_is_killed").spawn().expect("starts");
    let lines = BufReader::new(worker.stderr.take().expect("piped")).lines();
    let group =
        lines.map_while(Result::ok).find_map(|line| Some(line.strip_prefix("group ")?.to_owned()));
    let group = group.expect("the worker runs its program");
    assert!(!members(&group).is_empty());
    worker.kill().expect("ours");
    worker.wait().expect("ours");
    check_gone(&group).await;
}

#[tokio::test]
async fn a_secret_of_the_worker_does_not_reach_a_program() {
    if std::env::var_os(ROLE).is_some() {
        assert!(std::env::var_os("ASTRA_TOKEN").is_some(), "it is there to be found");
        let (_, result) = run(&json!({"argv": ["env"]})).await;
        let seen = result["stdout"].as_str().expect("text");
        assert!(seen.contains("ASTRA_TASK_ID=t\n") && !seen.contains("ASTRA_TOKEN"), "{seen}");
        return;
    }
    let mut worker = again("a_secret_of_the_worker_does_not_reach_a_program");
    let ended = worker.env("ASTRA_TOKEN", "secret").output().expect("runs");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

/// A test of this file in a process of its own, told by its role to play the worker.
fn again(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("known"));
    let name = format!("{}::{test}", module_path!().trim_start_matches("worker::"));
    command.args([&name, "--exact", "--nocapture"]).env(ROLE, "worker");
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

fn patient() -> Options {
    Options { grace: PATIENCE, ..Options::default() }
}

/// The number of the group: the first line that the program says.
async fn group_of(running: &mut Running) -> String {
    let chunk = running.next_chunk().await;
    let text = String::from_utf8_lossy(&chunk.bytes).into_owned();
    text.lines().next().expect("a line").to_owned()
}

/// Processes vanish a moment after they were killed.
async fn check_gone(group: &str) {
    let gone = async || {
        let members = members(group);
        if members.is_empty() { Ok(()) } else { Err(members) }
    };
    wait_until("the end of a process group", Duration::from_secs(5), gone).await;
}

/// The processes of a group that still run; those that nobody has collected yet don't.
fn members(group: &str) -> Vec<String> {
    let listed = Command::new("ps").args(["-eo", "pgid=,stat=,args="]).output().expect("runs");
    String::from_utf8_lossy(&listed.stdout)
        .lines()
        .filter(|line| {
            let mut words = line.split_whitespace();
            words.next() == Some(group) && words.next().is_some_and(|stat| !stat.starts_with('Z'))
        })
        .map(str::to_owned)
        .collect()
}
