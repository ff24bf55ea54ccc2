//! What a server can tell a worker in its answers.

use serde_json::json;

use super::scene::Scene;

#[tokio::test]
async fn a_quiet_worker_takes_nothing_until_it_may_again() {
    let scene = Scene::leases().await;
    scene.server.change(|state| state.leases().heartbeat = "OK quiet");
    heartbeats(&scene, 2).await;
    // A pop that was under way when the word came may still end.
    let n_pops = pops_at_rest(&scene).await;
    scene.push("j1", &json!({ "command": "true" }));
    heartbeats(&scene, 3).await;
    scene.server.change(|state| {
        assert_eq!((state.leases().n_waiting(), state.seen("BRPOP").len()), (1, n_pops));
        state.leases().heartbeat = "OK";
    });
    assert_eq!(scene.report("j1").await["status"], "completed");
}

#[tokio::test]
async fn a_worker_that_is_told_to_terminate_finishes_and_leaves() {
    let mut scene = Scene::leases().await;
    scene.push("j1", &json!({ "command": "sleep", "args": ["0.3"] }));
    scene.until(|state| (state.leases().n_held() == 1).then_some(())).await;
    scene.server.change(|state| state.leases().heartbeat = "OK terminate");
    let summary = scene.ended().await.expect("it leaves by itself");
    assert_eq!(summary.committed, 1);
    let state = scene.server.state.lock();
    assert_eq!(state.seen.last().expect("some").1[0], "WORKER.UNREGISTER");
}

#[tokio::test]
async fn a_worker_that_was_forgotten_registers_again() {
    let scene = Scene::leases().await;
    heartbeats(&scene, 1).await;
    scene.server.change(|state| state.leases().is_registered = false);
    scene.until(|state| state.leases().is_registered.then_some(())).await;
}

#[tokio::test]
async fn a_report_that_cannot_be_taken_now_is_sent_again_as_it_was() {
    let mut scene = Scene::leases().await;
    scene.server.change(|state| {
        let later = "ERR the store cannot keep anything right now; try again";
        state.leases().update_errors.extend([later, "BUSY more requests than the server can take"]);
    });
    scene.push("j1", &json!({ "command": "true" }));
    assert_eq!(scene.report("j1").await["status"], "completed");
    assert_eq!(scene.drained().await.committed, 1);
    let state = scene.server.state.lock();
    let updates = state.seen("JOB.UPDATE");
    let mut ends: Vec<_> = updates.iter().filter(|words| words[2].contains("completed")).collect();
    assert_eq!(ends.len(), 3);
    ends.dedup();
    assert_eq!(ends.len(), 1, "{ends:?}");
}

#[tokio::test]
async fn a_report_that_counts_is_the_last_word() {
    let mut scene = Scene::leases().await;
    scene.push("j1", &json!({ "command": "true" }));
    assert_eq!(scene.report("j1").await["status"], "completed");
    // Jobs are heard of as often as the worker is, as long as they run.
    heartbeats(&scene, 3).await;
    assert_eq!(scene.drained().await.committed, 1);
    let state = scene.server.state.lock();
    let updates = state.seen("JOB.UPDATE");
    let n_after = updates.iter().rev().take_while(|words| words[2].contains("running")).count();
    let n_ends = updates.iter().filter(|words| words[2].contains("completed")).count();
    assert_eq!((n_after, n_ends), (0, 1), "{updates:?}");
}

#[tokio::test]
async fn a_report_that_is_refused_is_counted_and_not_repeated() {
    let mut scene = Scene::leases().await;
    scene.server.change(|state| {
        state.leases().update_errors.push_back("REJECTED unknown_lease: never given");
    });
    scene.push("j1", &json!({ "command": "true" }));
    scene
        .until(|state| {
            let updates = state.seen("JOB.UPDATE");
            updates.iter().any(|words| words[2].contains("completed")).then_some(())
        })
        .await;
    let summary = scene.drained().await;
    assert_eq!((summary.rejected, summary.committed), (1, 0));
}

#[tokio::test]
async fn a_job_that_is_cancelled_before_it_begins_is_not_executed() {
    let mut scene = Scene::leases().await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("made");
    scene.server.change(|state| {
        state.leases().progress_error = Some("CANCELLED task_cancelled: the job was stopped");
    });
    scene.push("j1", &json!({ "command": "touch", "args": [file.to_str().expect("text")] }));
    scene.until(|state| (!state.seen("JOB.UPDATE").is_empty()).then_some(())).await;
    assert_eq!(scene.drained().await.cancelled, 1);
    assert!(!file.exists());
}

/// Waits for so many heartbeats more.
async fn heartbeats(scene: &Scene, n: usize) {
    let count = |state: &mut super::server::State| state.seen("WORKER.HEARTBEAT").len();
    let n_before = count(&mut scene.server.state.lock());
    scene.until(|state| (count(state) >= n_before + n).then_some(())).await;
}

/// Waits until no pop comes between two heartbeats, and gives how many came.
async fn pops_at_rest(scene: &Scene) -> usize {
    let count = || scene.server.state.lock().seen("BRPOP").len();
    for _ in 0..50 {
        let n_before = count();
        heartbeats(scene, 2).await;
        if count() == n_before {
            return n_before;
        }
    }
    panic!("pops go on");
}
