//! Jobs of every dialect are executed and reported.

use serde_json::{Value, json};

use super::keys::Keys;
use super::leases::Leases;
use super::scene::{Scene, sort_and_uniq};
use super::server::Play;

#[tokio::test]
async fn our_server_registers_leases_and_takes_reports() {
    let mut scene = Scene::leases().await;
    scene.push("j1", &json!({ "plan_id": "p", "tasks": sort_and_uniq(), "input": "b\na\nb\n" }));
    let report = scene.report("j1").await;
    assert_eq!((&report["status"], &report["worker_id"]), (&json!("completed"), &json!("w-1")));
    assert_eq!(report["lease_id"], "j1-1");
    assert!(report["completed_at"].as_str().is_some_and(|at| at.ends_with('Z')), "{report}");
    let steps = report["task_results"].as_array().expect("a list");
    assert_eq!((steps.len(), &steps[1]["stdout"]), (2, &json!("b\n")));
    assert_eq!((&steps[0]["exit_code"], &steps[0]["stdout"]), (&json!(0), &json!("a\nb\nb\n")));

    scene.push("j2", &json!({ "command": "echo", "args": ["hello"], "env": { "A": "b" } }));
    let report = scene.report("j2").await;
    assert_eq!(report["task_results"][0]["stdout"], "hello\n");
    assert_eq!(scene.drained().await.committed, 2);
    let state = scene.server.state.lock();
    assert_eq!(state.seen[0].1[0], "AUTH");
    let register: Value = serde_json::from_str(&state.seen[1].1[1]).expect("JSON");
    assert_eq!((&state.seen[1].1[0][..], &register["signals"]), ("WORKER.REGISTER", &json!(true)));
    assert_eq!(register["capabilities"]["tools"], json!(["sort", "uniq"]));
    assert_eq!(state.seen("BRPOP")[0][1..], ["queue:ready", "1"]);
    let running = &state.seen("JOB.UPDATE")[0];
    let running: Value = serde_json::from_str(&running[2]).expect("JSON");
    assert_eq!((&running["status"], &running["current_task"]), (&json!("running"), &json!(1)));
    assert!(running["started_at"].is_string() && running["lease_id"] == "j1-1", "{running}");
    let told: Value = serde_json::from_str(&state.seen("WORKER.HEARTBEAT")[0][2]).expect("JSON");
    assert!(told["uptime_seconds"].is_u64() && told["active_jobs"].is_u64(), "{told}");
    assert_eq!(state.seen.last().expect("some").1, ["WORKER.UNREGISTER", "w-1"]);
}

#[tokio::test]
async fn the_steps_of_a_job_are_told_as_they_begin() {
    let scene = Scene::leases().await;
    let steps = json!([
        { "task_number": 1, "command": "true" },
        { "task_number": 2, "command": "sleep", "args": ["0.2"] },
    ]);
    scene.push("j1", &json!({ "plan": { "plan_id": "p", "tasks": steps }, "inputs": [] }));
    assert_eq!(scene.report("j1").await["status"], "completed");
    let state = scene.server.state.lock();
    let is_told = state.seen("JOB.UPDATE").iter().any(|words| {
        let update: Value = serde_json::from_str(&words[2]).expect("JSON");
        update["current_task"] == 2 && update["progress_percent"] == 50.0
    });
    assert!(is_told, "{:#?}", state.seen);
}

#[tokio::test]
async fn queues_that_are_named_are_asked_and_bare_values_are_understood() {
    let bare = Leases { heartbeat: "OK", gives_bare: true, ..Leases::default() };
    let named = |options: &mut crate::transport::resp::worker::Options| {
        options.offer.queues = vec!["video".into(), "ready".into()];
    };
    let scene = Scene::start(Play::Leases(bare), None, named).await;
    scene.push("j1", &json!({ "command": "echo" }));
    assert_eq!(scene.report("j1").await["status"], "completed");
    scene.server.change(|state| {
        assert_eq!(state.leases().asked, ["queue:video", "queue:ready"]);
    });
}

#[tokio::test]
async fn what_cannot_be_executed_is_reported_with_a_sentence() {
    let scene = Scene::leases().await;
    check(&scene, &json!({ "anything": 1 }), "neither tasks nor a command").await;
    check(&scene, &json!({ "command": "echo", "args": 7 }), "cannot be read").await;
    check(&scene, &json!({ "command": "../echo" }), "tasks[0].command: it leads upwards").await;
    check(&scene, &json!({ "command": "no-such-tool" }), "no program no-such-tool").await;
    check(&scene, &json!({ "plan_id": "gone" }), "does not have the plan gone").await;
}

