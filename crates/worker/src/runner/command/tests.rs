use std::collections::BTreeMap;
use std::time::Instant;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use protocol::session::payload::exec::Channel;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::core::feedback::{FeedbackSink, GATHERED_BYTES_MAX};
use crate::runner::supervise::LINGER;

mod groups;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_program_that_exits_with_0_is_completed() {
    let (outcome, result) = run(&json!({"argv": ["echo", "hi"]})).await;
    assert_eq!(outcome, "completed");
    assert_eq!((&result["exit_code"], &result["stdout"]), (&json!(0), &json!("hi\n")));
    assert_eq!((&result["stderr"], &result["truncated"]), (&json!(""), &json!(false)));
    assert!(result["duration_ms"].is_u64() && result.get("signal").is_none());
}

#[tokio::test]
async fn codes_and_signals_are_failures_that_may_pass() {
    let cases = [
        ("exit 3", "E.RUNNER.EXIT again: the program exited with code 3", json!({"exit_code": 3})),
        (
            "echo one >&2; printf 'no\\tsuch thing\\n\\n' >&2; exit 1",
            "E.RUNNER.EXIT again: the program exited with code 1: no such thing",
            json!({"exit_code": 1}),
        ),
        (
            "kill -9 $$",
            "E.RUNNER.EXIT again: the program was killed by signal 9",
            json!({"signal": 9}),
        ),
    ];
    for (script, expected, end) in cases {
        let (outcome, result) = run(&json!({"argv": ["sh", "-c", script]})).await;
        assert_eq!(outcome, expected);
        for (key, value) in end.as_object().expect("object") {
            assert_eq!(&result[key], value, "{script}");
        }
    }
}

#[tokio::test]
async fn what_cannot_start_is_final() {
    check_start(&json!({"argv": ["no-such-program"]}), "E.RUNNER.SPAWN final: no program no-such")
        .await;
    check_start(
        &json!({"argv": ["/etc/passwd"]}),
        "E.RUNNER.SPAWN final: /etc/passwd is not executable",
    )
    .await;
    check_start(
        &json!({"argv": ["ls"], "cwd": "/no/such/folder"}),
        "E.RUNNER.SPAWN final: the working folder /no/such/folder does not exist",
    )
    .await;
    check_start(&json!({"argv": ["echo", "a\0b"]}), "E.PARAMETERS.INVALID final: argv[1]").await;
    let mut argv = vec!["x".repeat(65_536); 256];
    argv[0] = "echo".into();
    check_start(&json!({ "argv": argv }), "E.RUNNER.SPAWN final: echo did not start").await;
}

/// What a shell would act upon is text.
#[tokio::test]
async fn arguments_are_passed_literally() {
    let odd = ["; rm -rf x", "$(id)", "`id`", "a\nb", "-o", "*", "", "'\"\\", "$HOME", "|&><"];
    let argv: Vec<&str> = ["printf", "[%s]"].into_iter().chain(odd).collect();
    let (_, result) = run(&json!({"argv": argv})).await;
    let expected = format!("[{}]", odd.join("]["));
    assert_eq!(result["stdout"], expected);
}

#[tokio::test]
async fn a_script_without_an_interpreter_is_not_given_to_a_shell() {
    let folder = std::env::temp_dir().join(format!("astra-{}", uuid::Uuid::new_v4()));
    std::fs::create_dir(&folder).expect("created");
    let script = folder.join("script");
    std::fs::write(&script, "echo from a shell\n").expect("written");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, executable).expect("set");
    check_start(
        &json!({"argv": ["./script"], "cwd": folder}),
        "E.RUNNER.SPAWN final: ./script did",
    )
    .await;
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[tokio::test]
async fn a_program_knows_only_what_it_is_told() {
    let own = [
        ("PATH", std::env::var("PATH").expect("set")),
        ("HOME", "/h".into()),
        ("ASTRA_TOKEN", "secret".into()),
        ("ASTRA_LEASE_ID", "another".into()),
        ("DATABASE_URL", "secret".into()),
    ];
    let environment = own.map(|(name, value)| (name.into(), value.into())).into();
    let runner = CommandRunner::new(Options { environment, ..Options::default() });
    let told = json!({"argv": ["env"], "env": {"A": "b", "ASTRA_TASK_ID": "forged"}});
    let names = "A ASTRA_ATTEMPT ASTRA_LEASE_ID ASTRA_TASK_ID HOME PATH";
    let seen = environment_seen(&runner, &told).await;
    assert_eq!(seen.keys().map(String::as_str).collect::<Vec<_>>().join(" "), names);
    assert_eq!((&*seen["A"], &*seen["HOME"], &*seen["ASTRA_TASK_ID"]), ("b", "/h", "t"));
    assert_eq!((&*seen["ASTRA_ATTEMPT"], &*seen["ASTRA_LEASE_ID"]), ("2", "t-2"));
    let cleared = environment_seen(&runner, &json!({"argv": ["env"], "env_clear": true})).await;
    assert_eq!(
        cleared.into_keys().collect::<Vec<_>>(),
        ["ASTRA_ATTEMPT", "ASTRA_LEASE_ID", "ASTRA_TASK_ID"]
    );
}

