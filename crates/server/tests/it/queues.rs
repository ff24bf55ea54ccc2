//! Queues over HTTP: who is next, pause, requeue, purge.

use hyper::Method;
use protocol::rest::tokens::Role;
use serde_json::{Value, json};

use crate::support::{TestServer, lease_path};

#[tokio::test]
async fn a_look_at_a_queue_shows_who_is_next() {
    let server = TestServer::dev().await;
    for (name, priority) in [("low", -1), ("first", 0), ("second", 0), ("high", 5)] {
        let task = json!({"type": "a", "queue": "q1", "priority": priority, "parameters": name});
        server.submit(task).await;
    }
    server.submit(json!({"type": "a", "queue": "q2"})).await;
    let later = json!({"type": "a", "queue": "q1", "not_before": "2100-01-01T00:00:00Z"});
    server.submit(later).await;
    let check = async |query: &str, names: &[&str]| {
        let shown = server.get(&format!("/api/v1/queues/q1/tasks{query}")).await.expect(200);
        let tasks = shown["tasks"].as_array().expect("a list");
        let shown_names: Vec<_> = tasks.iter().map(|task| task["parameters"].as_str()).collect();
        let expected: Vec<_> = names.iter().map(|name| Some(*name)).collect();
        assert_eq!(shown_names, expected, "{query}");
        assert_eq!(shown["total"], 4);
    };
    check("", &["high", "first", "second", "low"]).await;
    check("?limit=2", &["high", "first"]).await;
    check("?limit=2&offset=3", &["low"]).await;
    check("?offset=20000", &[]).await;
    let empty = server.get("/api/v1/queues/nobody/tasks").await.expect(200);
    assert_eq!(empty, json!({"queue": "nobody", "tasks": [], "total": 0}));
    let wrong = server.get("/api/v1/queues/a%20b/tasks").await;
    wrong.refused(422, "E.REQUEST.INVALID");
    assert!(wrong.message().starts_with("queue must be"), "{}", wrong.text);
    assert_eq!(server.lease("w1").await["parameters"], "high", "the look granted nothing");
    server.stop().await;
}

