//! Dispatches, and what comes of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use protocol::rest::leases::VerdictWord;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::server::{Scene, Seen, Sent};
use crate::core::executor::{Assignment, Context, Executor, Outcome, Work};
use crate::core::verdict::Judgement;
use crate::runner::supervise::LINGER;
use crate::waiting::wait_until;

const MOMENT: Duration = Duration::from_millis(150);

#[tokio::test]
async fn a_dispatch_is_executed_and_reported_under_its_lease() {
    let mut scene = Scene::start().await;
    scene.dispatch("l-1", "core.echo", &json!({ "a": 1 }));
    let result = scene.answer().await;
    assert_eq!((result.kind.as_str(), result.corr.as_str()), ("biz.exec.result", "l-1"));
    assert_eq!(result.seq, Some(0), "the counter of the dispatch is echoed");
    assert_eq!(result.payload["task_id"], "task-of-l-1");
    assert_eq!(result.payload["run_id"], "r");
    assert_eq!(result.payload["status"], "SUCCEEDED");
    assert_eq!(result.payload["result"], json!({ "a": 1 }));
    scene.dispatch("l-2", "core.noop", &json!({}));
    assert_eq!(scene.answer().await.payload["result"], json!({}), "nothing becomes an object");
}

#[tokio::test]
async fn a_program_is_executed_and_its_failure_is_told() {
    let mut scene = Scene::start().await;
    scene.dispatch(
        "l-1",
        "command",
        &json!({ "argv": ["sh", "-c", "echo hi; echo $ASTRA_LEASE_ID"] }),
    );
    let result = scene.answer().await;
    assert_eq!(result.payload["result"]["stdout"], "hi\nl-1\n");
    scene.dispatch("l-2", "command", &json!({ "argv": ["sh", "-c", "echo no >&2; exit 3"] }));
    let result = scene.answer().await;
    assert_eq!(result.payload["status"], "FAILED");
    assert_eq!(result.payload["error"]["code"], "E.RUNNER.EXIT");
    assert_eq!(result.payload["error"]["message"], "the program exited with code 3: no");
    assert_eq!(result.payload["metadata"]["retryable"], true);
    scene.dispatch("l-3", "command", &json!({ "argv": [] }));
    let result = scene.answer().await;
    assert_eq!(result.payload["error"]["code"], "E.PARAMETERS.INVALID");
    assert_eq!(result.payload["metadata"]["retryable"], false);
    scene.dispatch("l-4", "core.fail", &json!({ "details": { "steps": [1] } }));
    let result = scene.answer().await;
    assert_eq!(result.payload["result"], json!({ "steps": [1] }), "what it leaves behind");
}

#[tokio::test]
async fn a_worker_says_what_it_can_do() {
    let executor = Arc::new(crate::builtin::Builtin);
    let mut scene = Scene::unconnected(executor, |options| {
        options.offer.tools = vec!["ffmpeg".into()];
        options.offer.tags = BTreeMap::from([("zone".into(), "a".into())]);
    })
    .await;
    let Seen::Register(register) = scene.next().await else { panic!("it registers first") };
    let features = register["capabilities"]["features"].to_string();
    for feature in ["type:core.noop", "tool:ffmpeg", "tag:zone=a"] {
        assert!(features.contains(feature), "{features}");
    }
    assert_eq!(register["capabilities"]["concurrency"]["max_parallel"], 8);
}

#[tokio::test]
async fn a_heartbeat_names_the_leases_that_are_held() {
    let mut scene =
        Scene::start_with(|options| options.heartbeat_every = Duration::from_millis(100)).await;
    scene.dispatch("l-1", "core.sleep", &json!({ "seconds": 60 }));
    let heartbeat = loop {
        let heartbeat = scene.heartbeat().await;
        if heartbeat["metrics"]["inflight"] == 1 {
            break heartbeat;
        }
    };
    assert_eq!(heartbeat["healthy"], true);
    let metrics = &heartbeat["metrics"];
    assert_eq!(metrics["leases"], json!(["l-1"]));
    assert_eq!((&metrics["draining"], &metrics["pending_acks"]), (&json!(false), &json!(0)));
    for share in ["mem_pct", "disk_pct"] {
        assert!(metrics[share].as_f64().is_some_and(|share| share > 0.0), "{heartbeat}");
    }
}