#[tokio::test]
async fn a_tool_that_is_not_allowed_is_not_started() {
    let tools = Tools::new(None, ["sh".to_owned()].into(), std::env::var_os("PATH").expect("set"));
    let options = || Options { tools: tools.clone(), ..Options::default() };
    for argv in [["sh", "-c", ":"], ["/bin/sh", "-c", ":"]] {
        let (outcome, result) = start_with(options(), &json!({ "argv": argv })).end().await;
        assert_eq!(outcome, "E.RUNNER.NOT_ALLOWED final: this worker does not allow sh");
        assert_eq!(result, Value::Null);
    }
    let (outcome, _) = start_with(options(), &json!({"argv": ["echo"]})).end().await;
    assert_eq!(outcome, "completed");
}

#[tokio::test]
async fn a_program_runs_where_it_is_told_to() {
    let (_, result) = run(&json!({"argv": ["pwd"], "cwd": "/"})).await;
    assert_eq!(result["stdout"], "/\n");
}

#[tokio::test]
async fn the_first_bytes_arrive_while_the_program_runs() {
    let mut running = start(&json!({"argv": ["sh", "-c", "echo first; exec sleep 100"]}));
    let began = Instant::now();
    let chunk = running.next_chunk().await;
    assert_eq!(
        (chunk.channel, chunk.offset, &chunk.bytes[..]),
        (Channel::Stdout, 0, &b"first\n"[..])
    );
    // What the runner adds is far below this; the rest is the start of a shell on a busy machine.
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    running.stop.cancel();
    assert_eq!(running.end().await.0, "E.RUNNER.CANCELLED again: the program was stopped");
}

#[tokio::test]
async fn bytes_are_passed_on_within_the_promised_delay() {
    let script = "read line; echo got; exec sleep 100";
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let mut running = start(&json!({"argv": ["sh", "-c", script], "stdin": "go\n"}));
        let began = Instant::now();
        running.next_chunk().await;
        best = best.min(began.elapsed());
        running.task.abort();
        if best <= Duration::from_millis(50) {
            return;
        }
    }
    panic!("the first output took {best:?}");
}

#[tokio::test]
async fn the_channels_keep_their_order() {
    // The pause makes the order of two pipes known; the last two words share a batch.
    let script = "echo 1; sleep 0.05; echo 2 >&2; sleep 0.05; echo 3; sleep 0.05; echo 4 >&2";
    let mut running = start(&json!({"argv": ["sh", "-c", script]}));
    let mut seen = Vec::new();
    while let Some(batch) = running.next_batch().await {
        seen.extend(batch.iter().map(|chunk| {
            let text = String::from_utf8_lossy(&chunk.bytes).trim().to_owned();
            format!("{:?} {} {text}", chunk.channel, chunk.offset)
        }));
    }
    assert_eq!(seen, ["Stdout 0 1", "Stderr 2 2", "Stdout 4 3", "Stderr 6 4"]);
}

#[tokio::test]
async fn a_chatty_program_does_not_cost_a_frame_for_each_line() {
    let mut running = start(&json!({"argv": ["seq", "1", "20000"]}));
    let (mut n_batches, mut said) = (0, Vec::new());
    while let Some(batch) = running.next_batch().await {
        n_batches += 1;
        for chunk in batch {
            assert_eq!(chunk.offset, said.len() as u64);
            said.extend_from_slice(&chunk.bytes);
        }
    }
    assert!(n_batches < 200, "{n_batches} batches for 20000 lines");
    assert!(said.starts_with(b"1\n2\n") && said.ends_with(b"\n20000\n"));
}

#[tokio::test]
async fn bytes_are_kept_as_they_are() {
    let script = r"printf '10%%\r20%%\r\377\000\200\n'";
    let mut running = start(&json!({"argv": ["sh", "-c", script]}));
    let said = running.everything().await;
    assert_eq!(said, b"10%\r20%\r\xFF\x00\x80\n");
    let (_, result) = running.end().await;
    assert_eq!(result["stdout"], "10%\r20%\r\u{FFFD}\0\u{FFFD}\n");
}

