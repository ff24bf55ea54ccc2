//! Runs over HTTP: started once, listed, looked at, stopped; and what is refused.

use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::Method;
use hyper::header::CONTENT_TYPE;
use model::Timestamp;
use protocol::rest::tokens::Role;
use serde_json::{Value, json};

use crate::flows::{chain, edge, id, node, node_of, workflow};
use crate::support::{TestServer, lease_path};
use crate::waiting::wait_until;

#[tokio::test]
async fn a_run_is_executed_and_shown_node_by_node() {
    let server = TestServer::dev().await;
    let body = json!({"clientId": "tab-1", "workflow": chain(2), "inputs": {"who": "ada"}});
    let started = server.post("/api/v1/runs", &body).await.expect(202);
    assert_eq!((&started["number"], &started["status"]), (&json!(1), &json!("queued")));
    assert_eq!((&started["clientId"], &started["existed"]), (&json!("tab-1"), &json!(false)));
    assert_eq!(started["definitionHash"].as_str().map(str::len), Some(64));
    let run_id = started["runId"].as_str().expect("an id").to_owned();
    let run = server.run("1").await;
    assert_eq!((&run["runId"], &run["status"]), (&json!(run_id), &json!("queued")));
    assert_eq!((&run["name"], &run["inputs"]), (&json!("A small one"), &json!({"who": "ada"})));
    assert_eq!(run["startedBy"], "dev");
    assert_eq!(node_of(&run, 1)["reason"], "no worker has taken it yet");
    assert_eq!(node_of(&run, 2)["reason"], "waits for N1");
    assert_eq!(node_of(&run, 2)["state"]["stage"], "queued");
    let lease = server.lease("w1").await;
    let run = server.run(&run_id).await;
    assert_eq!((&run["status"], &run["counts"]["running"]), (&json!("running"), &json!(1)));
    let first = node_of(&run, 1);
    assert_eq!((&first["workerName"], &first["attempts"]), (&json!("w1"), &json!(1)));
    assert_eq!(first["dispatchId"], lease["lease_id"]);
    let report = json!({"worker_id": "w1", "result": {"n": 1}});
    server.post(&crate::support::lease_path(&lease, "complete"), &report).await.expect(200);
    server.complete_next(json!({"n": 2})).await;
    let run = server.run(&run_id).await;
    assert_eq!(run["status"], "succeeded");
    let counts = json!({"queued": 0, "running": 0, "succeeded": 2, "failed": 0, "cancelled": 0,
        "skipped": 0, "total": 2});
    assert_eq!(run["counts"], counts);
    assert_eq!(node_of(&run, 2)["result"], json!({"n": 2}));
    assert!(run["finishedAt"].is_string() && run["outputs"].is_object(), "{run}");
    let short = server.get("/api/v1/runs/1?nodes=false").await.expect(200);
    let mut without_nodes = run.clone();
    without_nodes.as_object_mut().expect("a run is an object").remove("nodes");
    assert_eq!(short, without_nodes);
    let server = server.restart().await;
    assert_eq!(server.run(&run_id).await, run, "the same after a restart");
    server.stop().await;
}

#[tokio::test]
async fn a_failed_node_fails_its_run_and_is_named() {
    let server = TestServer::dev().await;
    let run_id = server.start_run(&chain(3)).await;
    server.complete_next(json!({})).await;
    server.fail_next("the disk is full").await;
    let run = server.run(&run_id).await;
    assert_eq!(run["status"], "failed");
    assert_eq!((&run["error"]["code"], &run["error"]["nodeId"]), (&json!("E.TEST"), &json!(id(2))));
    assert_eq!(node_of(&run, 2)["error"]["message"], "the disk is full");
    assert_eq!(node_of(&run, 3)["status"], "cancelled");
    assert_eq!(node_of(&run, 3)["reason"], "the run ended before its turn came");
    server.stop().await;
}

#[tokio::test]
async fn the_same_key_starts_one_run() {
    let server = TestServer::dev().await;
    let start = async |key: &str, body: &Value| {
        let mut request = server.request(Method::POST, "/api/v1/runs");
        request.headers_mut().insert(CONTENT_TYPE, "application/json".parse().expect("text"));
        request.headers_mut().insert("idempotency-key", key.parse().expect("text"));
        *request.body_mut() = Full::from(body.to_string()).boxed();
        server.send(request).await
    };
    let body = json!({"workflow": chain(1)});
    let first = start("order 66", &body).await.expect(202);
    let again = start("order 66", &body).await.expect(202);
    assert_eq!((&again["runId"], &again["existed"]), (&first["runId"], &json!(true)));
    let other = json!({"workflow": chain(1), "inputs": {"a": 1}});
    start("order 66", &other).await.refused(409, "E.RUN.CONFLICT");
    server.complete_next(json!({})).await;
    let ended = start("order 66", &body).await.expect(202);
    assert_eq!((&ended["runId"], &ended["status"]), (&first["runId"], &json!("succeeded")));
    assert_eq!(start("order 67", &body).await.expect(202)["number"], 2);
    start("", &body).await.refused(422, "E.REQUEST.INVALID");
    server.stop().await;
}

