//! What the door looks like as a whole: health, documents, headers, wrong turns, the page.

use hyper::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::TestServer;

#[tokio::test]
async fn a_healthy_server_says_so() {
    let server = TestServer::dev().await;
    assert_eq!(server.get("/healthz").await.expect(200)["status"], "ok");
    server.until_ready().await;
    let ready = server.get("/readyz").await.expect(200);
    assert_eq!(ready["status"], "ready");
    assert!(ready["version"].is_string());
    server.stop().await;
}

#[tokio::test]
async fn the_document_describes_every_operation_and_its_errors() {
    let server = TestServer::dev().await;
    let document = server.get("/api/v1/openapi.json").await.expect(200);
    assert_eq!(document["info"]["title"], "AstraFlow");
    assert!(document["info"].get("contact").is_none());
    assert_eq!(document["components"]["securitySchemes"]["bearer"]["scheme"], "bearer");
    let mut operation_ids = std::collections::BTreeSet::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("methods") {
            let place = format!("{method} {path}");
            assert!(operation["summary"].is_string(), "{place} has a summary");
            let id = operation["operationId"].as_str().expect("an id").to_owned();
            assert!(operation_ids.insert(id), "{place} has an id of its own");
            let responses = operation["responses"].as_object().expect("responses");
            // A webhook is opened by the secret in its path.
            let is_open = ["/healthz", "/readyz", "/hooks/{token}"].contains(&path.as_str());
            assert_eq!(responses.contains_key("401"), !is_open, "{place}");
            let has_body = operation.get("requestBody").is_some();
            for status in ["400", "408", "415", "422"] {
                assert!(!has_body || responses.contains_key(status), "{place} lists {status}");
            }
        }
    }
    let schemas = document["components"]["schemas"].as_object().expect("schemas");
    for name in ["TaskToSubmit", "GrantedLeases", "VerdictAnswer", "Problem", "Explanation"] {
        assert!(schemas.contains_key(name), "{name}");
    }
    server.stop().await;
}

#[tokio::test]
async fn wrong_turns_are_problems_too() {
    let server = TestServer::dev().await;
    for path in ["/nothing", "/api/v1", "/api/v1/", "/api/v2/tasks", "/api/v1/tasks/", "/assets/x"]
    {
        server.get(path).await.refused(404, "E.REQUEST.NOT_FOUND");
    }
    let answer = server.call(Method::PUT, "/api/v1/tasks", None).await;
    answer.refused(405, "E.REQUEST.METHOD");
    let allow = answer.headers["allow"].to_str().expect("text");
    assert!(allow.contains("GET") && allow.contains("POST"), "{allow}");
    let answer = server.call(Method::DELETE, "/healthz", None).await;
    answer.refused(405, "E.REQUEST.METHOD");
    let head = server.call(Method::HEAD, "/api/v1/tasks", None).await;
    assert_eq!((head.status.as_u16(), head.text.as_str()), (200, ""));
    server.stop().await;
}

#[tokio::test]
async fn every_answer_carries_its_headers() {
    let server = TestServer::dev().await;
    for path in
        ["/api/v1/tasks", "/healthz", "/nothing", "/api/v1/tasks/x", "/metrics", "/api/v1/readyz"]
    {
        let answer = server.get(path).await;
        assert_eq!(answer.headers["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(answer.headers["cache-control"], "no-store", "{path}");
    }
    server.stop().await;
}

#[tokio::test]
async fn the_page_brings_all_it_needs() {
    let server = TestServer::dev().await;
    let page = server.get("/").await;
    assert_eq!(page.status, 200);
    let policy = page.headers["content-security-policy"].to_str().expect("text");
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    for outside in ["http://", "https://", "<style", " style=", "onclick", "<script>"] {
        assert!(!page.text.contains(outside), "{outside}");
    }
    for (path, media_type) in
        [("/assets/status.css", "text/css"), ("/assets/status.js", "text/javascript")]
    {
        assert!(page.text.contains(path), "{path}");
        let file = server.get(path).await;
        assert_eq!(file.status, 200);
        assert!(file.headers["content-type"].to_str().expect("text").starts_with(media_type));
        assert!(!file.text.contains("http://") && !file.text.contains("https://"));
    }
    server.stop().await;
}

#[tokio::test]
async fn requests_sent_in_one_go_are_answered_in_order() {
    let server = TestServer::dev().await;
    let one = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", server.address());
    let last = one("/healthz").replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n");
    let all = [one("/healthz"), one("/nothing"), last].concat();
    let mut socket = TcpStream::connect(server.address()).await.expect("a connection");
    socket.write_all(all.as_bytes()).await.expect("sent");
    let mut answers = String::new();
    socket.read_to_string(&mut answers).await.expect("text");
    let statuses: Vec<_> =
        answers.match_indices("HTTP/1.1 ").map(|(at, _)| &answers[at + 9..at + 12]).collect();
    assert_eq!(statuses, ["200", "404", "200"]);
    server.stop().await;
}

#[tokio::test]
async fn a_stopping_server_does_not_wait_for_those_who_wait() {
    let server = TestServer::dev().await;
    let body = json!({"worker_id": "w1", "wait_ms": 60_000}).to_string();
    let head = format!(
        "POST /api/v1/leases HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        server.address(),
        body.len()
    );
    let mut socket = TcpStream::connect(server.address()).await.expect("a connection");
    socket.write_all(head.as_bytes()).await.expect("sent");
    server.until("/api/v1/workers", |seen| seen["workers"][0]["asking"] == true).await;
    let started = std::time::Instant::now();
    server.stop().await;
    assert!(started.elapsed() < std::time::Duration::from_secs(5));
}
