//! Workers over REST: what is seen of them, what they are told, and how they register.

use hyper::Method;
use serde_json::json;

use crate::support::TestServer;

#[tokio::test]
async fn a_worker_that_registers_is_known_with_all_that_it_can_do() {
    let server = TestServer::dev().await;
    let body = json!({
        "workerId": "w1", "capabilities": ["greet"], "tools": ["git"], "tags": {"gpu": "true"},
        "packages": [{"name": "p", "version": "1"}],
    });
    let answer = server.post("/api/workers/register", &body).await.expect(200);
    assert_eq!(answer["worker_id"], "w1");
    assert_eq!(answer["heartbeat_ms"], 10_000);
    let worker = server.get("/api/v1/workers/w1").await.expect(200);
    assert_eq!(worker["types"], json!(["greet"]));
    assert_eq!(worker["tools"], json!(["git"]));
    assert_eq!(worker["tags"], json!({"gpu": "true"}));
    assert_eq!(worker["packages"], json!([{"name": "p", "version": "1"}]));
    assert_eq!((&worker["health"], &worker["in_flight"]), (&json!("HEALTHY"), &json!(0)));
    server.post("/api/workers/register", &json!({"worker_id": "a b"})).await.refused(422, INVALID);
    server.stop().await;
}

#[tokio::test]
async fn a_worker_s_heartbeat_is_judged_lease_by_lease() {
    let server = TestServer::dev().await;
    let id = server.submit(json!({"type": "a"})).await;
    let lease = server.lease("w1").await;
    let held = lease["lease_id"].as_str().expect("a lease");
    let path = "/api/workers/heartbeat";
    let listed = json!({"workerId": "w1", "leases": [held, format!("{id}-9"), "nonsense"]});
    let answer = server.post(path, &listed).await.expect(200);
    let words: Vec<_> = answer["verdicts"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| (one["verdict"].as_str(), one["reason"].as_str()))
        .collect();
    let rejected = Some("REJECTED");
    assert_eq!(
        words,
        [
            (Some("EXTENDED"), None),
            (rejected, Some("unknown_lease")),
            (rejected, Some("malformed"))
        ]
    );
    let all = server.post(path, &json!({"worker_id": "w1"})).await.expect(200);
    assert_eq!(all["verdicts"].as_array().expect("a list").len(), 1, "all that it holds");
    let none = json!({"worker_id": "w1", "leases": []});
    assert_eq!(server.post(path, &none).await.expect(200)["verdicts"], json!([]));
    server.stop().await;
}

#[tokio::test]
async fn a_drain_holds_until_it_is_taken_back_even_over_a_restart() {
    let server = TestServer::dev().await;
    server.post("/api/workers/register", &json!({"worker_id": "w1"})).await.expect(200);
    let commands = "/api/v1/workers/w1/commands";
    let drain = json!({"type": "drain", "reason": "new kernel", "deadline_ms": 60_000});
    let accepted = server.post(commands, &drain).await.expect(202);
    assert_eq!((&accepted["worker_id"], &accepted["delivered"]), (&json!("w1"), &json!(false)));
    let id = server.submit(json!({"type": "a"})).await;

    let server = server.restart().await;
    let ask = json!({"worker_id": "w1", "max": 1});
    let answer = server.post("/api/v1/leases", &ask).await.expect(200);
    assert_eq!(answer["leases"], json!([]), "drained");
    let worker = server.get("/api/v1/workers/w1").await.expect(200);
    assert_eq!(worker["drained_by"], json!(["person"]));
    let why = server.get(&format!("/api/v1/tasks/{id}/explain")).await.expect(200);
    assert_eq!(why["reasons"][0]["code"], "workers_drained", "{why}");

    server.post(commands, &json!({"type": "undrain"})).await.expect(202);
    let answer = server.post("/api/v1/leases", &ask).await.expect(200);
    assert_eq!(answer["leases"][0]["task_id"], id.as_str());
    server.stop().await;
}

#[tokio::test]
async fn a_command_that_makes_no_sense_changes_nothing() {
    let server = TestServer::dev().await;
    let commands = "/api/v1/workers/w1/commands";
    let drain = json!({"type": "drain"});
    server.post(commands, &drain).await.refused(404, "E.WORKER.NOT_FOUND");
    server.get("/api/v1/workers/w1").await.refused(404, "E.WORKER.NOT_FOUND");
    server.post("/api/workers/register", &json!({"worker_id": "w1"})).await.expect(200);
    for bad in [json!({"type": "explode"}), json!({"type": "drain", "when": 1}), json!({})] {
        server.post(commands, &bad).await.refused(422, INVALID);
    }
    let long = json!({"type": "drain", "reason": "x".repeat(2_000)});
    server.post(commands, &long).await.refused(422, INVALID);
    let worker = server.get("/api/v1/workers/w1").await.expect(200);
    assert_eq!(worker["drained_by"], json!([]));
    server.stop().await;
}

#[tokio::test]
async fn the_key_of_session_tokens_can_be_changed() {
    let server = TestServer::dev().await;
    let rotate = || server.call(Method::POST, "/api/v1/session-keys", None);
    let first = rotate().await.expect(201)["key_id"].clone();
    let second = rotate().await.expect(201)["key_id"].clone();
    assert_ne!(first, second);
    server.stop().await;
}

const INVALID: &str = "E.REQUEST.INVALID";