#[tokio::test]
async fn a_dispatch_that_came_before_is_not_run_twice() {
    let executor = Arc::new(Counting::default());
    let mut scene = Scene::unconnected(executor.clone(), |_| {}).await;
    scene.until_session().await;
    scene.dispatch("l-1", "count", &json!({ "ms": 100 }));
    scene.dispatch("l-1", "count", &json!({ "ms": 100 }));
    assert_eq!(scene.answer().await.corr, "l-1");
    scene.dispatch("l-1", "count", &json!({ "ms": 0 }));
    scene.dispatch("l-2", "count", &json!({ "ms": 0 }));
    let last = scene.answer().await;
    assert_eq!((last.corr.as_str(), last.payload["result"]["n"].as_u64()), ("l-2", Some(2)));
}

#[tokio::test]
async fn limits_are_a_guard() {
    let mut scene = Scene::start_with(|options| {
        options.offer.slots = 3;
        options.offer.per_type_limits = BTreeMap::from([("core.sleep".into(), 1)]);
    })
    .await;
    let minute = json!({ "seconds": 60 });
    scene.dispatch_more("l-1", "core.sleep", &minute, &json!({ "concurrency_key": "k" }));
    scene.dispatch("l-2", "core.sleep", &minute);
    check_error(&scene.answer().await, "l-2", "E.CMD.CONCURRENCY_VIOLATION");
    scene.dispatch_more("l-3", "core.noop", &json!({}), &json!({ "concurrency_key": "k" }));
    check_error(&scene.answer().await, "l-3", "E.CMD.CONCURRENCY_VIOLATION");
    let sleep = json!({ "argv": ["sleep", "60"] });
    scene.dispatch("l-4", "command", &sleep);
    scene.dispatch("l-5", "command", &sleep);
    scene.dispatch("l-6", "core.noop", &json!({}));
    check_error(&scene.answer().await, "l-6", "E.CMD.CONCURRENCY_VIOLATION");
    scene.dispatch("l-7", "no.such.type", &json!({}));
    check_error(&scene.answer().await, "l-7", "E.CMD.UNKNOWN");
}

#[tokio::test]
async fn a_dispatch_that_cannot_be_read_is_refused() {
    let mut scene = Scene::start().await;
    scene.send("biz.exec.dispatch", "l-1", &json!({ "task_id": "t" }));
    check_error(&scene.answer().await, "l-1", "E.REQUEST.INVALID");
}

#[tokio::test]
async fn a_task_that_takes_too_long_fails() {
    let mut scene = Scene::start().await;
    let hurry = json!({ "constraints": { "timeout_ms": 100 } });
    scene.dispatch_more("l-1", "core.sleep", &json!({ "seconds": 60 }), &hurry);
    let result = scene.answer().await;
    assert_eq!(result.payload["error"]["code"], "E.TIMEOUT");
    assert!(result.payload["duration_ms"].as_u64().is_some_and(|ms| (100..2000).contains(&ms)));
    let argv = json!({ "argv": ["sh", "-c", "echo begun; sleep 60"] });
    scene.dispatch_more("l-2", "command", &argv, &hurry);
    let said = scene.frame().await;
    assert_eq!(said.payload["chunks"][0]["text"], "begun\n");
    let result = scene.answer().await;
    assert_eq!(result.payload["error"]["code"], "E.TIMEOUT");
}

#[tokio::test]
async fn a_cancelled_program_dies_with_all_that_it_started_and_nothing_is_reported() {
    let (judged, mut judgements) = mpsc::unbounded_channel();
    let mut scene = Scene::start_with(|options| {
        options.listener =
            Arc::new(move |judgement| judged.send(judgement.clone()).expect("heard"));
    })
    .await;
    // A grandchild that ignores the polite signal.
    let script = "sh -c \"trap '' TERM; echo $$; while :; do sleep 0.05; done\" & wait";
    scene.dispatch("l-1", "command", &json!({ "argv": ["sh", "-c", script] }));
    let pid = scene.frame().await.payload["chunks"][0]["text"].as_str().expect("text").to_owned();
    let process = format!("/proc/{}", pid.trim());
    assert!(std::path::Path::new(&process).exists());
    scene.cancel("l-1");
    assert_eq!(judgements.recv().await.expect("told").verdict, VerdictWord::Cancelled);
    let gone = async || {
        if std::path::Path::new(&process).exists() { Err(&process) } else { Ok(()) }
    };
    wait_until("the end of the grandchild", 4 * LINGER, gone).await;
    scene.check_silence(2 * MOMENT).await;
    scene.dispatch("l-1", "core.noop", &json!({}));
    scene.check_silence(MOMENT).await;
}

