//! How workers leave, and why they are sent away.

use std::time::Duration;

use serde_json::json;

use super::executing::head;
use super::leases::Leases;
use super::scene::{PATIENCE, Scene, ours};
use super::server::Play;
use crate::core::handle::WorkerError;
use crate::transport::resp::worker::Options;
use crate::waiting::wait_until;

#[tokio::test]
async fn a_wrong_key_ends_the_worker() {
    let wrong = |options: &mut Options| options.key = Some("wrong".into());
    for play in [ours(), Play::Keys(head())] {
        let ended = Scene::start(play, None, wrong).await.ended().await;
        assert!(matches!(ended, Err(WorkerError::WrongKey { .. })), "{ended:?}");
    }
}

#[tokio::test]
async fn a_missing_key_ends_the_worker() {
    for play in [ours(), Play::Keys(head())] {
        let ended = Scene::start(play, None, |options| options.key = None).await.ended().await;
        assert!(matches!(ended, Err(WorkerError::NoKey { .. })), "{ended:?}");
    }
}

#[tokio::test]
async fn a_name_that_is_taken_ends_the_worker() {
    let leases = Leases { refuses: Some("ERR Worker ID already registered"), ..Leases::default() };
    let ended = Scene::start(Play::Leases(leases), None, |_| {}).await.ended().await;
    let Err(error @ WorkerError::Refused { .. }) = ended else { panic!("{ended:?}") };
    assert!(error.to_string().ends_with("refuses this worker: ERR Worker ID already registered"));
}

#[tokio::test]
async fn a_user_is_named_if_the_address_has_one() {
    let named = |options: &mut Options| {
        options.address = format!("w-1@{}", options.address).parse().expect("an address");
    };
    let scene = Scene::start(ours(), None, named).await;
    scene.until(|state| (!state.seen("BRPOP").is_empty()).then_some(())).await;
    let state = scene.server.state.lock();
    assert_eq!(state.seen[0].1, ["AUTH", "w-1", super::scene::KEY]);
}

#[tokio::test]
async fn a_worker_that_drains_finishes_and_takes_nothing_new() {
    let mut scene = Scene::leases().await;
    scene.push("j1", &json!({ "command": "sleep", "args": ["0.3"] }));
    scene.until(|state| (state.leases().n_held() == 1).then_some(())).await;
    scene.worker.drain(Duration::from_secs(20)).await;
    scene.push("j2", &json!({ "command": "true" }));
    let summary = scene.ended().await.expect("it leaves");
    assert_eq!((summary.committed, summary.unheard), (1, 0));
    let mut state = scene.server.state.lock();
    assert!(state.leases().jobs["j1"].report.is_some());
    assert!(state.leases().jobs["j2"].report.is_none());
    assert_eq!(state.seen.last().expect("some").1[0], "WORKER.UNREGISTER");
}

#[test]
fn what_is_under_way_has_five_minutes_to_end() {
    let options = super::scene::options("127.0.0.1");
    assert_eq!(options.drain_deadline, Duration::from_mins(5));
}

#[tokio::test]
async fn an_idle_worker_leaves_at_once() {
    let mut scene = Scene::leases().await;
    scene.until(|state| (!state.seen("BRPOP").is_empty()).then_some(())).await;
    scene.drained().await;
}

#[tokio::test]
async fn what_is_not_finished_in_time_is_killed_and_the_worker_unregisters() {
    let mut scene = Scene::leases().await;
    let pid = start_sleeper(&scene).await;
    scene.worker.drain(Duration::from_millis(50)).await;
    let summary = scene.ended().await.expect("it leaves");
    assert_eq!((summary.committed, summary.unheard), (0, 0));
    assert!(!is_alive(&pid), "it is killed before the goodbye");
    let mut state = scene.server.state.lock();
    assert!(state.leases().jobs["j1"].report.is_none(), "nothing is reported");
    assert_eq!(state.seen.last().expect("some").1[0], "WORKER.UNREGISTER");
}

#[tokio::test]
async fn what_is_not_finished_in_time_goes_back_into_its_list() {
    let mut keys = head();
    keys.texts.insert("job:a".into(), r#"{"id":"a","command":"sleep","args":["60"]}"#.into());
    keys.push("queue:default", "a");
    let mut scene = Scene::keys(keys).await;
    scene.until(|state| (!state.seen("JOB.GET").is_empty()).then_some(())).await;
    scene.worker.drain(Duration::from_millis(50)).await;
    scene.ended().await.expect("it leaves");
    let mut state = scene.server.state.lock();
    let keys = state.keys();
    assert_eq!((keys.n_in("queue:default"), keys.n_in("queue:processing")), (1, 0));
    assert_eq!(keys.text("job:a:status"), None);
}

#[tokio::test]
async fn a_worker_that_is_stopped_leaves_at_once_and_says_so() {
    let mut scene = Scene::leases().await;
    let pid = start_sleeper(&scene).await;
    scene.worker.stop().await;
    scene.ended().await.expect("it leaves");
    assert_eq!(scene.server.state.lock().seen.last().expect("some").1[0], "WORKER.UNREGISTER");
    until_dead(&pid).await;
}

#[tokio::test]
async fn a_job_that_is_cancelled_is_killed_and_not_reported() {
    let mut scene = Scene::leases().await;
    let pid = start_sleeper(&scene).await;
    scene.server.change(|state| {
        state.leases().progress_error = Some("CANCELLED task_cancelled: the job was stopped");
    });
    until_dead(&pid).await;
    let summary = scene.drained().await;
    assert_eq!((summary.cancelled, summary.committed), (1, 0));
    assert!(scene.server.state.lock().leases().jobs["j1"].report.is_none());
}

/// Starts a program that does not end by itself, and gives its process.
async fn start_sleeper(scene: &Scene) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("pid");
    let script = format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 60", file.display());
    scene.push("j1", &json!({ "command": "sh", "args": ["-c", script] }));
    let found = async || std::fs::read_to_string(&file).map(|pid| pid.trim().to_owned());
    wait_until("a program that starts", PATIENCE, found).await
}

fn is_alive(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
    status.is_ok_and(|status| !status.contains("State:\tZ"))
}

/// The signal is on its way; the kernel takes a moment.
async fn until_dead(pid: &str) {
    let dead = async || if is_alive(pid) { Err(pid) } else { Ok(()) };
    wait_until("the end of the program", PATIENCE, dead).await;
}
