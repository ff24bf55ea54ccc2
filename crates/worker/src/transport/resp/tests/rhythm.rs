//! What a worker does again and again, whatever came of it the last time.

use serde_json::json;

use super::scene::{Scene, ours};
use super::server::Cut;

#[tokio::test]
async fn a_pop_that_found_nothing_is_followed_by_the_next() {
    let mut scene = Scene::leases().await;
    scene.until(|state| (state.seen("BRPOP").len() >= 4).then_some(())).await;
    scene.push("j1", &json!({ "command": "true" }));
    assert_eq!(scene.report("j1").await["status"], "completed");
    scene.drained().await;
}

#[tokio::test]
async fn a_pop_that_was_refused_is_followed_by_the_next() {
    let mut scene = Scene::leases().await;
    scene.server.change(|state| {
        state.leases().pop_errors = ["ERR out of order", "LOADING wait", "ERR still"].into();
    });
    scene.until(|state| state.leases().pop_errors.is_empty().then_some(())).await;
    scene.push("j1", &json!({ "command": "true" }));
    assert_eq!(scene.report("j1").await["status"], "completed");
    scene.drained().await;
}

#[tokio::test]
async fn a_heartbeat_that_failed_is_followed_by_the_next() {
    let mut scene = Scene::leases().await;
    scene.server.change(|state| {
        state.leases().heartbeat_errors = ["ERR out of order", "ERR still"].into();
    });
    scene.until(|state| state.leases().heartbeat_errors.is_empty().then_some(())).await;
    let n_beats = scene.server.state.lock().seen("WORKER.HEARTBEAT").len();
    scene.until(|state| (state.seen("WORKER.HEARTBEAT").len() >= n_beats + 2).then_some(())).await;
    scene.drained().await;
}

#[tokio::test]
async fn whoever_comes_back_proves_itself_registers_and_pulls() {
    // The third command that matters is the first after the greetings.
    let cut = Some(Cut { at: 3, is_done: false });
    let mut scene = Scene::start(ours(), cut, |_| {}).await;
    scene.push("j1", &json!({ "command": "true" }));
    assert_eq!(scene.report("j1").await["status"], "completed");
    scene.drained().await;
    let state = scene.server.state.lock();
    let registered: Vec<usize> = state
        .seen
        .iter()
        .filter(|(_, words)| words[0] == "WORKER.REGISTER")
        .map(|(connection, _)| *connection)
        .collect();
    assert!(registered.len() == 2 && registered[0] != registered[1], "{:#?}", state.seen);
    let after = state.seen.iter().skip_while(|(connection, _)| *connection != registered[1]);
    let names: Vec<&str> = after
        .filter(|(connection, _)| *connection == registered[1])
        .map(|(_, words)| words[0].as_str())
        .collect();
    assert_eq!(names[..3], ["AUTH", "WORKER.REGISTER", "BRPOP"]);
}

#[tokio::test]
async fn whoever_has_left_has_closed_its_connections() {
    let mut scene = Scene::leases().await;
    scene.push("j1", &json!({ "command": "true" }));
    scene.report("j1").await;
    scene.drained().await;
    let last = scene.server.state.lock().seen.last().expect("some").1[0].clone();
    assert_eq!(last, "WORKER.UNREGISTER");
    scene.until(|state| state.are_all_gone().then_some(())).await;
}
