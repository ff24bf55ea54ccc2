//! Webhooks: a call from outside starts a run.

use http_body_util::{BodyExt, Full};
use hyper::Method;
use hyper::header::RETRY_AFTER;
use protocol::rest::tokens::Role;
use serde_json::json;

use crate::flows::{chain, id};
use crate::support::TestServer;

const PATH: &str = "/api/v1/hooks";

#[tokio::test]
async fn a_call_with_the_secret_starts_a_run_with_what_it_brought() {
    let server = TestServer::locked().await;
    server.post("/api/v1/workflows", &chain(1)).await.expect(201);
    let body = json!({"workflowId": id(900), "name": "push"});
    let made = server.post(PATH, &body).await.expect(201);
    let url = made["url"].as_str().expect("a path").to_owned();
    assert_eq!(url, format!("/hooks/{}", made["token"].as_str().expect("a secret")));
    let server = server.restart().await;
    let mut request = server.request(Method::POST, &format!("{url}?branch=main"));
    request.headers_mut().insert("x-event", "push".parse().expect("text"));
    request.headers_mut().insert("cookie", "secret".parse().expect("text"));
    *request.body_mut() = Full::from(r#"{"commit": 7}"#).boxed();
    let started = server.send(request).await.expect(202);
    assert_eq!(started["number"], 1);
    let run = server.run("1").await;
    assert_eq!(run["startedBy"], format!("hook {}", made["hookId"].as_str().expect("an id")));
    let inputs = &run["inputs"];
    assert_eq!(
        (&inputs["body"], &inputs["query"]),
        (&json!({"commit": 7}), &json!({"branch": "main"}))
    );
    assert_eq!(inputs["headers"]["x-event"], "push");
    assert!(inputs["headers"].get("cookie").is_none(), "{inputs}");
    let empty = server.send(server.request(Method::POST, &url)).await;
    empty.expect(202);
    assert_eq!(server.run("2").await["inputs"]["body"], json!(null));
    let call = async |body: &'static str| {
        let mut request = server.request(Method::POST, &url);
        request.headers_mut().insert("idempotency-key", "delivery-7".parse().expect("text"));
        *request.body_mut() = Full::from(body).boxed();
        server.send(request).await
    };
    assert_eq!(call("1").await.expect(202)["existed"], false);
    let again = call("1").await.expect(202);
    assert_eq!((&again["number"], &again["existed"]), (&json!(3), &json!(true)));
    call("2").await.refused(409, "E.RUN.CONFLICT");
    server.stop().await;
}

#[tokio::test]
async fn a_call_that_makes_no_sense_starts_nothing() {
    let server = TestServer::locked().await;
    server.post("/api/v1/workflows", &chain(1)).await.expect(201);
    let made = server.post(PATH, &json!({"workflowId": id(900)})).await.expect(201);
    let url = made["url"].as_str().expect("a path").to_owned();
    let call = async |path: &str, body: String| {
        let mut request = server.request(Method::POST, path);
        *request.body_mut() = Full::from(body).boxed();
        server.send(request).await
    };
    call("/hooks/guess", "{}".into()).await.refused(404, "E.HOOK.NOT_FOUND");
    call(&format!("{url}0"), "{}".into()).await.refused(404, "E.HOOK.NOT_FOUND");
    call(&url, "{".into()).await.refused(400, "E.REQUEST.MALFORMED");
    let deep = format!("{}{}", "[".repeat(1_000), "]".repeat(1_000));
    call(&url, deep).await.refused(422, "E.REQUEST.INVALID");
    let long = format!("\"{}\"", "x".repeat(1024 * 1024));
    call(&url, long).await.refused(413, "E.REQUEST.TOO_LARGE");
    server.post(PATH, &json!({"workflowId": id(1)})).await.refused(404, "E.WORKFLOW.NOT_FOUND");
    server.post(PATH, &json!({"workflow": id(1)})).await.refused(422, "E.REQUEST.INVALID");
    let own = format!("{PATH}/{}", made["hookId"].as_str().expect("an id"));
    let other = server.token("other", Role::Admin).await;
    let stranger = server.call_as(Some(&other), Method::DELETE, &own, None).await;
    stranger.refused(404, "E.HOOK.NOT_FOUND");
    let list = server.get(PATH).await;
    assert!(!list.text.contains("hook_"), "no secret is shown twice: {}", list.text);
    assert_eq!(list.expect(200)["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(server.call(Method::DELETE, &own, None).await.status.as_u16(), 204);
    call(&url, "{}".into()).await.refused(404, "E.HOOK.NOT_FOUND");
    assert_eq!(server.get("/api/v1/runs").await.expect(200)["items"], json!([]));
    server.stop().await;
}

#[tokio::test]
async fn a_hook_that_is_called_too_often_starts_nothing_and_says_when_to_come_back() {
    const CALLS_PER_MINUTE_MAX: usize = 600;
    let server = TestServer::locked().await;
    server.post("/api/v1/workflows", &chain(1)).await.expect(201);
    let made = async || {
        let made = server.post(PATH, &json!({"workflowId": id(900)})).await.expect(201);
        made["url"].as_str().expect("a path").to_owned()
    };
    let (url, other) = (made().await, made().await);
    let call = async |path: &str, body: &'static str| {
        let mut request = server.request(Method::POST, path);
        *request.body_mut() = Full::from(body).boxed();
        server.send(request).await
    };
    // A call that makes no sense is a call.
    for _ in 1..CALLS_PER_MINUTE_MAX {
        call(&url, "{").await.refused(400, "E.REQUEST.MALFORMED");
    }
    call(&url, "{}").await.expect(202);
    let refused = call(&url, "{}").await;
    refused.refused(429, "E.LIMIT.OVERLOADED");
    let wait: u64 = refused.headers[RETRY_AFTER].to_str().expect("text").parse().expect("seconds");
    assert!((2..=60).contains(&wait), "the minute is hardly over in {wait} s");
    call(&other, "{}").await.expect(202);
    let runs = server.get("/api/v1/runs").await.expect(200);
    assert_eq!(runs["items"].as_array().map(Vec::len), Some(2), "{runs}");
    server.stop().await;
}
