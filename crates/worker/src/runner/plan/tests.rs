use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use protocol::plan::{PlanResult, TaskResult};
use serde_json::json;
use serde_json::value::to_raw_value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::core::feedback::FeedbackSink;
use crate::runner::command;
use crate::runner::tools::{Tools, own_path};
use crate::waiting::wait_until;

mod feeding;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn tasks_run_in_order_and_feed_each_other() {
    let job = plan(
        &json!([
            ["printf", "b\\na\\nb\\n"],
            {"command": "sort", "input_from_task": 1},
            {"command": "uniq", "args": ["-c"], "input_from_task": 2},
            {"command": "wc", "args": ["-l"], "input_from_task": 1},
        ]),
        &Value::Null,
    );
    let steps = completed(&job).await;
    let told: Vec<_> = steps.iter().map(|step| (step.task_number, &*step.command)).collect();
    assert_eq!(told, [(1, "printf"), (2, "sort"), (3, "uniq"), (4, "wc")]);
    assert_eq!(steps[1].stdout, "a\nb\nb\n");
    assert_eq!(steps[2].stdout.split_whitespace().collect::<Vec<_>>(), ["1", "a", "2", "b"]);
    assert_eq!(steps[3].stdout.trim(), "3");
    assert!(steps.iter().all(|step| step.exit_code == 0 && !step.truncated));
}

#[tokio::test]
async fn the_first_failure_ends_the_plan_and_what_was_done_is_told() {
    let job = plan(
        &json!([
            ["echo", "one"],
            ["sh", "-c", "echo out; echo first >&2; echo no such thing >&2; exit 3"],
            ["echo", "never"],
        ]),
        &Value::Null,
    );
    let (outcome, steps) = run(&job).await;
    assert_eq!(outcome, "E.RUNNER.EXIT final: task 2 (sh) exited with 3: no such thing");
    assert_eq!(steps.len(), 2, "{steps:?}");
    assert_eq!((steps[0].stdout.as_str(), steps[0].exit_code), ("one\n", 0));
    assert_eq!((steps[1].stdout.as_str(), steps[1].exit_code), ("out\n", 3));
    assert_eq!(steps[1].stderr, "first\nno such thing\n");
}

#[tokio::test]
async fn signals_missing_programs_and_bad_plans_are_told_apart() {
    check(
        &json!([["sh", "-c", "kill -9 $$"]]),
        "E.RUNNER.EXIT final: task 1 (sh) was killed by signal 9",
        1,
    )
    .await;
    check(
        &json!([["true"], ["no-such-program"]]),
        "E.RUNNER.SPAWN final: task 2 (no-such-program) did not start: no program no-such-program",
        2,
    )
    .await;
    check(
        &json!([{"command": "../x"}]),
        "E.PARAMETERS.INVALID final: tasks[0].command: it leads upwards",
        0,
    )
    .await;
    check(&json!([]), "E.PARAMETERS.INVALID final: tasks: there are 0 tasks", 0).await;
    check(&json!("x"), "E.PARAMETERS.INVALID final: a plan wants {\"plan_id\"", 0).await;
}

#[tokio::test]
async fn a_step_that_takes_too_long_is_ended_with_everything_it_started() {
    let script = "echo $$; sleep 100 & sleep 100";
    let tasks = json!([{"command": "sh", "args": ["-c", script], "timeout_secs": 1}, ["true"]]);
    let (outcome, steps) = run(&plan(&tasks, &Value::Null)).await;
    assert_eq!(outcome, "E.TIMEOUT final: task 1 (sh) took longer than 1 s and was stopped");
    assert_eq!((steps.len(), steps[0].exit_code), (1, -1));
    assert!(steps[0].duration_ms >= 1000);
    check_gone(steps[0].stdout.trim()).await;
}

#[tokio::test]
async fn the_time_of_the_whole_attempt_counts_too() {
    let context = || Context {
        deadline: Some(Instant::now() + Duration::from_millis(300)),
        ..Context::detached()
    };
    let job = plan(&json!([["true"], ["sleep", "100"], ["true"]]), &Value::Null);
    let (outcome, steps) = run_in(&runner(), &job, context()).await;
    assert_eq!(
        outcome,
        "E.TIMEOUT final: task 2 (sleep) was stopped: the whole plan took too long"
    );
    assert_eq!(steps.len(), 2);
    let late = Context { deadline: Some(Instant::now()), ..Context::detached() };
    let (outcome, steps) = run_in(&runner(), &job, late).await;
    assert_eq!(
        outcome,
        "E.TIMEOUT final: task 1 (true) was not begun: the whole plan took too long"
    );
    assert_eq!(steps, []);
}

