//! Which worker gets what: resources that only one has, and runs that are taken from a worker.

use serde_json::{Value, json};

use crate::flows::{node, workflow};
use crate::support::{TestServer, lease_path};

#[tokio::test]
async fn a_task_goes_to_the_worker_that_has_its_resource() {
    let server = TestServer::dev().await;
    let page = json!({"resourceRef": {"resourceId": "p1", "workerName": "w1", "type": "page"}});
    let task = server.submit(json!({"type": "a", "parameters": {"page": page}})).await;
    assert_eq!(leases(&server, "w2").await, 0);
    let why = server.get(&format!("/api/v1/tasks/{task}/explain")).await.expect(200);
    assert_eq!(why["reasons"][0]["code"], "pinned_away");
    let message = why["reasons"][0]["message"].as_str().expect("a sentence");
    assert!(message.starts_with("it needs resource p1, and worker w1 is away"), "{message}");
    assert_eq!(leases(&server, "w1").await, 1);
    server.stop().await;
}

#[tokio::test]
async fn resources_of_two_workers_are_a_conflict() {
    let server = TestServer::dev().await;
    let reference = |worker: &str| json!({"resource_id": "p", "worker_name": worker, "type": "x"});
    let submit = async |refs: Value| {
        let task = json!({"type": "a", "parameters": {"resource_refs": refs}});
        server.post("/api/v1/tasks", &json!({"tasks": [task]})).await
    };
    let answer = submit(json!([reference("w1"), reference("w2")])).await;
    answer.refused(409, "E.RESOURCE.CONFLICT");
    assert!(answer.message().starts_with("tasks[0].parameters: resource p is on worker w1"));
    let answer = submit(json!([{"resource_id": "p"}])).await;
    answer.refused(422, "E.REQUEST.INVALID");
    server.stop().await;
}

#[tokio::test]
async fn a_run_is_taken_from_its_worker() {
    let server = TestServer::dev().await;
    let nodes: Vec<Value> = (1..=3).map(|n| node(n, json!({}))).collect();
    let run = server.start_run(&workflow(&nodes, &[])).await;
    let path = format!("/api/v1/scheduler/runs/{run}/rebind");
    let drain = json!({"mode": "drain"});
    server.post(&path, &drain).await.refused(409, "E.RUN.CONFLICT");
    let lease = server.lease("w1").await;
    let rebound = server.post(&path, &drain).await.expect(200);
    assert_eq!(rebound, json!({"runId": run, "bindings": []}));
    assert_eq!(leases(&server, "w1").await, 0, "it gets nothing more of the run");
    let nodes = server.run(&run).await["nodes"].clone();
    let queued = nodes.as_array().and_then(|all| all.iter().find(|n| n["status"] == "queued"));
    let queued = queued.and_then(|node| node["taskId"].as_str()).expect("a node that waits");
    let why = server.get(&format!("/api/v1/tasks/{queued}/explain")).await.expect(200);
    assert_eq!(why["reasons"][0]["code"], "workers_kept_away", "{why}");
    let hint = why["reasons"][0]["hint"].as_str().expect("a hint");
    assert!(hint.ends_with("`astra run rebind 1 --package core.noop --to NAME`"), "{hint}");
    let done = json!({"worker_id": "w1", "result": {}});
    let verdict = server.post(&lease_path(&lease, "complete"), &done).await.expect(200);
    assert_eq!(verdict["verdict"], "COMMITTED", "what it had it finishes");
    assert_eq!(leases(&server, "w2").await, 1);
    let back = json!({"mode": "move", "workerName": "w1", "package": "core.noop"});
    let rebound = server.post(&path, &back).await.expect(200);
    assert_eq!(rebound["bindings"][0]["worker"], "w1");
    assert_eq!(leases(&server, "w1").await, 1);
    server.stop().await;
}

#[tokio::test]
async fn what_was_said_of_a_run_outlives_the_server_and_not_the_run() {
    let server = TestServer::dev().await;
    let package = json!({"package": {"name": "tools", "version": "1.0.0"}});
    let nodes: Vec<Value> = (1..=3).map(|n| node(n, package.clone())).collect();
    let run = server.start_run(&workflow(&nodes, &[])).await;
    let path = format!("/api/v1/scheduler/runs/{run}/rebind");
    let able = |worker: &str| {
        let packages = json!([{"name": "tools", "version": "1.0.0"}]);
        json!({"worker_id": worker, "packages": packages})
    };
    let take = async |server: &TestServer, worker: &str| {
        let answer = server.post("/api/v1/leases", &able(worker)).await.expect(200);
        answer["leases"].as_array().expect("a list").first().cloned()
    };
    let first = take(&server, "w1").await.expect("a lease");
    let rebound = server.post(&path, &json!({"mode": "drain"})).await.expect(200);
    assert_eq!(rebound["bindings"], json!([]));
    assert_eq!(server.run(&run).await["bindings"], json!([]), "the next grant says it");
    let server = server.restart().await;
    server.until_ready().await;
    assert_eq!(take(&server, "w1").await, None, "the run is still kept from it");
    assert_eq!(server.run(&run).await["bindings"], json!([]));
    let second = take(&server, "w2").await.expect("a lease");
    assert_eq!(server.run(&run).await["bindings"][0]["worker"], "w2");
    let back = json!({"mode": "move", "workerName": "w1", "package": "tools"});
    let rebound = server.post(&path, &back).await.expect(200);
    let server = server.restart().await;
    server.until_ready().await;
    assert_eq!(server.run(&run).await["bindings"], rebound["bindings"]);
    let third = take(&server, "w1").await.expect("it may again");
    for (lease, worker) in [(first, "w1"), (second, "w2"), (third, "w1")] {
        let done = json!({"worker_id": worker, "result": {}});
        server.post(&lease_path(&lease, "complete"), &done).await.expect(200);
    }
    assert_eq!(server.run(&run).await["status"], "succeeded");
    server.post(&path, &back).await.refused(404, "E.RUN.NOT_FOUND");
    server.stop().await;
}

#[tokio::test]
async fn a_rebind_that_makes_no_sense_is_refused() {
    let server = TestServer::dev().await;
    let run = server.start_run(&workflow(&[node(1, json!({}))], &[])).await;
    let path = format!("/api/v1/scheduler/runs/{run}/rebind");
    let to_nobody = json!({"mode": "move", "workerName": "w9", "package": "core.noop"});
    server.post(&path, &to_nobody).await.refused(404, "E.WORKER.NOT_FOUND");
    server.post(&path, &json!({"mode": "swap"})).await.refused(422, "E.REQUEST.INVALID");
    server.post(&path, &json!({})).await.refused(422, "E.REQUEST.INVALID");
    let unknown = "/api/v1/scheduler/runs/99/rebind";
    server.post(unknown, &json!({"mode": "drain"})).await.refused(404, "E.RUN.NOT_FOUND");
    server.complete_next(json!({})).await;
    server.post(&path, &json!({"mode": "drain"})).await.refused(404, "E.RUN.NOT_FOUND");
    server.stop().await;
}

/// How many tasks a worker is given right now, one at most.
async fn leases(server: &TestServer, worker: &str) -> usize {
    let answer = server.post("/api/v1/leases", &json!({"worker_id": worker})).await.expect(200);
    answer["leases"].as_array().expect("a list").len()
}
