//! How workers leave.

use std::time::Duration;

use protocol::session::payload::control::Drain;
use serde_json::json;

use super::server::{Scene, Wish};
use crate::transport::ws::worker::State;
use crate::waiting::wait_until;

const LONG: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_worker_that_drains_finishes_takes_nothing_new_and_leaves() {
    let mut scene = Scene::start().await;
    scene.heartbeat().await;
    scene.dispatch("l-1", "core.sleep", &json!({ "ms": 600 }));
    scene.dispatch("l-0", "core.noop", &json!({}));
    assert_eq!(scene.answer().await.corr, "l-0");
    scene.worker.handle.drain(LONG).await;
    let heartbeat = loop {
        let heartbeat = scene.heartbeat().await;
        if heartbeat["metrics"]["draining"] == true {
            break heartbeat;
        }
    };
    assert_eq!(heartbeat["healthy"], false);
    scene.dispatch("l-2", "core.noop", &json!({}));
    let refusal = scene.answer().await;
    assert_eq!(
        (refusal.corr.as_str(), &refusal.payload["code"]),
        ("l-2", &json!("E.WORKER.DRAINING"))
    );
    let result = scene.answer().await;
    assert_eq!((result.corr.as_str(), &result.payload["status"]), ("l-1", &json!("SUCCEEDED")));
    let ended = tokio::time::timeout(Duration::from_secs(2), scene.worker.handle.ended()).await;
    let summary = ended.expect("as soon as all is confirmed").expect("leaves");
    assert_eq!(summary.unheard, 0);
    assert_eq!(*scene.worker.state().borrow(), State::Stopped);
}

#[tokio::test]
async fn what_is_not_finished_by_the_deadline_is_stopped_and_given_back() {
    let mut scene = Scene::start().await;
    let script = "trap '' TERM; echo $$; sleep 60 & wait; while :; do sleep 0.1; done";
    scene.dispatch("l-1", "command", &json!({ "argv": ["sh", "-c", script] }));
    let pid = scene.frame().await.payload["chunks"][0]["text"].as_str().expect("text").to_owned();
    scene.worker.handle.drain(Duration::from_millis(100)).await;
    let error = scene.answer().await;
    assert_eq!((error.kind.as_str(), error.corr.as_str()), ("biz.exec.error", "l-1"));
    assert_eq!(error.payload["code"], "E.RUNNER.CANCELLED");
    let process = format!("/proc/{}", pid.trim());
    assert!(!std::path::Path::new(&process).exists(), "it is told when it has stopped");
    scene.worker.handle.ended().await.expect("leaves");
}

#[tokio::test]
async fn a_worker_that_is_stopped_leaves_at_once_and_kills_what_runs() {
    let mut scene = Scene::start().await;
    scene.dispatch("l-1", "command", &json!({ "argv": ["sh", "-c", "echo $$; sleep 60"] }));
    let pid = scene.frame().await.payload["chunks"][0]["text"].as_str().expect("text").to_owned();
    scene.worker.handle.drain(LONG).await;
    scene.worker.handle.stop().await;
    let ended = tokio::time::timeout(Duration::from_secs(3), scene.worker.handle.ended()).await;
    ended.expect("at once").expect("leaves");
    // The signal is on its way; the kernel takes a moment.
    let status = || std::fs::read_to_string(format!("/proc/{}/status", pid.trim()));
    let gone = async || match status() {
        Ok(status) if !status.contains("State:\tZ") => Err(status),
        Ok(_) | Err(_) => Ok(()),
    };
    wait_until("the end of the program", Duration::from_secs(2), gone).await;
}

#[tokio::test]
async fn an_idle_worker_leaves_without_waiting() {
    let mut scene = Scene::start().await;
    scene.worker.handle.drain(LONG).await;
    let ended = tokio::time::timeout(Duration::from_secs(2), scene.worker.handle.ended()).await;
    ended.expect("at once").expect("leaves");
}

#[tokio::test]
async fn what_runs_beyond_the_deadline_of_a_servers_drain_is_given_back() {
    let mut scene = Scene::start().await;
    scene.dispatch("l-1", "core.sleep", &json!({ "seconds": 60 }));
    let drain = Drain { reason: Some("update".into()), deadline_ms: Some(500) };
    scene.wish(Wish::Drain(drain));
    let given_back = scene.answer().await;
    assert_eq!((given_back.kind.as_str(), given_back.corr.as_str()), ("biz.exec.error", "l-1"));
    assert_eq!(given_back.payload["code"], "E.RUNNER.CANCELLED");
    // The server may think better of it.
    scene.dispatch("l-2", "core.noop", &json!({}));
    let result = scene.answer().await;
    assert_eq!((result.kind.as_str(), result.corr.as_str()), ("biz.exec.result", "l-2"));
    assert_eq!(*scene.worker.state().borrow(), State::Ready);
}

#[tokio::test]
async fn metrics_are_shown_to_whoever_asks() {
    let scene =
        Scene::start_with(|options| options.metrics = Some(([127, 0, 0, 1], 0).into())).await;
    let address = scene.worker.metrics_address().expect("shown");
    let text = ask(address, "/metrics").await;
    assert!(text.starts_with("HTTP/1.1 200 OK") && text.contains("\ninflight_tasks 0\n"), "{text}");
    assert!(ask(address, "/other").await.starts_with("HTTP/1.1 404"));
}

async fn ask(address: std::net::SocketAddr, path: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(address).await.expect("open");
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("asked");
    let mut text = String::new();
    stream.read_to_string(&mut text).await.expect("answered");
    text
}