#[tokio::test]
async fn ten_mebibytes_pass_through_in_both_directions() {
    let given: String =
        (0..10 * 1024 * 1024_u32).map(|n| char::from(b'a' + (n % 251 % 26) as u8)).collect();
    let mut running = start(&json!({"argv": ["cat"], "stdin": given}));
    let said = running.everything().await;
    assert!(said == given.as_bytes(), "{} bytes came back of {}", said.len(), given.len());
    let (outcome, result) = running.end().await;
    assert_eq!((outcome.as_str(), &result["truncated"]), ("completed", &json!(true)));
    assert!(result["stdout_dropped_bytes"].as_u64() >= Some(9 * 1024 * 1024));
}

#[tokio::test]
async fn a_program_need_not_read_what_it_is_told() {
    let given = "x".repeat(1024 * 1024);
    let (outcome, _) = run(&json!({"argv": ["true"], "stdin": given})).await;
    assert_eq!(outcome, "completed");
    let (_, result) = run(&json!({"argv": ["head", "-c", "3"], "stdin": given})).await;
    assert_eq!(result["stdout"], "xxx");
    let (_, result) = run(&json!({"argv": ["cat"], "stdin": ""})).await;
    assert_eq!(result["stdout"], "");
    let (outcome, _) = run(&json!({"argv": ["cat"]})).await;
    assert_eq!(outcome, "completed", "without stdin there is nothing to wait for");
}

#[tokio::test]
async fn endless_output_is_bounded_and_stopped() {
    let parameters = json!({"argv": ["yes"], "timeout_ms": 300, "output_max_bytes": 1000});
    let (outcome, result) = run(&parameters).await;
    assert!(outcome.starts_with("E.TIMEOUT again: the program took too long"), "{outcome}");
    let stdout = result["stdout"].as_str().expect("text");
    assert!(stdout.len() < 1100 && stdout.starts_with("y\ny\n") && stdout.ends_with("y\n"));
    assert!(stdout.contains(" bytes dropped ...]"), "{stdout}");
    assert!(result["stdout_dropped_bytes"].as_u64() > Some(1024 * 1024), "much more was said");
}

#[tokio::test]
async fn a_listener_that_takes_nothing_makes_the_program_wait_but_not_the_clock() {
    let options = Options { sink_patience: Duration::from_millis(1), ..Options::default() };
    let running = start_with(options, &json!({"argv": ["yes"], "timeout_ms": 100}));
    // The listener is there and takes nothing; what waits for it fits, and no more.
    let mut running = running;
    let finished = tokio::time::timeout(PATIENCE, &mut running.task).await;
    let finished = finished.expect("bounded").expect("no panic");
    assert!(shown(&finished.outcome).starts_with("E.TIMEOUT"));
    assert!(running.everything().await.len() <= GATHERED_BYTES_MAX);
}

#[tokio::test]
async fn a_listener_that_is_slow_gets_every_byte() {
    // The one has long ended when the listener begins to take; the other is still held up.
    let counts = [30_000_usize, 400_000];
    let script = |n: usize| format!("seq {n} 2>&1; echo end >&2");
    let mut runs = counts.map(|n| start(&json!({"argv": ["sh", "-c", script(n)]})));
    let held_up = tokio::time::timeout(3 * LINGER, &mut runs[1].task).await;
    assert!(held_up.is_err(), "it waits for its listener");
    for (n, mut running) in counts.into_iter().zip(runs) {
        let said = running.everything().await;
        let expected: usize = (1..=n).map(|n| n.to_string().len() + 1).sum();
        assert_eq!(said.len(), expected + "end\n".len());
        assert_eq!(running.end().await.0, "completed");
    }
}

#[tokio::test]
async fn a_listener_that_hangs_up_changes_nothing() {
    let running = start(&json!({"argv": ["seq", "1", "100000"]}));
    running.feedback.close();
    let (outcome, result) = running.end().await;
    assert_eq!(outcome, "completed");
    assert!(result["stdout"].as_str().is_some_and(|text| text.ends_with("100000\n")));
}

#[tokio::test]
async fn a_result_that_would_be_too_large_is_shortened() {
    let options = Options { result_bytes_max: 2000, ..Options::default() };
    let parameters = json!({"argv": ["sh", "-c", r"head -c 5000 /dev/zero; printf end"]});
    let finished =
        CommandRunner::new(options).run(&assignment(&parameters), &Context::detached()).await;
    let result = finished.result.expect("it ran");
    assert!(result.get().len() <= 2000, "{}", result.get().len());
    let result: Value = serde_json::from_str(result.get()).expect("JSON");
    assert!(result["stdout"].as_str().is_some_and(|text| text.ends_with("end")));
    assert_eq!(result["truncated"], true);
}