#[tokio::test]
async fn a_plan_that_is_stopped_leaves_nothing_behind() {
    let (feedback, said) = listening();
    let stop = CancellationToken::new();
    let context = Context { feedback: feedback.clone(), stop: stop.clone(), ..Context::detached() };
    let job =
        plan(&json!([["sh", "-c", "echo $$; sleep 100 & sleep 100"], ["true"]]), &Value::Null);
    let running = tokio::spawn(runner().execute(assignment(&job), context));
    let group = first_output(&feedback, &said).await;
    stop.cancel();
    let outcome =
        tokio::time::timeout(PATIENCE, running).await.expect("bounded").expect("no panic");
    assert_eq!(shown(&outcome), "E.RUNNER.CANCELLED again: task 1 (sh) was stopped");
    check_gone(&group).await;
}

#[tokio::test]
async fn a_plan_that_is_dropped_leaves_nothing_behind() {
    let (feedback, said) = listening();
    let context = Context { feedback: feedback.clone(), ..Context::detached() };
    let job = plan(&json!([["sh", "-c", "echo $$; sleep 100 & sleep 100"]]), &Value::Null);
    let running = tokio::spawn(runner().execute(assignment(&job), context));
    let group = first_output(&feedback, &said).await;
    running.abort();
    assert!(running.await.is_err());
    check_gone(&group).await;
}

#[tokio::test]
async fn steps_and_their_output_are_told_while_they_run() {
    let feedback = FeedbackSink::new(|| {});
    let context = Context { feedback: feedback.clone(), ..Context::detached() };
    let job = plan(&json!([["echo", "one"], ["sh", "-c", "echo two >&2"]]), &Value::Null);
    let outcome = runner().execute(assignment(&job), context).await;
    assert_eq!(shown(&outcome), "completed");
    let batch = feedback.take(Instant::now()).expect("something was said");
    assert_eq!(batch.status.message.as_deref(), Some("2/2 sh"), "the last word counts");
    assert_eq!(batch.status.stage.as_deref(), Some("sh"));
    assert_eq!(batch.status.progress, Some(0.5));
    assert_eq!(batch.chunks.len(), 2, "{:?}", batch.chunks);
}

#[tokio::test]
async fn a_tool_that_is_not_allowed_is_not_started() {
    let tools = Tools::new(Some(BTreeSet::from(["echo".into()])), BTreeSet::new(), own_path());
    let options = command::Options { tools, ..command::Options::default() };
    let runner = PlanRunner::new(CommandRunner::new(options));
    let folder = tempfile::tempdir().expect("folder");
    let fake = folder.path().join("echo");
    std::fs::copy("/bin/sh", &fake).expect("copied");
    for (command, expected) in [
        ("sh", "task 2 (sh) did not start: sh is not among the tools that this worker allows"),
        ("/bin/sh", "did not start: sh is not among the tools that this worker allows"),
        (fake.to_str().expect("text"), "is not the echo that this worker allows"),
    ] {
        let job = plan(&json!([["echo", "hi"], [command, "-c", "echo no"]]), &Value::Null);
        let (outcome, steps) = run_in(&runner, &job, Context::detached()).await;
        assert!(outcome.starts_with("E.RUNNER.NOT_ALLOWED final: task 2"), "{outcome}");
        assert!(outcome.contains(expected), "{outcome}");
        assert_eq!((steps.len(), steps[0].stdout.as_str()), (2, "hi\n"));
    }
    // A path of the task's own leads to another program of an allowed name.
    let mut job = plan(&json!([["echo", "-c", "echo no"]]), &Value::Null);
    job["env"] = json!({"PATH": folder.path()});
    let (outcome, _) = run_in(&runner, &job, Context::detached()).await;
    assert!(outcome.contains("is not the echo that this worker allows"), "{outcome}");
}

#[tokio::test]
async fn variables_reach_every_step_but_nobody_forges_who_it_works_for() {
    let mut job = plan(&json!([["true"], ["env"]]), &Value::Null);
    job["env"] = json!({"A": "b", "ASTRA_LEASE_ID": "forged"});
    let steps = completed(&job).await;
    let seen = &steps[1].stdout;
    assert!(seen.contains("A=b\n") && seen.contains("ASTRA_LEASE_ID=t-2\n"), "{seen}");
}

#[tokio::test]
async fn long_output_is_cut_and_said_so() {
    let mut runner = runner();
    runner.output_bytes_max = 1000;
    let tasks = json!([["seq", "100000"], ["echo", "short"], ["printf", "\\377ok"]]);
    let (_, steps) = run_in(&runner, &plan(&tasks, &Value::Null), Context::detached()).await;
    assert!(steps[0].truncated && steps[0].stdout.len() < 1100);
    assert!(steps[0].stdout.starts_with("1\n2\n") && steps[0].stdout.ends_with("\n100000\n"));
    assert!(!steps[1].truncated && steps[1].stdout == "short\n");
    assert_eq!(steps[2].stdout, "\u{FFFD}ok");
}