#[tokio::test]
async fn a_verdict_that_takes_the_lease_stops_the_work() {
    let executor = Arc::new(Counting::default());
    let mut scene = Scene::unconnected(executor.clone(), |_| {}).await;
    scene.until_session().await;
    scene.dispatch("l-1", "count", &json!({ "ms": 60_000 }));
    let verdict = json!({ "lease_id": "l-1", "verdict": "CANCELLED", "reason": "expired" });
    scene.send("biz.exec.verdict", "v-1", &verdict);
    executor.stopped.notified().await;
    scene.check_silence(MOMENT).await;
}

#[tokio::test]
async fn a_verdict_about_a_report_is_told_once() {
    let (judged, mut judgements) = mpsc::unbounded_channel();
    let mut scene = Scene::start_with(|options| {
        options.listener =
            Arc::new(move |judgement| judged.send(judgement.clone()).expect("heard"));
    })
    .await;
    scene.dispatch("l-1", "core.noop", &json!({}));
    scene.answer().await;
    let verdict = json!({ "lease_id": "l-1", "verdict": "COMMITTED" });
    scene.send("biz.exec.verdict", "v-1", &verdict);
    scene.send("biz.exec.verdict", "v-2", &verdict);
    assert_eq!(judgements.recv().await.expect("told").lease_id, "l-1");
    scene.worker.handle.drain(Duration::from_secs(5)).await;
    let summary = scene.worker.handle.ended().await.expect("leaves");
    assert_eq!((summary.committed, summary.unheard), (1, 0));
    assert!(judgements.try_recv().is_err(), "told once");
    assert!(scene.worker.metrics().text().contains("results_total{verdict=\"COMMITTED\"} 1"));
}

#[tokio::test]
async fn a_report_that_counts_is_the_last_word() {
    let (mut scene, mut judgements) = judged(Duration::from_millis(100)).await;
    scene.dispatch("l-1", "core.noop", &json!({}));
    assert_eq!(scene.answer().await.corr, "l-1");
    let verdict = json!({ "lease_id": "l-1", "verdict": "COMMITTED" });
    scene.send("biz.exec.verdict", "v-1", &verdict);
    assert_eq!(judgements.recv().await.expect("told").verdict, VerdictWord::Committed);
    // Neither a second report nor a lease that is kept alive; and the same lease starts nothing.
    scene.dispatch("l-1", "core.noop", &json!({}));
    scene.check_silence(MOMENT).await;
    assert_eq!(scene.heartbeat().await["metrics"]["leases"], json!([]));
}

#[tokio::test]
async fn a_refused_report_is_surfaced_and_not_repeated() {
    let (mut scene, mut judgements) = judged(Duration::from_secs(10)).await;
    scene.dispatch("l-1", "core.noop", &json!({}));
    assert_eq!(scene.answer().await.corr, "l-1");
    let verdict = json!({ "lease_id": "l-1", "verdict": "REJECTED", "reason": "not_holder" });
    scene.send("biz.exec.verdict", "v-1", &verdict);
    let judgement = judgements.recv().await.expect("told");
    assert_eq!(judgement.verdict, VerdictWord::Rejected);
    assert_eq!(judgement.reason.as_deref(), Some("not_holder"));
    scene.check_silence(MOMENT).await;
    scene.worker.handle.drain(Duration::from_secs(5)).await;
    let summary = scene.worker.handle.ended().await.expect("leaves");
    assert_eq!((summary.rejected, summary.committed), (1, 0));
}

#[tokio::test]
async fn a_result_that_no_frame_can_carry_is_a_failure_that_says_so() {
    let executor = Arc::new(Large);
    let mut scene = Scene::unconnected(executor, |_| {}).await;
    scene.until_session().await;
    scene.dispatch("l-1", "large", &json!({ "bytes": 1_000_000 }));
    assert_eq!(scene.answer().await.payload["status"], "SUCCEEDED");
    scene.dispatch("l-2", "large", &json!({ "bytes": 1 << 20 }));
    let result = scene.answer().await;
    assert_eq!(result.payload["error"]["code"], "E.RESULT.TOO_LARGE");
    assert_eq!(result.payload["metadata"]["retryable"], false);
    scene.dispatch("l-3", "large", &json!({ "bytes": 1 << 20, "fails": true }));
    let result = scene.answer().await;
    assert_eq!(result.payload["error"]["code"], "E.LARGE", "that it failed counts more");
    assert_eq!(result.payload["result"], json!({}));
}

