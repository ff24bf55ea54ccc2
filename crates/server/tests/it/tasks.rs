//! Submit, look at, list, stop, requeue, explain.

use std::sync::Arc;

use coordinator::{Pause, TenantChange};
use hyper::Method;
use serde_json::{Value, json};
use shard::Turn;
use store::{SqliteStore, Store};

use crate::support::{TestServer, lease_path};

#[tokio::test]
async fn a_list_of_tasks_is_made_in_order() {
    let server = TestServer::dev().await;
    let tasks: Vec<Value> = (0..3).map(|n| json!({"type": "a", "parameters": {"n": n}})).collect();
    let answer = server.post("/api/v1/tasks", &json!({"tasks": tasks})).await.expect(201);
    for (n, task) in answer["tasks"].as_array().expect("a list").iter().enumerate() {
        assert_eq!(task["state"], "QUEUED");
        assert!(task.get("existed").is_none());
        let id = task["task_id"].as_str().expect("an id");
        let shown = server.get(&format!("/api/v1/tasks/{id}")).await.expect(200);
        assert_eq!(shown["parameters"], json!({ "n": n }));
    }
    server.stop().await;
}

#[tokio::test]
async fn a_single_task_needs_no_list() {
    let server = TestServer::dev().await;
    let task = json!({
        "type": "core.echo", "parameters": null, "queue": "q", "priority": 5,
        "timeout_ms": 1000, "lease_ttl_ms": 5000, "concurrency_key": "k",
        "retry": {"max_attempts": 7, "backoff_ms": 1, "backoff_max_ms": 2},
        "requires": {"tools": ["git"], "tags": {"gpu": "true"},
                     "package": {"name": "p", "version": "1.0"}},
    });
    let answer = server.post("/api/v1/tasks", &task).await.expect(201);
    let id = answer["tasks"][0]["task_id"].as_str().expect("an id");
    let shown = server.get(&format!("/api/v1/tasks/{id}")).await.expect(200);
    assert_eq!(shown["type"], "core.echo");
    assert_eq!(shown["queue"], "q");
    assert_eq!(shown["priority"], 5);
    assert_eq!(shown["max_attempts"], 7);
    assert_eq!(shown["concurrency_key"], "k");
    assert_eq!(shown["parameters"], Value::Null, "a null that was sent stays one");
    server.stop().await;
}