/// A piece of what a program said.
struct Chunk {
    channel: Channel,
    offset: u64,
    bytes: Vec<u8>,
}

struct Running {
    feedback: FeedbackSink,
    said: Arc<Notify>,
    stop: CancellationToken,
    /// The program and what it said are over.
    ended: CancellationToken,
    task: JoinHandle<Finished>,
}

impl Running {
    /// What a session would take next, when it would take it.
    async fn next_batch(&mut self) -> Option<Vec<Chunk>> {
        loop {
            let now = tokio::time::Instant::now();
            match self.feedback.due_at(now) {
                Some(due) if due <= now => {
                    let batch = self.feedback.take(now).expect("something is due");
                    return Some(batch.chunks.into_iter().map(chunk).collect());
                }
                Some(due) => sleep_until(due).await,
                None if self.ended.is_cancelled() => return None,
                None => tokio::select! {
                    () = self.said.notified() => {}
                    () = self.ended.cancelled() => {}
                },
            }
        }
    }

    async fn next_chunk(&mut self) -> Chunk {
        let batch = tokio::time::timeout(PATIENCE, self.next_batch()).await.expect("bounded");
        batch.and_then(|batch| batch.into_iter().next()).expect("something is said")
    }

    async fn everything(&mut self) -> Vec<u8> {
        let mut said = Vec::new();
        while let Some(batch) = self.next_batch().await {
            for chunk in batch {
                said.extend_from_slice(&chunk.bytes);
            }
        }
        said
    }

    async fn end(mut self) -> (String, Value) {
        self.everything().await;
        let finished = tokio::time::timeout(PATIENCE, self.task).await.expect("bounded");
        told(finished.expect("no panic"))
    }
}

fn chunk(chunk: protocol::session::payload::exec::Chunk) -> Chunk {
    let bytes = match (chunk.text, chunk.data_base64) {
        (Some(text), _) => text.into_bytes(),
        (None, data) => BASE64_STANDARD.decode(data.expect("either")).expect("base64"),
    };
    let metadata = chunk.metadata.expect("told").into_raw();
    let metadata: Value = serde_json::from_str(metadata.get()).expect("JSON");
    Chunk { channel: chunk.channel, offset: metadata["offset"].as_u64().expect("told"), bytes }
}

fn start(parameters: &Value) -> Running {
    start_with(Options { grace: Duration::from_millis(300), ..Options::default() }, parameters)
}

fn start_with(options: Options, parameters: &Value) -> Running {
    let said = Arc::new(Notify::new());
    let wake = Arc::clone(&said);
    let feedback = FeedbackSink::new(move || wake.notify_one());
    let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
    let context = Context { feedback: feedback.clone(), stop: stop.clone(), ..Context::detached() };
    let (assignment, guard) = (assignment(parameters), ended.clone().drop_guard());
    let task = tokio::spawn(async move {
        let finished = CommandRunner::new(options).run(&assignment, &context).await;
        context.feedback.finish();
        drop(guard);
        finished
    });
    Running { feedback, said, stop, ended, task }
}

async fn run(parameters: &Value) -> (String, Value) {
    start(parameters).end().await
}

async fn check_start(parameters: &Value, expected: &str) {
    let (outcome, result) = run(parameters).await;
    assert!(outcome.starts_with(expected), "{outcome}");
    assert_eq!(result, Value::Null);
}

async fn environment_seen(runner: &CommandRunner, parameters: &Value) -> BTreeMap<String, String> {
    let finished = runner.run(&assignment(parameters), &Context::detached()).await;
    let (_, result) = told(finished);
    let lines = result["stdout"].as_str().expect("text").lines();
    lines
        .map(|line| line.split_once('=').expect("a pair"))
        .map(|(k, v)| (k.into(), v.into()))
        .collect()
}

fn told(finished: Finished) -> (String, Value) {
    let result = finished.result.map(|result| serde_json::from_str(result.get()).expect("JSON"));
    (shown(&finished.outcome), result.unwrap_or(Value::Null))
}

fn shown(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Completed { .. } => "completed".into(),
        Outcome::Failed { code, reason, retryable, .. } => {
            format!("{code} {}: {reason}", if *retryable { "again" } else { "final" })
        }
    }
}

fn assignment(parameters: &Value) -> Assignment {
    Assignment {
        lease_id: "t-2".into(),
        task_id: "t".into(),
        attempt: 2,
        task_type: COMMAND.into(),
        parameters: to_raw_value(parameters).expect("JSON"),
    }
}
