//! Ask for work, stay alive; and what the overview shows of it.

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::{TestServer, lease_path};

#[tokio::test]
async fn a_lease_has_all_that_a_worker_needs() {
    let server = TestServer::dev().await;
    let id = server.submit(json!({"type": "core.echo", "parameters": [1, 2]})).await;
    let lease = server.lease("w1").await;
    assert_eq!(lease["lease_id"], format!("{id}-1"));
    assert_eq!(lease["task_id"], id.as_str());
    assert_eq!(lease["attempt"], 1);
    assert_eq!(lease["type"], "core.echo");
    assert_eq!(lease["parameters"], json!([1, 2]));
    assert!(lease["expires_at"].as_str().expect("a moment").ends_with('Z'));
    assert_eq!(lease["heartbeat_ms"], 10_000);
    let shown = server.get(&format!("/api/v1/tasks/{id}")).await.expect(200);
    assert_eq!(shown["state"], "RUNNING");
    assert_eq!(shown["lease"]["worker_id"], "w1");
    server.stop().await;
}

#[tokio::test]
async fn many_leases_come_at_once_best_first() {
    let server = TestServer::dev().await;
    for priority in [1, 3, 2] {
        server.submit(json!({"type": "a", "priority": priority, "parameters": priority})).await;
    }
    let answer = server.post("/api/v1/leases", &json!({"worker_id": "w1", "max": 100})).await;
    let answer = answer.expect(200);
    let order: Vec<_> =
        answer["leases"].as_array().expect("a list").iter().map(|one| &one["parameters"]).collect();
    assert_eq!(order, [&json!(3), &json!(2), &json!(1)]);
    server.stop().await;
}

#[tokio::test]
async fn a_worker_gets_only_what_it_can_do() {
    let server = TestServer::dev().await;
    let requires = json!({
        "tools": ["git"], "tags": {"gpu": "true"}, "package": {"name": "p", "version": "1"},
    });
    let id = server.submit(json!({"type": "a", "queue": "q", "requires": requires})).await;
    let able = json!({
        "worker_id": "w1", "types": ["a"], "queues": ["q"], "tools": ["git", "jq"],
        "tags": {"gpu": "true", "zone": "b"}, "packages": [{"name": "p", "version": "1"}],
    });
    for (field, value) in [
        ("types", json!(["b"])),
        ("queues", json!(["default"])),
        ("tools", json!(["jq"])),
        ("tags", json!({"gpu": "false"})),
        ("packages", json!([{"name": "p", "version": "2"}])),
    ] {
        let mut unable = able.clone();
        unable[field] = value;
        let answer = server.post("/api/v1/leases", &unable).await.expect(200);
        assert_eq!(answer, json!({"leases": []}), "{field}");
    }
    let answer = server.post("/api/v1/leases", &able).await.expect(200);
    assert_eq!(answer["leases"][0]["task_id"], id.as_str());
    server.stop().await;
}

#[tokio::test]
async fn a_long_poll_ends_empty() {
    let server = TestServer::dev().await;
    let answer = server.post("/api/v1/leases", &json!({"worker_id": "w1", "wait_ms": 30})).await;
    assert_eq!(answer.expect(200), json!({"leases": []}));
    server.stop().await;
}