#[tokio::test]
async fn curl_need_not_say_that_it_sends_json() {
    let server = TestServer::dev().await;
    for media_type in [None, Some("application/x-www-form-urlencoded")] {
        let mut request = server.request(Method::POST, "/api/v1/runs");
        if let Some(media_type) = media_type {
            request.headers_mut().insert(CONTENT_TYPE, media_type.parse().expect("text"));
        }
        *request.body_mut() = Full::from(json!({"workflow": chain(1)}).to_string()).boxed();
        server.send(request).await.expect(202);
    }
    let mut request = server.request(Method::POST, "/api/v1/runs");
    request.headers_mut().insert(CONTENT_TYPE, "text/xml".parse().expect("text"));
    server.send(request).await.refused(415, "E.REQUEST.MEDIA_TYPE");
    server.stop().await;
}

#[tokio::test]
async fn the_document_s_own_example_is_accepted() {
    let server = TestServer::dev().await;
    let example = include_str!("../../../../docs/examples/run-request.json");
    let started = server.call(Method::POST, "/api/v1/runs", Some(example)).await.expect(202);
    let run_id = started["runId"].as_str().expect("an id");
    let answer = server.get(&format!("/api/v1/runs/{run_id}/definition")).await;
    let tag = answer.headers["etag"].to_str().expect("text").to_owned();
    assert_eq!(tag, format!("\"{}\"", started["definitionHash"].as_str().expect("text")));
    let mut definition = answer.expect(200);
    for node in definition["nodes"].as_array_mut().expect("nodes") {
        let node = node.as_object_mut().expect("an object");
        assert_eq!(node.remove("state").expect("a state")["stage"], "queued");
    }
    let sent: Value = serde_json::from_str(example).expect("JSON");
    assert_eq!(definition, sent["workflow"]);
    server.stop().await;
}

#[tokio::test]
async fn a_wait_ends_with_the_run() {
    let server = TestServer::dev().await;
    let body = json!({"workflow": chain(1)});
    let waiting = server.post("/api/v1/runs?wait=30", &body);
    let (answer, _) = tokio::join!(waiting, server.complete_next(json!({})));
    assert_eq!(answer.expect(202)["status"], "succeeded");
    let run_id = server.start_run(&chain(1)).await;
    let looking = async { server.get(&format!("/api/v1/runs/{run_id}?wait=30")).await };
    let (run, _) = tokio::join!(looking, server.complete_next(json!({})));
    assert_eq!(run.expect(200)["status"], "succeeded");
    server.post("/api/v1/runs?wait=61", &body).await.refused(422, "E.REQUEST.INVALID");
    server.stop().await;
}