#[tokio::test]
async fn a_result_fits_however_many_steps_talk() {
    let options = command::Options { result_bytes_max: 20_000, ..command::Options::default() };
    let runner = PlanRunner::new(CommandRunner::new(options));
    let talk = ["sh", "-c", "head -c 30000 /dev/zero; printf end"];
    let tasks = json!([talk, talk, ["echo", "short"], talk, talk]);
    let outcome =
        runner.execute(assignment(&plan(&tasks, &Value::Null)), Context::detached()).await;
    let Outcome::Completed { result, .. } = outcome else { panic!("{outcome:?}") };
    assert!(result.get().len() <= 20_000, "{}", result.get().len());
    let result: PlanResult = serde_json::from_str(result.get()).expect("a result");
    let told = &result.task_results;
    assert_eq!(told.len(), 5);
    assert!(told[0].truncated && told[0].stdout.ends_with("end"));
    assert!(!told[2].truncated && told[2].stdout == "short\n", "short output stays whole");
}

/// Steps: a list is a program with its arguments, an object a step without its number.
fn plan(tasks: &Value, input: &Value) -> Value {
    let Value::Array(tasks) = tasks else { return json!({"plan_id": "p", "tasks": tasks}) };
    let numbered = (1..).zip(tasks).map(|(number, task)| match task {
        Value::Array(argv) => {
            json!({"task_number": number, "command": argv[0], "args": argv[1..]})
        }
        other => {
            let mut task = other.clone();
            task["task_number"] = json!(number);
            task
        }
    });
    let tasks: Vec<_> = numbered.collect();
    json!({"plan_id": "p", "tasks": tasks, "input": input})
}

async fn completed(job: &Value) -> Vec<TaskResult> {
    let (outcome, steps) = run(job).await;
    assert_eq!(outcome, "completed");
    steps
}

async fn check(tasks: &Value, expected: &str, n_told: usize) {
    let (outcome, steps) = run(&plan(tasks, &Value::Null)).await;
    assert!(outcome.starts_with(expected), "{outcome}");
    assert_eq!(steps.len(), n_told, "{steps:?}");
    assert!(steps.last().is_none_or(|step| step.exit_code != 0), "{steps:?}");
}

#[tokio::test]
async fn a_failure_is_worth_another_try_as_often_as_the_job_says() {
    // The attempt is the second one.
    for (max_retries, expected) in [(0, "final"), (1, "final"), (2, "again")] {
        let mut job = plan(&json!([["false"]]), &Value::Null);
        job["max_retries"] = max_retries.into();
        let (outcome, _) = run(&job).await;
        assert_eq!(outcome, format!("E.RUNNER.EXIT {expected}: task 1 (false) exited with 1"));
    }
}

fn listening() -> (FeedbackSink, Arc<Notify>) {
    let said = Arc::new(Notify::new());
    let wake = Arc::clone(&said);
    (FeedbackSink::new(move || wake.notify_one()), said)
}

/// The first line that a program puts out.
async fn first_output(feedback: &FeedbackSink, said: &Notify) -> String {
    let output = async {
        loop {
            let batch = feedback.take(Instant::now()).unwrap_or_default();
            if let Some(text) = batch.chunks.into_iter().find_map(|chunk| chunk.text) {
                return text.trim().to_owned();
            }
            said.notified().await;
        }
    };
    tokio::time::timeout(PATIENCE, output).await.expect("it says its number")
}

async fn run(job: &Value) -> (String, Vec<TaskResult>) {
    run_in(&runner(), job, Context::detached()).await
}

async fn run_in(runner: &PlanRunner, job: &Value, context: Context) -> (String, Vec<TaskResult>) {
    let work = runner.execute(assignment(job), context);
    let outcome = tokio::time::timeout(PATIENCE, work).await.expect("bounded");
    let told = match &outcome {
        Outcome::Completed { result, .. } => Some(result.clone()),
        Outcome::Failed { details, .. } => details.clone(),
    };
    let steps = told.map(|json| serde_json::from_str::<PlanResult>(json.get()).expect("a result"));
    (shown(&outcome), steps.unwrap_or_default().task_results)
}

fn runner() -> PlanRunner {
    let grace = Duration::from_millis(300);
    PlanRunner::new(CommandRunner::new(command::Options { grace, ..command::Options::default() }))
}

fn shown(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Completed { .. } => "completed".into(),
        Outcome::Failed { code, reason, retryable, .. } => {
            format!("{code} {}: {reason}", if *retryable { "again" } else { "final" })
        }
    }
}

fn assignment(job: &Value) -> Assignment {
    Assignment {
        lease_id: "t-2".into(),
        task_id: "t".into(),
        attempt: 2,
        task_type: PLAN.into(),
        parameters: to_raw_value(job).expect("JSON"),
    }
}

/// Processes vanish a moment after they were killed.
async fn check_gone(group: &str) {
    assert!(!group.is_empty());
    let gone = async || {
        let listed = std::process::Command::new("ps").args(["-eo", "pgid=,stat="]).output();
        let listed = String::from_utf8(listed.expect("runs").stdout).expect("text");
        let remains = listed.lines().any(|line| {
            let mut words = line.split_whitespace();
            words.next() == Some(group) && words.next().is_some_and(|stat| !stat.starts_with('Z'))
        });
        if remains { Err(listed) } else { Ok(()) }
    };
    wait_until("the end of a process group", Duration::from_secs(5), gone).await;
}