#[tokio::test]
async fn a_panic_is_one_failed_attempt() {
    let mut scene = Scene::unconnected(Arc::new(Large), |_| {}).await;
    scene.until_session().await;
    scene.dispatch("l-1", "large", &json!({ "bytes": "many" }));
    assert_eq!(scene.answer().await.payload["error"]["code"], "E.RUNNER.PANIC");
    scene.dispatch("l-2", "large", &json!({ "bytes": 1 }));
    assert_eq!(scene.answer().await.payload["status"], "SUCCEEDED");
}

#[tokio::test]
async fn a_server_that_refuses_the_credential_ends_the_worker() {
    let executor = Arc::new(crate::builtin::Builtin);
    let mut scene = Scene::unconnected(executor, |options| {
        options.credential = crate::transport::ws::worker::Credential::Token("wrong".into());
    })
    .await;
    let error = scene.worker.handle.ended().await.expect_err("refused").to_string();
    assert!(error.contains("E.AUTH.INVALID_TOKEN") && error.contains("who is that?"), "{error}");
}

/// A worker whose verdicts are told to the test.
async fn judged(heartbeat_every: Duration) -> (Scene, mpsc::UnboundedReceiver<Judgement>) {
    let (judged, judgements) = mpsc::unbounded_channel();
    let scene = Scene::start_with(|options| {
        options.heartbeat_every = heartbeat_every;
        options.listener =
            Arc::new(move |judgement| judged.send(judgement.clone()).expect("heard"));
    })
    .await;
    (scene, judgements)
}

fn check_error(sent: &Sent, corr: &str, code: &str) {
    assert_eq!((sent.kind.as_str(), sent.corr.as_str()), ("biz.exec.error", corr), "{sent:?}");
    assert_eq!(sent.payload["code"], code);
    assert_eq!(sent.payload["context"]["details"]["lease_id"], corr);
}

/// Counts how often it is started, and takes the time it is told to.
#[derive(Default)]
struct Counting {
    n_started: parking_lot::Mutex<u64>,
    stopped: Arc<tokio::sync::Notify>,
}

impl Executor for Counting {
    fn types(&self) -> Vec<String> {
        vec!["count".into()]
    }

    fn execute(&self, assignment: Assignment, context: Context) -> Work {
        let parameters: Value = serde_json::from_str(assignment.parameters.get()).expect("JSON");
        let pause = Duration::from_millis(parameters["ms"].as_u64().expect("a number"));
        let mut n_started = self.n_started.lock();
        *n_started += 1;
        let result = serde_json::value::to_raw_value(&json!({ "n": *n_started })).expect("JSON");
        let stopped = Arc::clone(&self.stopped);
        Box::pin(async move {
            if tokio::time::timeout(pause, context.stop.cancelled()).await.is_ok() {
                stopped.notify_one();
                if parameters["fails"] == true {
                    let (code, reason) = ("E.LARGE".into(), "no".into());
                    return Outcome::Failed {
                        code,
                        reason,
                        retryable: true,
                        details: Some(result),
                    };
                }
            }
            Outcome::done(result)
        })
    }
}

/// Gives a result of the size it is told to; panics if it is told no size.
struct Large;

impl Executor for Large {
    fn types(&self) -> Vec<String> {
        vec!["large".into()]
    }

    fn execute(&self, assignment: Assignment, _context: Context) -> Work {
        Box::pin(async move {
            let parameters: Value =
                serde_json::from_str(assignment.parameters.get()).expect("JSON");
            let bytes = parameters["bytes"].as_u64().and_then(|bytes| usize::try_from(bytes).ok());
            let text = "x".repeat(bytes.expect("a size"));
            let result = serde_json::value::to_raw_value(&json!({ "text": text })).expect("JSON");
            if parameters["fails"] == true {
                let (code, reason) = ("E.LARGE".into(), "no".into());
                return Outcome::Failed { code, reason, retryable: true, details: Some(result) };
            }
            Outcome::done(result)
        })
    }
}
