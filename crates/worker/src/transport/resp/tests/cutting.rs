//! Whatever the moment at which the connection is lost: the job is executed and reported, and a
//! report that is sent again is the same to the byte.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::executing::{head, old};
use super::scene::{Scene, ours, sort_and_uniq};
use super::server::{Cut, Play};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_server_may_hang_up_at_any_command() {
    let n_commands = leased(None).await;
    assert!(n_commands >= 6, "{n_commands}");
    for (at, is_done) in moments(n_commands) {
        leased(Some(Cut { at, is_done })).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_server_may_hang_up_at_any_command() {
    let n_commands = single(None).await;
    assert!(n_commands >= 9, "{n_commands}");
    for (at, is_done) in moments(n_commands) {
        single(Some(Cut { at, is_done })).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_server_may_hang_up_at_any_command() {
    let n_commands = whole(None).await;
    assert!(n_commands >= 10, "{n_commands}");
    for (at, is_done) in moments(n_commands) {
        whole(Some(Cut { at, is_done })).await;
    }
}

fn moments(n_commands: usize) -> impl Iterator<Item = (usize, bool)> {
    (1..=n_commands).flat_map(|at| [(at, false), (at, true)])
}

/// Gives how many commands mattered.
async fn leased(cut: Option<Cut>) -> usize {
    let mut scene = Scene::start(ours(), cut, |_| {}).await;
    scene.push("j1", &json!({ "plan_id": "p", "tasks": sort_and_uniq(), "input": "b\na\nb\n" }));
    let report = scene.report("j1").await;
    assert_eq!(report["task_results"][1]["stdout"], "b\n", "{cut:?}");
    let n_commands = scene.server.state.lock().n_commands;
    assert_eq!(scene.drained().await.committed, 1, "{cut:?}");
    let state = scene.server.state.lock();
    let mut reports: BTreeMap<String, Vec<&String>> = BTreeMap::new();
    for words in state.seen("JOB.UPDATE") {
        let update: Value = serde_json::from_str(&words[2]).expect("JSON");
        if update["status"] != "running" {
            let lease_id = update["lease_id"].as_str().expect("told").to_owned();
            reports.entry(lease_id).or_default().push(&words[2]);
        }
    }
    // A server that never heard that the job was read gives it away a second time.
    assert!((1..=2).contains(&reports.len()), "{cut:?}: {reports:?}");
    for mut of_one_lease in reports.into_values() {
        assert!(of_one_lease.len() <= 2, "{cut:?}");
        of_one_lease.dedup();
        assert_eq!(of_one_lease.len(), 1, "{cut:?}: sent again as it was: {of_one_lease:?}");
    }
    n_commands
}

async fn single(cut: Option<Cut>) -> usize {
    let mut keys = head();
    keys.texts.insert("job:a".into(), r#"{"id":"a","command":"echo","args":["hi"]}"#.into());
    keys.push("queue:default", "a");
    listed(Play::Keys(keys), cut, "a", "hi\n").await
}

async fn whole(cut: Option<Cut>) -> usize {
    let mut keys = old();
    let job = json!({ "job_id": "j1", "plan_id": "p-1", "input": "b\na\nb\n" });
    keys.push("queue:ready", job.to_string());
    let plan = json!({ "plan_id": "p-1", "tasks": sort_and_uniq() });
    keys.texts.insert("plan:p-1".into(), plan.to_string().into());
    listed(Play::Keys(keys), cut, "j1", "a\nb\nb\nb\n").await
}

async fn listed(play: Play, cut: Option<Cut>, id: &str, stdout: &str) -> usize {
    let mut scene = Scene::start(play, cut, |_| {}).await;
    assert_eq!(scene.status(id).await, "completed", "{cut:?}");
    assert_eq!(scene.drained().await.committed, 1, "{cut:?}");
    let mut state = scene.server.state.lock();
    assert_eq!(state.keys().text(&format!("job:{id}:stdout")).as_deref(), Some(stdout), "{cut:?}");
    state.n_commands
}