#[tokio::test]
async fn a_long_poll_is_answered_by_a_submit() {
    let server = TestServer::dev().await;
    let submitting = async {
        server.until("/api/v1/workers", |seen| seen["workers"][0]["asking"] == true).await;
        server.submit(json!({"type": "a"})).await
    };
    let (lease, id) = tokio::join!(server.lease("w1"), submitting);
    assert_eq!(lease["task_id"], id.as_str());
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_goes_while_it_waits_gets_no_task() {
    let server = TestServer::dev().await;
    let body = json!({"worker_id": "gone", "wait_ms": 60_000}).to_string();
    let head = format!(
        "POST /api/v1/leases HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        server.address(),
        body.len()
    );
    let mut socket = TcpStream::connect(server.address()).await.expect("a connection");
    socket.write_all(head.as_bytes()).await.expect("sent");
    server.until("/api/v1/workers", |seen| seen["workers"][0]["asking"] == true).await;
    drop(socket);
    server.until("/api/v1/workers", |seen| seen["workers"][0]["asking"] == false).await;
    let id = server.submit(json!({"type": "a"})).await;
    let lease = server.lease("next").await;
    assert_eq!(lease["lease_id"], format!("{id}-1"), "the first grant goes to who is there");
    server.stop().await;
}

#[tokio::test]
async fn a_heartbeat_extends_and_a_lost_lease_is_told_at_once() {
    let server = TestServer::dev().await;
    server.submit(json!({"type": "a", "lease_ttl_ms": 300})).await;
    let first = server.lease("w1").await;
    let beat = server.post(&lease_path(&first, "heartbeat"), &json!({"worker_id": "w1"})).await;
    let beat = beat.expect(200);
    assert_eq!(beat["verdict"], "EXTENDED");
    let ends = |value: &serde_json::Value| value["expires_at"].as_str().expect("text").to_owned();
    assert!(ends(&beat) >= ends(&first));
    let stranger = server.post(&lease_path(&first, "heartbeat"), &json!({"worker_id": "w2"})).await;
    assert_eq!(stranger.expect(200), json!({"verdict": "REJECTED", "reason": "not_holder"}));
    let second = server.lease("w2").await;
    assert_eq!(second["task_id"], first["task_id"], "w1 went silent");
    let late = server.post(&lease_path(&first, "heartbeat"), &json!({"worker_id": "w1"})).await;
    assert_eq!(late.expect(200), json!({"verdict": "CANCELLED", "reason": "superseded"}));
    server.stop().await;
}

#[tokio::test]
async fn workers_and_queues_are_listed() {
    let server = TestServer::dev().await;
    server.submit(json!({"type": "a", "queue": "busy"})).await;
    server.submit(json!({"type": "b", "queue": "deep"})).await;
    server
        .submit(json!({"type": "b", "queue": "deep", "not_before": "2999-01-01T00:00:00Z"}))
        .await;
    let request = json!({"worker_id": "w1", "types": ["a"], "tags": {"zone": "b"}});
    server.post("/api/v1/leases", &request).await.expect(200);
    let workers = server.get("/api/v1/workers").await.expect(200);
    let worker = &workers["workers"][0];
    assert_eq!(worker["worker_id"], "w1");
    assert_eq!(worker["health"], "HEALTHY");
    assert_eq!((&worker["in_flight"], &worker["granted"]), (&json!(1), &json!(1)));
    assert_eq!(worker["types"], json!(["a"]));
    assert_eq!(worker["tags"], json!({"zone": "b"}));
    let queues = server.get("/api/v1/queues").await.expect(200);
    let [busy, deep] = [&queues["queues"][0], &queues["queues"][1]];
    assert_eq!(
        (&busy["queue"], &busy["depth"], &busy["in_flight"]),
        (&json!("busy"), &json!(0), &json!(1))
    );
    assert_eq!(
        (&deep["queue"], &deep["depth"], &deep["scheduled"]),
        (&json!("deep"), &json!(1), &json!(1))
    );
    assert!(deep["oldest_age_ms"].is_u64() && busy.get("oldest_age_ms").is_none());
    server.stop().await;
}

#[tokio::test]
async fn a_queue_with_only_dead_tasks_is_listed() {
    let server = TestServer::dev().await;
    let retry = json!({"max_attempts": 2, "backoff_ms": 0});
    let id = server.submit(json!({"type": "a", "queue": "grave", "retry": retry})).await;
    for _ in 0..2 {
        let lease = server.lease("w1").await;
        let fail = json!({"worker_id": "w1", "reason": "no luck"});
        server.post(&lease_path(&lease, "fail"), &fail).await.expect(200);
    }
    let task = server.get(&format!("/api/v1/tasks/{id}")).await.expect(200);
    assert_eq!(task["state"], "DEAD");
    assert_eq!(task["error"]["reason"], "no luck");
    let queues = server.get("/api/v1/queues").await.expect(200);
    assert_eq!(queues["queues"][0]["queue"], "grave");
    assert_eq!(queues["queues"][0]["dead"], 1);
    server.stop().await;
}
