//! Runs that are taken up again.

use http_body_util::{BodyExt, Full};
use hyper::Method;
use hyper::header::CONTENT_TYPE;
use serde_json::{Value, json};

use crate::flows::{chain, edge, id, node, node_of, workflow};
use crate::support::TestServer;

#[tokio::test]
async fn only_what_failed_and_what_lies_behind_is_executed_again() {
    let server = TestServer::dev().await;
    let run_id = server.start_run(&chain(3)).await;
    let path = format!("/api/v1/runs/{run_id}/retry");
    server.post(&path, &json!({})).await.refused(409, "E.RUN.CONFLICT");
    server.complete_next(json!({"n": 1})).await;
    server.fail_next("odd").await;
    let again = server.post(&path, &json!({"fromFailed": true})).await.expect(202);
    assert_eq!((&again["number"], &again["existed"]), (&json!(2), &json!(false)));
    let run = server.run("2").await;
    assert_eq!(run["retryOf"], run_id);
    let first = node_of(&run, 1);
    assert_eq!((&first["reused"], &first["status"]), (&json!(true), &json!("succeeded")));
    assert_eq!(first["result"], json!({"n": 1}));
    server.complete_next(json!({"n": 2})).await;
    server.complete_next(json!({"n": 3})).await;
    let run = server.run("2").await;
    assert_eq!((&run["status"], &run["counts"]["succeeded"]), (&json!("succeeded"), &json!(3)));
    assert_eq!(server.run(&run_id).await["status"], "failed", "the old run stays what it was");
    let path = "/api/v1/runs/2/retry";
    server.post(path, &json!({})).await.refused(409, "E.RUN.CONFLICT");
    server.stop().await;
}

#[tokio::test]
async fn a_named_node_is_executed_again_with_other_parameters() {
    let server = TestServer::dev().await;
    let nodes = [
        node(1, json!({})),
        node(2, json!({"parameters": {"a": 1, "b": 2}, "odd": {"kept": true}})),
        node(3, json!({})),
    ];
    let run_id = server.start_run(&workflow(&nodes, &[edge(1, 2)])).await;
    for _ in 0..3 {
        server.complete_next(json!({})).await;
    }
    let retry = format!("/api/v1/runs/{run_id}/retry");
    let body = json!({"nodeId": id(2), "parameters": {id(2): {"b": 3}}});
    let again = server.post(&retry, &body).await.expect(202);
    let run_id = again["runId"].as_str().expect("an id").to_owned();
    let lease = server.complete_next(json!({})).await;
    assert_eq!(lease["parameters"], json!({"a": 1, "b": 3}));
    let run = server.run(&run_id).await;
    assert_eq!(run["status"], "succeeded");
    let reused: Vec<_> = [1, 2, 3].map(|n| node_of(&run, n)["reused"] == true).to_vec();
    assert_eq!(reused, [true, false, true]);
    let shown = server.get(&format!("/api/v1/runs/{run_id}/definition")).await.expect(200);
    assert_eq!(shown["nodes"][1]["odd"], json!({"kept": true}));
    let first = server.post(&retry, &json!({"nodeId": id(1)})).await.expect(202);
    let run = server.run(first["runId"].as_str().expect("an id")).await;
    let reused: Vec<_> = [1, 2, 3].map(|n| node_of(&run, n)["reused"] == true).to_vec();
    assert_eq!(reused, [false, false, true], "what lies behind is executed again too");
    let all = server.post(&retry, &json!({"fromFailed": false})).await.expect(202);
    assert_eq!(server.run(all["runId"].as_str().expect("an id")).await["counts"]["succeeded"], 0);
    server.stop().await;
}

#[tokio::test]
async fn a_retry_takes_over_what_is_not_said_anew_and_is_made_once() {
    let server = TestServer::dev().await;
    let body = json!({"workflow": chain(1), "clientId": "tab-1", "inputs": {"a": 1}});
    server.post("/api/v1/runs", &body).await.expect(202);
    server.fail_next("odd").await;
    let retry = async |body: &Value| {
        let mut request = server.request(Method::POST, "/api/v1/runs/1/retry");
        request.headers_mut().insert(CONTENT_TYPE, "application/json".parse().expect("text"));
        request.headers_mut().insert("idempotency-key", "again".parse().expect("text"));
        *request.body_mut() = Full::from(body.to_string()).boxed();
        server.send(request).await
    };
    assert_eq!(retry(&json!({})).await.expect(202)["existed"], false);
    let twice = retry(&json!({})).await.expect(202);
    assert_eq!((&twice["number"], &twice["existed"]), (&json!(2), &json!(true)));
    retry(&json!({"inputs": {"a": 2}})).await.refused(409, "E.RUN.CONFLICT");
    let run = server.run("2").await;
    assert_eq!((&run["clientId"], &run["inputs"]), (&json!("tab-1"), &json!({"a": 1})));
    let other = json!({"inputs": {"a": 3}, "clientId": "tab-2"});
    server.post("/api/v1/runs/1/retry", &other).await.expect(202);
    let run = server.run("3").await;
    assert_eq!((&run["clientId"], &run["inputs"]), (&json!("tab-2"), &json!({"a": 3})));
    server.stop().await;
}

#[tokio::test]
async fn a_retry_that_makes_no_sense_is_refused() {
    let server = TestServer::dev().await;
    let run_id = server.start_run(&chain(1)).await;
    server.fail_next("odd").await;
    let path = format!("/api/v1/runs/{run_id}/retry");
    let wrong: [Value; 6] = [
        json!({"nodeId": id(9)}),
        json!({"nodeId": "one"}),
        json!({"parameters": {id(9): {}}}),
        json!({"parameters": {id(1): 7}}),
        json!({"inputs": 7}),
        json!({"from": id(1)}),
    ];
    for body in wrong {
        server.post(&path, &body).await.refused(422, "E.REQUEST.INVALID");
    }
    assert_eq!(
        server.get("/api/v1/runs").await.expect(200)["items"].as_array().map(Vec::len),
        Some(1)
    );
    server.stop().await;
}