#[tokio::test]
async fn a_failure_is_worth_another_attempt_as_often_as_the_job_says() {
    let scene = Scene::leases().await;
    scene.push("j1", &json!({ "command": "false", "max_retries": 1 }));
    assert_eq!(scene.report("j1").await["retryable"], true);
    scene.push("j2", &json!({ "command": "false" }));
    let report = scene.report("j2").await;
    assert_eq!((&report["retryable"], &report["status"]), (&json!(false), &json!("failed")));
    assert_eq!(report["task_results"][0]["exit_code"], 1);
}

#[tokio::test]
async fn no_more_jobs_are_held_than_there_are_slots() {
    let scene = Scene::leases().await;
    for number in 0..6 {
        scene.push(&format!("j{number}"), &json!({ "command": "sleep", "args": ["0.1"] }));
    }
    let mut n_held_most = 0;
    scene
        .until(|state| {
            n_held_most = n_held_most.max(state.leases().n_held());
            state.leases().jobs.values().all(|job| job.report.is_some()).then_some(())
        })
        .await;
    assert_eq!(n_held_most, 2);
}

#[tokio::test]
async fn a_head_server_gives_single_commands_by_name() {
    let mut keys = head();
    let job = json!({
        "id": "t-1", "action_id": "a", "plan_id": "p", "task_number": 3, "command": "echo",
        "args": ["hi"], "status": "ready", "tags": ["cpu"],
    });
    keys.texts.insert("job:t-1".into(), job.to_string().into());
    keys.push("queue:default", "t-1");
    let mut scene = Scene::keys(keys).await;
    assert_eq!(scene.status("t-1").await, "completed");
    assert_eq!(scene.drained().await.committed, 1);
    let mut state = scene.server.state.lock();
    assert_eq!(state.keys().text("job:t-1:stdout").as_deref(), Some("hi\n"));
    assert_eq!(state.keys().text("job:t-1:stderr").as_deref(), Some(""));
    let lines: Vec<String> = state.seen.iter().map(|(_, words)| words.join(" ")).collect();
    let is_one_connection = state.seen.iter().all(|(number, _)| *number == 1);
    assert!(is_one_connection, "all goes over one connection: {lines:#?}");
    let order = [
        "AUTH a key of some length",
        "SET worker:w-1:tools sort,uniq",
        "SET worker:w-1:tags cpu",
        "PING w-1",
        "BRPOPLPUSH queue:default queue:processing 1",
        "JOB.GET t-1",
        "SET job:t-1:stdout hi\n",
        "SET job:t-1:stderr ",
        "SET job:t-1:status completed",
        "LREM queue:processing 1 t-1",
    ];
    let mut rest = lines.iter();
    for line in order {
        assert!(rest.any(|seen| seen == line), "{line:?} is missing in {lines:#?}");
    }
    assert!(!lines.iter().any(|line| line.starts_with("WORKER.UNREGISTER")));
}

#[tokio::test]
async fn an_old_server_gives_jobs_by_value_and_plans_in_hashes() {
    let mut keys = old();
    let job = json!({ "job_id": "j1", "plan_id": "p-1", "input": "b\na\nb\n" });
    keys.push("queue:ready", job.to_string());
    let plan = json!({ "plan_id": "p-1", "tasks": sort_and_uniq() }).to_string();
    keys.hashes.insert("plan:p-1".into(), [("json".into(), plan)].into());
    let scene = Scene::keys(keys).await;
    assert_eq!(scene.status("j1").await, "completed");
    let mut state = scene.server.state.lock();
    let stdout = state.keys().text("job:j1:stdout");
    assert_eq!(stdout.as_deref(), Some("a\nb\nb\nb\n"), "what all steps wrote");
    let removed = state.seen("LREM")[0][3].clone();
    assert_eq!(removed, job.to_string(), "what was popped is removed, to the byte");
}

#[tokio::test]
async fn an_old_server_that_gives_names_is_asked_for_all_else() {
    let mut keys = old();
    keys.push("queue:ready", "j2");
    let job = json!({ "job_id": "j2", "plan_id": "p-1", "input": "x\nx\n" });
    keys.texts.insert("job:j2".into(), job.to_string().into());
    keys.push("queue:ready", "j3");
    let fields = [("plan_id", "p-1"), ("input", "\"y\\ny\\n\""), ("status", "pending")];
    let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
    keys.hashes.insert("job:j3".into(), fields.into());
    let plan = json!({ "plan_id": "p-1", "tasks": sort_and_uniq() });
    keys.texts.insert("plan:p-1".into(), plan.to_string().into());
    keys.push("queue:ready", "gone");
    let scene = Scene::keys(keys).await;
    for (id, status) in [("j2", "completed"), ("j3", "completed"), ("gone", "failed")] {
        assert_eq!(scene.status(id).await, status, "{id}");
    }
    let mut state = scene.server.state.lock();
    assert_eq!(state.keys().text("job:j3:stdout").as_deref(), Some("y\ny\ny\n"));
    let why = state.keys().text("job:gone:stderr").expect("told");
    assert!(why.contains("the server does not have the job gone"), "{why}");
}