#[tokio::test]
async fn runs_are_listed_newest_first_and_by_what_they_are() {
    let server = TestServer::dev().await;
    for client in ["a", "b", "a"] {
        let body = json!({"workflow": chain(1), "clientId": client});
        server.post("/api/v1/runs", &body).await.expect(202);
    }
    server.complete_next(json!({})).await;
    server.fail_next("no").await;
    let numbers = async |query: &str| {
        let page = server.get(&format!("/api/v1/runs{query}")).await.expect(200);
        let items = page["items"].as_array().expect("a list").clone();
        assert!(items.iter().all(|run| run.get("nodes").is_none()));
        let numbers: Vec<_> = items.iter().map(|run| run["number"].as_u64()).collect();
        (numbers, page["nextCursor"].as_str().map(str::to_owned))
    };
    assert_eq!(numbers("").await, (vec![Some(3), Some(2), Some(1)], None));
    assert_eq!(numbers("?status=succeeded").await.0, [Some(1)]);
    assert_eq!(numbers("?status=failed,queued").await.0, [Some(3), Some(2)]);
    assert_eq!(numbers("?clientId=a").await.0, [Some(3), Some(1)]);
    assert_eq!(numbers(&format!("?workflowId={}", id(900))).await.0.len(), 3);
    assert_eq!(numbers("?workflowId=other").await.0, []);
    let (first, cursor) = numbers("?limit=2").await;
    assert_eq!(first, [Some(3), Some(2)]);
    let cursor = cursor.expect("there is more");
    assert_eq!(numbers(&format!("?limit=2&cursor={cursor}")).await.0, [Some(1)]);
    for wrong in ["?limit=0", "?limit=201", "?status=done", "?cursor=x", "?state=failed"] {
        server.get(&format!("/api/v1/runs{wrong}")).await.refused(422, "E.REQUEST.INVALID");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_stopped_run_stops_its_tasks_and_stays_stopped() {
    let server = TestServer::dev().await;
    let run_id = server.start_run(&chain(2)).await;
    let lease = server.lease("w1").await;
    let path = format!("/api/v1/runs/{run_id}/cancel");
    for _ in 0..2 {
        let answer = server.post(&path, &json!({})).await.expect(200);
        assert_eq!(answer["status"], "cancelled");
    }
    let report = json!({"worker_id": "w1", "result": {}});
    let late = server.post(&crate::support::lease_path(&lease, "complete"), &report).await;
    assert_eq!(late.expect(200)["verdict"], "CANCELLED");
    let run = server.run(&run_id).await;
    assert_eq!(run["counts"]["cancelled"], 2);
    let done = server.start_run(&chain(1)).await;
    server.complete_next(json!({})).await;
    let path = format!("/api/v1/runs/{done}/cancel");
    server.post(&path, &json!({})).await.refused(409, "E.RUN.CONFLICT");
    server.stop().await;
}

#[tokio::test]
async fn what_cannot_run_is_refused_whole_with_every_problem() {
    let server = TestServer::dev().await;
    let refused = async |body: &Value, code: &str| {
        let answer = server.post("/api/v1/runs", body).await;
        answer.refused(422, code);
        answer.json()["error"].clone()
    };
    let cycle = workflow(&[node(1, json!({})), node(2, json!({}))], &[edge(1, 2), edge(2, 1)]);
    let error = refused(&json!({"workflow": cycle}), "E.FLOW.INVALID").await;
    assert_eq!(error["problems"][0]["code"], "E.FLOW.CYCLE", "{error}");
    let lost = workflow(&[node(1, json!({})), node(1, json!({}))], &[edge(1, 7)]);
    let error = refused(&json!({"workflow": lost}), "E.FLOW.INVALID").await;
    let codes: Vec<_> =
        error["problems"].as_array().expect("a list").iter().map(|one| &one["code"]).collect();
    assert!(codes.contains(&&json!("E.FLOW.DUPLICATE_ID")), "{error}");
    assert!(codes.contains(&&json!("E.FLOW.UNKNOWN_NODE")), "{error}");
    for wrong in [
        json!({}),
        json!({"workflow": chain(1), "inputs": [1]}),
        json!({"workflow": chain(1), "inputs": null}),
        json!({"workflow": chain(1), "workflowId": id(900)}),
        json!({"workflow": chain(1), "version": 1}),
        json!({"workflow": chain(1), "parameters": {}}),
        json!({"workflow": chain(1), "clientId": "x".repeat(257)}),
    ] {
        refused(&wrong, "E.REQUEST.INVALID").await;
    }
    refused(&json!({"workflow": 7}), "E.FLOW.INVALID").await;
    let deep = format!(r#"{{"workflow":{}{}}}"#, "[".repeat(200_000), "]".repeat(200_000));
    let answer = server.call(Method::POST, "/api/v1/runs", Some(&deep)).await;
    assert!(answer.status.is_client_error(), "{}", answer.text);
    let unknown = json!({"workflowId": id(1)});
    server.post("/api/v1/runs", &unknown).await.refused(404, "E.WORKFLOW.NOT_FOUND");
    server.call(Method::POST, "/api/v1/runs", Some("{")).await.refused(400, "E.REQUEST.MALFORMED");
    assert_eq!(server.get("/api/v1/runs").await.expect(200)["items"], json!([]));
    server.stop().await;
}

#[tokio::test]
async fn a_definition_of_many_megabytes_is_taken_and_one_of_too_many_is_not() {
    let server = TestServer::dev().await;
    let long = "x".repeat(20 * 1024 * 1024);
    let flow = workflow(&[node(1, json!({"note": long}))], &[]);
    server.start_run(&flow).await;
    let too_long = format!(r#"{{"workflow":"{}"}}"#, "x".repeat(64 * 1024 * 1024));
    let answer = server.call(Method::POST, "/api/v1/runs", Some(&too_long)).await;
    answer.refused(413, "E.REQUEST.TOO_LARGE");
    server.stop().await;
}

#[tokio::test]
async fn another_tenant_s_run_is_not_there() {
    let server = TestServer::locked().await;
    let run_id = server.start_run(&chain(1)).await;
    let other = server.token("other", Role::Admin).await;
    for (method, path) in [
        (Method::GET, String::new()),
        (Method::GET, "/definition".to_owned()),
        (Method::POST, "/cancel".to_owned()),
        (Method::POST, "/retry".to_owned()),
        (Method::POST, format!("/nodes/{}/signal", id(1))),
        (Method::GET, format!("/nodes/{}/explain", id(1))),
    ] {
        for run in [run_id.as_str(), "1", "x", "99999999999999999999"] {
            let path = format!("/api/v1/runs/{run}{path}");
            let answer = server.call_as(Some(&other), method.clone(), &path, None).await;
            answer.refused(404, "E.RUN.NOT_FOUND");
        }
    }
    assert_eq!(server.run(&run_id).await["status"], "queued");
    server.stop().await;
}

#[tokio::test]
async fn a_node_began_when_its_worker_got_it() {
    let server = TestServer::dev().await;
    let package = json!({"package": {"name": "tools", "version": "1.0.0"}});
    let run = server.start_run(&workflow(&[node(1, package), node(2, json!({}))], &[])).await;
    let created = moment(&server.run(&run).await["createdAt"]);
    // Runs that no worker takes, until one of them is younger.
    let other = json!({"package": {"name": "others", "version": "1.0.0"}});
    let younger = async || {
        let run = server.start_run(&workflow(&[node(1, other.clone())], &[])).await;
        let seen = moment(&server.run(&run).await["createdAt"]);
        if seen > created { Ok(seen) } else { Err(seen) }
    };
    let waited = wait_until("a younger run", Duration::from_secs(5), younger).await;
    let packages = json!([{"name": "tools", "version": "1.0.0"}]);
    let ask = json!({"worker_id": "w1", "packages": packages});
    let leases = server.post("/api/v1/leases", &ask).await.expect(200);
    let shown = server.run(&run).await;
    let began = node_of(&shown, 1)["startedAt"].clone();
    assert!(moment(&began) >= waited, "{shown}");
    let done = json!({"worker_id": "w1", "result": {}});
    server.post(&lease_path(&leases["leases"][0], "complete"), &done).await.expect(200);
    let check = async |server: &TestServer| {
        let shown = server.run(&run).await;
        assert_eq!(node_of(&shown, 1)["status"], "succeeded");
        assert_eq!(node_of(&shown, 1)["startedAt"], began);
        assert_eq!(shown["startedAt"], began);
        assert_eq!(shown["bindings"][0]["boundAt"], began);
    };
    check(&server).await;
    let server = server.restart().await;
    server.until_ready().await;
    check(&server).await;
    server.stop().await;
}

#[tokio::test]
async fn a_run_of_which_nothing_began_is_queued_in_lists_too() {
    let server = TestServer::dev().await;
    let first = server.start_run(&chain(1)).await;
    let second = server.start_run(&chain(1)).await;
    let list = async |server: &TestServer, query: &str| {
        let page = server.get(&format!("/api/v1/runs{query}")).await.expect(200);
        let items = page["items"].as_array().expect("a list").iter();
        items.map(|run| (run["runId"].clone(), run["status"].clone())).collect::<Vec<_>>()
    };
    let shown = |run: &str, status: &str| (json!(run), json!(status));
    let both = [shown(&second, "queued"), shown(&first, "queued")];
    assert_eq!(list(&server, "").await, both);
    assert_eq!(list(&server, "?status=queued").await, both);
    let lease = server.lease("w1").await;
    let server = server.restart().await;
    server.until_ready().await;
    let both = [shown(&second, "queued"), shown(&first, "running")];
    assert_eq!(list(&server, "").await, both);
    assert_eq!(list(&server, "?status=running").await, both[1..]);
    assert_eq!(list(&server, "?status=queued").await, both[..1]);
    assert_eq!(list(&server, "?status=queued,running").await, both);
    for (run, status) in [(&first, "running"), (&second, "queued")] {
        assert_eq!(server.run(run).await["status"], status, "one run alone says the same");
    }
    let done = json!({"worker_id": "w1", "result": {}});
    server.post(&lease_path(&lease, "complete"), &done).await.expect(200);
    assert_eq!(list(&server, "?status=running").await, []);
    let ended = server.run(&first).await;
    let page = server.get("/api/v1/runs?status=succeeded").await.expect(200);
    assert_eq!(page["items"][0]["startedAt"], ended["startedAt"]);
    server.stop().await;
}

fn moment(text: &Value) -> Timestamp {
    text.as_str().expect("a moment").parse().expect("a moment")
}