#[tokio::test]
async fn parameters_come_back_byte_for_byte() {
    let server = TestServer::dev().await;
    let parameters = r#"{ "z":1.50,  "a":"\u00e9\\", "big": 123456789012345678901234567890 }"#;
    let body = format!(r#"{{"type":"a","parameters":{parameters}}}"#);
    let answer = server.call(Method::POST, "/api/v1/tasks", Some(&body)).await.expect(201);
    let id = answer["tasks"][0]["task_id"].as_str().expect("an id");
    let shown = server.get(&format!("/api/v1/tasks/{id}")).await;
    assert!(shown.text.contains(parameters), "{}", shown.text);
    let request = json!({"worker_id": "w1"});
    let leased = server.post("/api/v1/leases", &request).await;
    assert!(leased.text.contains(parameters), "{}", leased.text);
    server.stop().await;
}

#[tokio::test]
async fn a_task_can_wait_for_its_moment() {
    let server = TestServer::dev().await;
    let id = server.submit(json!({"type": "a", "not_before": "2999-01-01T00:00:00Z"})).await;
    let shown = server.get(&format!("/api/v1/tasks/{id}")).await.expect(200);
    assert_eq!(shown["state"], "WAITING");
    assert_eq!(shown["not_before"], "2999-01-01T00:00:00.000Z");
    let explained = server.get(&format!("/api/v1/tasks/{id}/explain")).await.expect(200);
    assert_eq!(explained["reasons"][0]["code"], "not_before");
    server.stop().await;
}

#[tokio::test]
async fn the_same_key_makes_one_task_and_other_content_is_a_conflict() {
    let server = TestServer::dev().await;
    let task = json!({"type": "a", "parameters": {"x": 1}, "idempotency_key": "order-66"});
    let first = server.post("/api/v1/tasks", &task).await.expect(201);
    let again = server.post("/api/v1/tasks", &task).await.expect(201);
    assert_eq!(again["tasks"][0]["task_id"], first["tasks"][0]["task_id"]);
    assert_eq!(again["tasks"][0]["existed"], true);
    let other = json!({"type": "a", "parameters": {"x": 2}, "idempotency_key": "order-66"});
    let refused = server.post("/api/v1/tasks", &other).await;
    refused.refused(409, "E.TASK.IDEMPOTENCY");
    assert!(refused.message().contains("order-66"));
    let list = server.get("/api/v1/tasks").await.expect(200);
    assert_eq!(list["tasks"].as_array().expect("a list").len(), 1);
    server.stop().await;
}

#[tokio::test]
async fn the_same_key_is_known_after_the_task_settled_and_the_server_restarted() {
    let server = TestServer::dev().await;
    let task = json!({"type": "a", "idempotency_key": "k"});
    let id = server.submit(task.clone()).await;
    let lease = server.lease("w1").await;
    server.post(&lease_path(&lease, "complete"), &json!({"worker_id": "w1"})).await.expect(200);
    let server = server.restart().await;
    let again = server.post("/api/v1/tasks", &task).await.expect(201);
    assert_eq!(again["tasks"][0], json!({"task_id": id, "state": "COMPLETED", "existed": true}));
    server.stop().await;
}

#[tokio::test]
async fn a_watcher_hears_of_the_end() {
    let server = TestServer::dev().await;
    let id = server.submit(json!({"type": "a"})).await;
    let path = format!("/api/v1/tasks/{id}?wait_ms=20000");
    let watching = server.get(&path);
    let working = async {
        let lease = server.lease("w1").await;
        let body = json!({"worker_id": "w1", "result": {"ok": true}});
        server.post(&lease_path(&lease, "complete"), &body).await.expect(200)
    };
    let (watched, verdict) = tokio::join!(watching, working);
    assert_eq!(verdict["verdict"], "COMMITTED");
    let task = watched.expect(200);
    assert_eq!((&task["state"], &task["result"]), (&json!("COMPLETED"), &json!({"ok": true})));
    assert_eq!(task["worker_id"], "w1");
    server.stop().await;
}

#[tokio::test]
async fn a_watch_ends_with_its_wait() {
    let server = TestServer::dev().await;
    let id = server.submit(json!({"type": "a"})).await;
    let shown = server.get(&format!("/api/v1/tasks/{id}?wait_ms=30")).await.expect(200);
    assert_eq!(shown["state"], "QUEUED");
    server.stop().await;
}

#[tokio::test]
async fn a_list_comes_in_pages_newest_first() {
    let server = TestServer::dev().await;
    let mut ids = Vec::new();
    for n in 0..5 {
        let queue = if n == 3 { "other" } else { "default" };
        ids.push(server.submit(json!({"type": format!("t{n}"), "queue": queue})).await);
    }
    ids.reverse();
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("/api/v1/tasks?limit=2&cursor={cursor}")).await.expect(200);
        let tasks = page["tasks"].as_array().expect("a list");
        assert!(tasks.len() <= 2);
        seen.extend(tasks.iter().map(|task| task["task_id"].as_str().expect("an id").to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(seen, ids);
    let filters =
        [("queue=other", 1), ("type=t1", 1), ("state=queued,running", 5), ("state=DEAD", 0)];
    for (filter, count) in filters {
        let page = server.get(&format!("/api/v1/tasks?{filter}")).await.expect(200);
        assert_eq!(page["tasks"].as_array().expect("a list").len(), count, "{filter}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_stopped_task_stays_stopped_and_can_be_requeued() {
    let server = TestServer::dev().await;
    let id = server.submit(json!({"type": "a"})).await;
    let lease = server.lease("w1").await;
    for _ in 0..2 {
        let answer = server.post(&format!("/api/v1/tasks/{id}/cancel"), &json!(null)).await;
        assert_eq!(answer.expect(200)["state"], "STOPPED");
    }
    let beat = server.post(&lease_path(&lease, "heartbeat"), &json!({"worker_id": "w1"})).await;
    assert_eq!(beat.expect(200), json!({"verdict": "CANCELLED", "reason": "task_cancelled"}));
    let explained = server.get(&format!("/api/v1/tasks/{id}/explain")).await.expect(200);
    assert_eq!(explained["reasons"][0]["code"], "settled");
    assert!(
        explained["summary"].as_str().expect("text").starts_with("STOPPED: stopped by a person")
    );
    let requeued = server.call(Method::POST, &format!("/api/v1/tasks/{id}/requeue"), None).await;
    assert_eq!(requeued.expect(200)["state"], "QUEUED");
    assert_eq!(server.lease("w2").await["task_id"], id.as_str());
    server.stop().await;
}

#[tokio::test]
async fn a_completed_task_can_neither_be_stopped_nor_requeued() {
    let server = TestServer::dev().await;
    let id = server.submit(json!({"type": "a"})).await;
    let lease = server.lease("w1").await;
    server.post(&lease_path(&lease, "complete"), &json!({"worker_id": "w1"})).await.expect(200);
    let stop = server.call(Method::POST, &format!("/api/v1/tasks/{id}/cancel"), None).await;
    stop.refused(409, "E.TASK.CONFLICT");
    assert_eq!(stop.message(), "the task is already COMPLETED");
    let requeue = server.call(Method::POST, &format!("/api/v1/tasks/{id}/requeue"), None).await;
    requeue.refused(409, "E.TASK.CONFLICT");
    assert!(requeue.message().contains("COMPLETED"), "{}", requeue.text);
    server.stop().await;
}

#[tokio::test]
async fn a_waiting_task_says_what_workers_lack() {
    let server = TestServer::dev().await;
    let task = json!({"type": "a", "requires": {"tags": {"gpu": "true"}}});
    let id = server.submit(task).await;
    let path = format!("/api/v1/tasks/{id}/explain");
    let explained = server.get(&path).await.expect(200);
    assert_eq!(explained["reasons"][0]["code"], "no_workers");
    for worker in ["w1", "w2"] {
        server.post("/api/v1/leases", &json!({"worker_id": worker})).await.expect(200);
    }
    let explained = server.get(&path).await.expect(200);
    assert_eq!(explained["summary"], "QUEUED: 2 workers lack tag gpu=true");
    assert_eq!(explained["reasons"][0]["count"], 2);
    assert!(explained["reasons"][0]["hint"].as_str().expect("a hint").contains("gpu=true"));
    server.stop().await;
}

#[tokio::test]
async fn the_same_key_twice_in_one_call_makes_one_task() {
    let server = TestServer::dev().await;
    let task = json!({"type": "a", "idempotency_key": "k"});
    let answer = server.post("/api/v1/tasks", &json!({"tasks": [task, task]})).await.expect(201);
    assert_eq!(answer["tasks"][0]["task_id"], answer["tasks"][1]["task_id"]);
    assert_eq!(answer["tasks"][1]["existed"], true);
    server.stop().await;
}

#[tokio::test]
async fn a_task_runs_after_others_or_fails_with_them() {
    let server = TestServer::dev().await;
    let a = server.submit(json!({"type": "a"})).await;
    let b = server.submit(json!({"type": "b", "after": [a]})).await;
    let task = server.get(&format!("/api/v1/tasks/{b}")).await.expect(200);
    assert_eq!((&task["state"], &task["after"]), (&json!("WAITING"), &json!([a])));
    assert_eq!(task["not_before"], json!(null), "it has no moment of its own");
    let server = server.restart().await;
    let why = server.get(&format!("/api/v1/tasks/{b}/explain")).await.expect(200);
    assert_eq!(why["summary"], format!("WAITING: it runs after 1 task: {a}"));

    let lease = server.lease("w1").await;
    let done = json!({"worker_id": "w1"});
    server.post(&lease_path(&lease, "complete"), &done).await.expect(200);
    let task = server.get(&format!("/api/v1/tasks/{b}")).await.expect(200);
    assert_eq!(task["state"], "QUEUED", "the row says it as soon as it is so");
    let c = server.submit(json!({"type": "c", "after": [a, b]})).await;
    server.post(&format!("/api/v1/tasks/{b}/cancel"), &json!({})).await.expect(200);
    let task = server.get(&format!("/api/v1/tasks/{c}")).await.expect(200);
    assert_eq!(
        (&task["state"], &task["error"]["code"]),
        (&json!("FAILED"), &json!("E.TASK.DEPENDENCY"))
    );
    server.stop().await;
}

#[tokio::test]
async fn a_task_cannot_run_after_one_that_nobody_knows() {
    let server = TestServer::dev().await;
    let id = server.submit(json!({"type": "a"})).await;
    let known: model::TaskId = id.parse().expect("an id");
    let elsewhere = model::ShardId::new(known.shard().get() + 1).expect("fits");
    let next = model::TaskId::of(known.shard(), known.number() + 1);
    for nobody in [next, model::TaskId::of(elsewhere, known.number())] {
        let task = json!({"type": "b", "after": [nobody.to_string()]});
        server.post("/api/v1/tasks", &task).await.refused(409, "E.TASK.DEPENDENCY");
    }
    let many = json!({"type": "b", "after": vec![id; 1_001]});
    server.post("/api/v1/tasks", &many).await.refused(422, "E.LIMIT.BATCH");
    server.stop().await;
}

#[tokio::test]
async fn a_queue_that_was_paused_is_paused_when_the_server_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Arc::new(SqliteStore::open(folder.path()).expect("opens"));
    let claim = store.claim("default".parse().expect("a name")).await.expect("claims");
    let pause = Pause { by: "ada".into(), at: "2026-01-31T12:00:00Z".parse().expect("a moment") };
    let paused = TenantChange::QueuePaused { queue: "slow".parse().expect("a name"), pause };
    let turn = Turn { tenant: vec![paused], ..Turn::empty(claim) };
    store.commit(turn).await.expect("kept");
    let server = TestServer::dev_on(|_| store).await;
    let id = server.submit(json!({"type": "a", "queue": "slow"})).await;
    let leases = server.post("/api/v1/leases", &json!({"worker_id": "w1"})).await.expect(200);
    assert_eq!(leases, json!({"leases": []}));
    let why = server.get(&format!("/api/v1/tasks/{id}/explain")).await.expect(200);
    let sentence = "queue slow is paused by ada since 2026-01-31T12:00:00.000Z";
    assert_eq!(why["reasons"][0]["message"], sentence);
    let queues = server.get("/api/v1/queues").await.expect(200);
    assert_eq!(queues["queues"][0]["paused"]["by"], "ada");
    server.stop().await;
}