#[tokio::test]
async fn a_paused_queue_grants_nothing_across_a_restart_and_says_who_paused_it() {
    let server = TestServer::locked().await;
    let made = server.post("/api/v1/tokens", &json!({"role": "client", "name": "ada"})).await;
    let ada = made.expect(201)["token"].as_str().expect("a token").to_owned();
    let task = server.submit(json!({"type": "a", "queue": "q1"})).await;
    let path = "/api/v1/queues/q1/pause";
    let paused = server.call_as(Some(&ada), Method::POST, path, None).await.expect(200);
    assert_eq!(paused["paused"]["by"], "ada");
    assert_eq!(paused["depth"], 1);
    let server = server.restart().await;
    server.until_ready().await;
    let list = server.get("/api/v1/queues").await.expect(200);
    assert_eq!(list["queues"][0]["paused"], paused["paused"], "the same moment too");
    let ask = json!({"worker_id": "w1"});
    let nothing = server.post("/api/v1/leases", &ask).await.expect(200);
    assert_eq!(nothing["leases"], json!([]));
    let peek = server.get("/api/v1/queues/q1/tasks").await.expect(200);
    assert_eq!((&peek["total"], &peek["paused"]["by"]), (&json!(1), &json!("ada")));
    let resumed = server.post("/api/v1/queues/q1/resume", &json!({})).await.expect(200);
    assert!(resumed.get("paused").is_none());
    assert_eq!(server.lease("w1").await["task_id"], task.as_str());
    server.post("/api/v1/queues/q1/resume", &json!({})).await.expect(200);
    let server = server.restart().await;
    assert!(queue(&server, "q1").await.get("paused").is_none());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_and_a_resume_at_once_end_alike_before_and_after_a_restart() {
    let server = TestServer::dev().await;
    let empty = json!({});
    for round in 0..60 {
        let path = |verb: &str| format!("/api/v1/queues/q{round}/{verb}");
        let (pause, resume) = (path("pause"), path("resume"));
        let both = tokio::join!(server.post(&pause, &empty), server.post(&resume, &empty));
        both.0.expect(200);
        both.1.expect(200);
    }
    let before = paused(&server).await;
    let server = server.restart().await;
    assert_eq!(paused(&server).await, before);
    server.stop().await;
}

#[tokio::test]
async fn what_ended_badly_is_requeued_a_bounded_number_at_a_time() {
    let server = TestServer::dev().await;
    for _ in 0..3 {
        end(&server, "q1", "w1", true).await;
    }
    end(&server, "q1", "w1", false).await;
    end(&server, "q2", "w1", true).await;
    assert_eq!(queue(&server, "q1").await["dead"], 3);
    let requeue = async |body: Value| server.post("/api/v1/queues/q1/requeue", &body).await;
    let first = requeue(json!({"max": 2})).await.expect(200);
    assert_eq!(first, json!({"queue": "q1", "requeued": 2, "dead": 1, "more": true}));
    let second = requeue(json!({"max": 2})).await.expect(200);
    assert_eq!(second, json!({"queue": "q1", "requeued": 1, "dead": 0, "more": false}));
    assert_eq!(requeue(json!({})).await.expect(200)["requeued"], 0, "a failed one stays");
    assert_eq!(requeue(json!({"failed": true})).await.expect(200)["requeued"], 1);
    assert_eq!(queue(&server, "q1").await["depth"], 4);
    assert_eq!(queue(&server, "q2").await["dead"], 1, "another queue's stays");
    for wrong in
        [json!({"max": 0}), json!({"max": 1_001}), json!({"al": true}), json!({"failed": 1})]
    {
        requeue(wrong).await.refused(422, "E.REQUEST.INVALID");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_purge_stops_what_is_queued_and_nothing_else() {
    let server = TestServer::dev().await;
    let held = server.submit(json!({"type": "a", "queue": "q1"})).await;
    let lease = server.lease("w1").await;
    for _ in 0..3 {
        server.submit(json!({"type": "a", "queue": "q1"})).await;
    }
    let later = json!({"type": "a", "queue": "q1", "not_before": "2100-01-01T00:00:00Z"});
    server.submit(later).await;
    server.submit(json!({"type": "a", "queue": "q2"})).await;
    let purge = async |body: Value| server.post("/api/v1/queues/q1/purge", &body).await.expect(200);
    let first = purge(json!({"max": 2})).await;
    assert_eq!(first, json!({"queue": "q1", "stopped": 2, "depth": 1, "more": true}));
    let second = purge(json!({})).await;
    assert_eq!(second, json!({"queue": "q1", "stopped": 1, "depth": 0, "more": false}));
    assert_eq!(queue(&server, "q1").await["scheduled"], 1, "what waits for a moment stays");
    assert_eq!(purge(json!({"waiting": true})).await["stopped"], 1);
    assert_eq!(queue(&server, "q2").await["depth"], 1, "another queue's stays");
    let done = server.post(&lease_path(&lease, "complete"), &json!({"worker_id": "w1"})).await;
    assert_eq!(done.expect(200)["verdict"], "COMMITTED", "{held} was running");
    server.stop().await;
}

#[tokio::test]
async fn a_tenant_touches_no_queue_of_another() {
    let server = TestServer::locked().await;
    server.submit(json!({"type": "a", "queue": "q1"})).await;
    let theirs = server.token("theirs", Role::Admin).await;
    for verb in ["pause", "purge", "requeue"] {
        let path = format!("/api/v1/queues/q1/{verb}");
        server.call_as(Some(&theirs), Method::POST, &path, Some("{}")).await.expect(200);
    }
    let look = server.call_as(Some(&theirs), Method::GET, "/api/v1/queues/q1/tasks", None).await;
    assert_eq!(look.expect(200)["total"], 0);
    let own = queue(&server, "q1").await;
    assert_eq!((&own["depth"], own.get("paused")), (&json!(1), None));
    server.stop().await;
}

/// The names of the queues that are paused.
async fn paused(server: &TestServer) -> Vec<Value> {
    let list = server.get("/api/v1/queues").await.expect(200);
    let queues = list["queues"].as_array().expect("a list");
    let paused = queues.iter().filter(|queue| queue.get("paused").is_some());
    paused.map(|queue| queue["queue"].clone()).collect()
}

async fn queue(server: &TestServer, name: &str) -> Value {
    let list = server.get("/api/v1/queues").await.expect(200);
    let queues = list["queues"].as_array().expect("a list");
    queues.iter().find(|queue| queue["queue"] == name).cloned().unwrap_or_default()
}

/// A task that is out of attempts, or failed for good.
async fn end(server: &TestServer, queue: &str, worker: &str, is_dead: bool) {
    let retry = json!({"max_attempts": 2, "backoff_ms": 0});
    server.submit(json!({"type": "a", "queue": queue, "retry": retry})).await;
    let failed = json!({"worker_id": worker, "reason": "broken", "retryable": is_dead});
    let states = if is_dead { &["RETRYING", "DEAD"][..] } else { &["FAILED"] };
    for state in states {
        let lease = server.lease(worker).await;
        let answer = server.post(&lease_path(&lease, "fail"), &failed).await.expect(200);
        assert_eq!(answer["task_state"], *state);
    }
}
