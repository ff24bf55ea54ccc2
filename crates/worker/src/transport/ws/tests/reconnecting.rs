//! Connections that are cut, sessions that are lost.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::net::TcpListener;

use super::server::{Scene, Seen, Wish};
use super::streaming::Said;
use crate::builtin::Builtin;
use crate::core::identity::Identity;
use crate::transport::ws::worker::{Options, RunningWorker, State};

#[tokio::test]
async fn a_session_is_resumed_and_the_work_goes_on() {
    let mut scene = Scene::start().await;
    let script = "echo before; sleep 1.5; echo after";
    scene.dispatch("l-1", "command", &json!({ "argv": ["sh", "-c", script] }));
    let mut said = Said::default();
    said.add(&scene.frame().await.payload);
    scene.wish(Wish::Cut);
    assert!(scene.until_session().await, "it is resumed");
    said.until_result(&mut scene).await;
    assert_eq!(said.bytes, b"before\nafter\n");
    assert!(scene.worker.metrics().text().contains("ws_reconnects_total 1"));
}

#[tokio::test]
async fn a_result_is_not_lost_with_the_connection() {
    let mut scene = Scene::start().await;
    scene.dispatch("l-1", "core.sleep", &json!({ "ms": 100 }));
    scene.wish(Wish::Hold(true));
    assert_eq!(scene.answer().await.corr, "l-1");
    scene.wish(Wish::Cut);
    assert!(scene.until_session().await, "it is resumed");
    scene.wish(Wish::Hold(false));
    scene.dispatch("l-2", "core.noop", &json!({}));
    let mut corrs = vec![scene.answer().await.corr];
    if corrs[0] == "l-1" {
        corrs.push(scene.answer().await.corr);
    }
    assert_eq!(corrs.last().map(String::as_str), Some("l-2"));
}

#[tokio::test]
async fn after_a_lost_session_what_was_not_confirmed_is_sent_again_once() {
    let mut scene = Scene::start().await;
    scene.wish(Wish::Hold(true));
    scene.dispatch("l-1", "command", &json!({ "argv": ["echo", "hi"] }));
    let mut said = Said::default();
    said.until_result(&mut scene).await;
    scene.wish(Wish::Hold(false));
    scene.wish(Wish::Hold(true));
    scene.dispatch("l-2", "command", &json!({ "argv": ["echo", "ho"] }));
    let mut first = Said::default();
    let result = first.until_result(&mut scene).await;
    scene.wish(Wish::Forget);
    assert!(!scene.until_session().await, "it is a new session");
    scene.wish(Wish::Hold(false));
    let mut second = Said::default();
    let again = second.until_result(&mut scene).await;
    assert_eq!((second.shown, &again), (first.shown, &result), "the same frames");
    assert_eq!(again["task_id"], "task-of-l-2", "l-1 was confirmed");
    scene.check_silence(Duration::from_millis(500)).await;
}

#[tokio::test]
async fn work_survives_a_lost_session_and_its_leases_are_told() {
    let mut scene = Scene::start().await;
    scene.dispatch("l-1", "core.sleep", &json!({ "seconds": 2 }));
    scene.dispatch("l-2", "core.noop", &json!({}));
    scene.answer().await;
    scene.wish(Wish::Forget);
    assert!(!scene.until_session().await);
    assert_eq!(scene.heartbeat().await["metrics"]["leases"], json!(["l-1"]));
    scene.dispatch("l-1", "core.sleep", &json!({ "seconds": 2 }));
    let result = scene.answer().await;
    assert_eq!((result.corr.as_str(), result.kind.as_str()), ("l-1", "biz.exec.result"));
    scene.check_silence(Duration::from_millis(300)).await;
}

#[tokio::test]
async fn a_connection_that_is_silent_is_dropped() {
    let scene =
        Scene::start_with(|options| options.heartbeat_every = Duration::from_millis(100)).await;
    let mut state = scene.worker.state();
    state.wait_for(|state| *state == State::Ready).await.expect("ready");
    // The server does not even answer pings.
    scene.wish(Wish::Freeze);
    let dropped = state.wait_for(|state| *state == State::Connecting);
    tokio::time::timeout(Duration::from_secs(3), dropped).await.expect("in time").expect("runs");
}

#[tokio::test]
async fn a_connection_that_only_answers_pings_is_kept() {
    let mut scene =
        Scene::start_with(|options| options.heartbeat_every = Duration::from_millis(50)).await;
    for _ in 0..10 {
        match scene.next().await {
            Seen::Gone => panic!("it was dropped"),
            Seen::Session { .. } | Seen::Register(_) | Seen::Heartbeat(_) | Seen::Frame(_) => {}
        }
    }
}

#[tokio::test]
async fn a_server_that_opens_no_session_is_left_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let address = format!("ws://{}", listener.local_addr().expect("bound")).parse().expect("one");
    let data = tempfile::tempdir().expect("folder");
    let identity = Identity::open(data.path()).expect("free");
    let mut options = Options::new(address, "tester", identity, Arc::new(Builtin));
    options.accept_timeout = Some(Duration::from_millis(100));
    let _worker = RunningWorker::start(options).await.expect("starts");
    for _ in 0..2 {
        let (stream, _) = listener.accept().await.expect("it connects");
        let (_, mut stream) =
            tokio_websockets::ServerBuilder::new().accept(stream).await.expect("upgraded");
        let ended =
            async { while let Some(Ok(_)) = futures_util::StreamExt::next(&mut stream).await {} };
        tokio::time::timeout(Duration::from_secs(2), ended).await.expect("it hangs up");
    }
}