#[tokio::test]
async fn a_report_in_keys_is_tried_three_times() {
    let mut keys = head();
    keys.texts.insert("job:a".into(), r#"{"id":"a","command":"true","args":[]}"#.into());
    keys.push("queue:default", "a");
    // Each try begins with two outputs, and goes no further than they do.
    keys.set_errors.extend(["ERR Internal error"; 4]);
    let mut scene = Scene::keys(keys).await;
    assert_eq!(scene.status("a").await, "completed");
    assert_eq!(scene.drained().await.committed, 1);
    assert_eq!(scene.server.state.lock().seen("SET").len(), 2 + 2 + 2 + 3);
}

#[tokio::test]
async fn a_report_in_keys_that_nobody_takes_leaves_the_job_where_it_can_be_found() {
    let mut keys = head();
    keys.texts.insert("job:a".into(), r#"{"id":"a","command":"true","args":[]}"#.into());
    keys.push("queue:default", "a");
    keys.set_errors.extend(["ERR value too long"; 6]);
    let mut scene = Scene::keys(keys).await;
    scene.until(|state| (state.seen("SET").len() == 2 + 6).then_some(())).await;
    assert_eq!(scene.drained().await.rejected, 1);
    let mut state = scene.server.state.lock();
    assert_eq!((state.keys().n_in("queue:processing"), state.seen("LREM").len()), (1, 0));
    assert_eq!(state.keys().text("job:a:status"), None);
}

#[tokio::test]
async fn a_busy_worker_with_one_connection_is_heard_of() {
    let mut keys = head();
    let job = r#"{"id":"a","command":"sleep","args":["60"]}"#;
    for id in ["a", "b"] {
        keys.texts.insert(format!("job:{id}"), job.into());
        keys.push("queue:default", id);
    }
    let scene = Scene::keys(keys).await;
    scene.until(|state| (state.seen("JOB.GET").len() == 2).then_some(())).await;
    let n_before = scene.server.state.lock().seen("PING").len();
    scene.until(|state| (state.seen("PING").len() >= n_before + 2).then_some(())).await;
}

#[tokio::test]
async fn reports_never_wait_behind_a_pop_on_the_only_connection() {
    let mut keys = head();
    for number in 0..6 {
        let id = format!("t-{number}");
        keys.texts.insert(format!("job:{id}"), r#"{"command":"true","args":[]}"#.into());
        keys.push("queue:default", id);
    }
    let mut scene = Scene::keys(keys).await;
    scene.until(|state| (state.seen("LREM").len() == 6).then_some(())).await;
    assert_eq!(scene.drained().await.committed, 6);
    let state = scene.server.state.lock();
    let names: Vec<&str> = state.seen.iter().map(|(_, words)| &*words[0]).collect();
    let mut n_held = 0;
    for name in names {
        match name {
            "BRPOPLPUSH" => assert_eq!(n_held, 0, "{:#?}", state.seen),
            "JOB.GET" => n_held += 1,
            "LREM" => n_held -= 1,
            _ => {}
        }
    }
}

/// The newer generation: single commands, no workers.
pub(super) fn head() -> Keys {
    Keys { unknown: vec!["HGET", "HGETALL"], ..Keys::default() }
}

/// The older generation: whole plans, and neither `JOB.GET` nor `PLAN.GET`.
pub(super) fn old() -> Keys {
    Keys { unknown: vec!["JOB.GET", "PLAN.GET"], ..Keys::default() }
}

/// Executes a job that must fail with this sentence, for good.
async fn check(scene: &Scene, body: &Value, sentence: &str) {
    let id = format!("j{}", scene.server.state.lock().leases().jobs.len());
    scene.push(&id, body);
    let report = scene.report(&id).await;
    assert_eq!((&report["status"], &report["retryable"]), (&json!("failed"), &json!(false)));
    let error = report["error"].as_str().expect("a sentence");
    assert!(error.contains(sentence), "{error}");
}
