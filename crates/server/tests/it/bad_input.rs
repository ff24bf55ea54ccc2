//! Whatever comes in, the answer is a clear refusal, and nothing changed.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::Method;
use hyper::body::Frame;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Reply, TestServer, lease_path};

const TASKS: &str = "/api/v1/tasks";
const LEASES: &str = "/api/v1/leases";
const REPORTS: &str = "/api/v1/reports";

/// Where, what, and the beginning of the sentence that comes back.
const INVALID: &[(&str, &str, &str)] = &[
    (TASKS, "{}", "the body: missing field `type`"),
    (TASKS, "[]", "the body: must be a JSON object, not a list"),
    (LEASES, r#"["w"]"#, "the body: must be a JSON object, not a list"),
    (TASKS, "7", "the body: invalid type: integer `7`"),
    (TASKS, r#"{"tasks":[]}"#, "tasks is empty"),
    (TASKS, r#"{"tasks":{}}"#, "tasks: invalid type: map"),
    (TASKS, r#"{"tasks":[{}]}"#, "tasks[0]: missing field `type`"),
    (TASKS, r#"{"tasks":[{"type":"a"},{"type":1}]}"#, "tasks[1].type: invalid type: integer `1`"),
    (TASKS, r#"{"tasks":[{"type":"a","prio":1}]}"#, "tasks[0].prio: unknown field `prio`"),
    (TASKS, r#"{"type":"a","tasks":[]}"#, "type: unknown field `type`"),
    (TASKS, r#"{"type":"a","type":"b"}"#, "type: duplicate field `type`"),
    (TASKS, r#"{"type":"a b"}"#, "type must be 1 to 128 characters of"),
    (TASKS, r#"{"type":"a","priority":"high"}"#, "priority: invalid type: string"),
    (
        TASKS,
        r#"{"type":"a","priority":-1001}"#,
        "priority is -1001; it must be a whole number from -1000 to 1000",
    ),
    (TASKS, r#"{"type":"a","priority":1.5}"#, "priority: invalid type: floating point"),
    (
        TASKS,
        r#"{"type":"a","timeout_ms":-5}"#,
        "timeout_ms is -5; it must be a whole number from 1 to",
    ),
    (
        TASKS,
        r#"{"type":"a","timeout_ms":99999999999999999999}"#,
        "timeout_ms: invalid type: floating point",
    ),
    (
        TASKS,
        r#"{"type":"a","lease_ttl_ms":1}"#,
        "lease_ttl_ms is 1; it must be a whole number from 100 to",
    ),
    (TASKS, r#"{"type":"a","retry":{"max_attempts":0}}"#, "retry.max_attempts is 0; it must be"),
    (TASKS, r#"{"type":"a","retry":{"tries":1}}"#, "retry.tries: unknown field `tries`"),
    (TASKS, r#"{"type":"a","not_before":"tomorrow"}"#, "not_before is not a moment in RFC 3339"),
    (TASKS, r#"{"type":"a","not_before":"1000-01-01T00:00:00Z"}"#, "not_before is not a moment"),
    (TASKS, r#"{"type":"a","idempotency_key":""}"#, "idempotency_key must be 1 to 256 bytes"),
    (
        TASKS,
        r#"{"type":"a","requires":{"tags":{"gpu":true}}}"#,
        "requires.tags.gpu: invalid type: boolean",
    ),
    (LEASES, "{}", "the body: missing field `worker_id`"),
    (LEASES, r#"{"worker_id":"a b"}"#, "worker_id must be 1 to 64 characters of"),
    (LEASES, r#"{"worker_id":"w","max":0}"#, "max is 0; it must be a whole number from 1 to 1000"),
    (
        LEASES,
        r#"{"worker_id":"w","max":1001}"#,
        "max is 1001; it must be a whole number from 1 to 1000",
    ),
    (
        LEASES,
        r#"{"worker_id":"w","wait_ms":-1}"#,
        "wait_ms is -1; it must be a whole number from 0 to 60000",
    ),
    (LEASES, r#"{"worker_id":"w","wait_ms":60001}"#, "wait_ms is 60001; it must be"),
    (LEASES, r#"{"worker_id":"w","types":["a b"]}"#, "types: type must be"),
    (
        REPORTS,
        r#"{"reports":[{"lease_id":"x","worker_id":"w"}]}"#,
        "reports[0]: missing field `outcome`",
    ),
    (
        REPORTS,
        r#"{"reports":[{"lease_id":"x","worker_id":"w","outcome":"won"}]}"#,
        "reports[0].outcome: unknown variant `won`",
    ),
    (
        REPORTS,
        r#"{"reports":[{"lease_id":"x","worker_id":"","outcome":"complete"}]}"#,
        "reports[0].worker_id must be",
    ),
    ("/api/v1/leases/x/complete", r#"{"worker":"w"}"#, "worker: unknown field `worker`"),
    ("/api/v1/leases/x/fail", r#"{"worker_id":"w"}"#, "the body: missing field `reason`"),
    ("/api/v1/leases/x/heartbeat", r#"{"worker_id":7}"#, "worker_id: invalid type: integer `7`"),
];

#[tokio::test]
async fn json_of_the_wrong_shape_is_refused_by_field() {
    let server = TestServer::dev().await;
    for (path, body, message) in INVALID {
        let answer = server.call(Method::POST, path, Some(body)).await;
        answer.refused(422, "E.REQUEST.INVALID");
        assert!(answer.message().starts_with(message), "{body}\n{}", answer.text);
    }
    nothing_was_made(&server).await;
    server.stop().await;
}

#[tokio::test]
async fn a_number_that_fits_nowhere_is_refused_with_its_range() {
    let server = TestServer::dev().await;
    let body = r#"{"tasks":[{"type":"a","priority":99999999999999999999999}]}"#;
    let answer = server.call(Method::POST, TASKS, Some(body)).await;
    answer.refused(422, "E.REQUEST.INVALID");
    let message = answer.message();
    assert!(message.contains("it must be a whole number from -1000 to 1000"), "{message}");
    server.stop().await;
}

#[tokio::test]
async fn text_that_is_not_json_is_refused_by_line_and_column() {
    let server = TestServer::dev().await;
    let cases = [
        ("", "line 1 column 0"),
        ("{", "line 1 column 1"),
        ("{\"tasks\":[\n{\"type\":\"a\",}]}", "line 2 column 13"),
        ("nonsense", "line 1 column 2"),
        ("{\"type\":\"a\"} trailing", "line 1 column 14"),
        ("{\"type\":\"a\",\"parameters\":{\"x\":01}}", "line 1 column"),
        ("{\"type\":\"\u{1}\"}", "line 1 column"),
    ];
    for (body, place) in cases {
        let answer = server.call(Method::POST, TASKS, Some(body)).await;
        answer.refused(400, "E.REQUEST.MALFORMED");
        assert!(answer.message().contains(place), "{body:?}\n{}", answer.text);
    }
    let mut not_text = json_request(&server, TASKS);
    *not_text.body_mut() = Full::from(&b"{\"type\":\"\xff\"}"[..]).boxed();
    server.send(not_text).await.refused(400, "E.REQUEST.MALFORMED");
    nothing_was_made(&server).await;
    server.stop().await;
}

#[tokio::test]
async fn a_body_that_is_not_declared_as_json_is_refused() {
    let server = TestServer::dev().await;
    for media_type in [None, Some("text/plain"), Some("application/jsonp"), Some("")] {
        let mut request = server.request(Method::POST, TASKS);
        *request.body_mut() = Full::from(r#"{"type":"a"}"#).boxed();
        if let Some(media_type) = media_type {
            request.headers_mut().insert(CONTENT_TYPE, media_type.parse().expect("a header"));
        }
        server.send(request).await.refused(415, "E.REQUEST.MEDIA_TYPE");
    }
    let mut request = server.request(Method::POST, TASKS);
    *request.body_mut() = Full::from(r#"{"type":"a"}"#).boxed();
    let media_type = "Application/JSON; charset=utf-8".parse().expect("a header");
    request.headers_mut().insert(CONTENT_TYPE, media_type);
    assert_eq!(server.send(request).await.status, 201);
    server.stop().await;
}

#[tokio::test]
async fn a_hundred_megabytes_are_refused_in_little_memory() {
    const CHUNK: usize = 1024 * 1024;
    let server = TestServer::dev().await;
    let before = peak_bytes();
    let chunk = Bytes::from(vec![b' '; CHUNK]);
    let chunks =
        stream::iter((0..100).map(move |_| Ok::<_, Infallible>(Frame::data(chunk.clone()))));
    let mut request = json_request(&server, TASKS);
    *request.body_mut() = StreamBody::new(chunks).boxed();
    let answer = server.send(request).await;
    answer.refused(413, "E.REQUEST.TOO_LARGE");
    let grown = peak_bytes().saturating_sub(before);
    assert!(grown < 80 * CHUNK as u64, "memory grew by {grown} bytes");
    nothing_was_made(&server).await;
    server.stop().await;
}

#[tokio::test]
async fn a_promise_of_a_huge_body_takes_no_memory() {
    let server = TestServer::dev().await;
    let before = peak_bytes();
    let mut sockets = Vec::new();
    for _ in 0..50 {
        let head = format!(
            "POST {TASKS} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
             content-length: 100000000000\r\n\r\n{{",
            server.address()
        );
        let mut socket = TcpStream::connect(server.address()).await.expect("a connection");
        socket.write_all(head.as_bytes()).await.expect("sent");
        sockets.push(socket);
    }
    nothing_was_made(&server).await;
    assert!(peak_bytes().saturating_sub(before) < 64 * 1024 * 1024);
    server.stop().await;
}

#[tokio::test]
async fn batches_over_the_limit_are_refused_whole() {
    let server = TestServer::dev().await;
    let tasks = json!({"tasks": vec![json!({"type": "a"}); 10_001]});
    let answer = server.post(TASKS, &tasks).await;
    answer.refused(422, "E.LIMIT.BATCH");
    assert_eq!(answer.message(), "tasks has 10001 entries, one call carries at most 10000");
    let report = json!({"lease_id": "x", "worker_id": "w", "outcome": "complete"});
    let answer = server.post(REPORTS, &json!({"reports": vec![report; 10_001]})).await;
    answer.refused(422, "E.LIMIT.BATCH");
    let tools: Vec<_> = (0..65).map(|n| format!("t{n}")).collect();
    let answer = server.post(TASKS, &json!({"type": "a", "requires": {"tools": tools}})).await;
    answer.refused(422, "E.LIMIT.BATCH");
    nothing_was_made(&server).await;
    server.stop().await;
}

#[tokio::test]
async fn payloads_over_the_limit_are_refused() {
    let server = TestServer::dev().await;
    let answer = server.post(TASKS, &json!({"type": "a", "parameters": "x".repeat(1 << 20)})).await;
    answer.refused(413, "E.REQUEST.TOO_LARGE");
    nothing_was_made(&server).await;
    let id = server.submit(json!({"type": "a"})).await;
    let lease = server.lease("w1").await;
    let result = json!({"worker_id": "w1", "result": "x".repeat(8 << 20)});
    let answer = server.post(&lease_path(&lease, "complete"), &result).await;
    answer.refused(413, "E.REQUEST.TOO_LARGE");
    let reason = json!({"worker_id": "w1", "reason": "x".repeat(4_097)});
    let answer = server.post(&lease_path(&lease, "fail"), &reason).await;
    answer.refused(422, "E.REQUEST.INVALID");
    let shown = server.get(&format!("/api/v1/tasks/{id}")).await.expect(200);
    assert_eq!(shown["state"], "RUNNING", "a refused report decides nothing");
    server.stop().await;
}

#[tokio::test]
async fn payloads_may_nest_sixty_four_levels_deep() {
    let server = TestServer::dev().await;
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let task = |depth| format!(r#"{{"tasks":[{{"type":"a","parameters":{}}}]}}"#, nested(depth));
    for depth in [65, 100_000] {
        let answer = server.call(Method::POST, TASKS, Some(&task(depth))).await;
        answer.refused(422, "E.REQUEST.INVALID");
        let message = answer.message();
        assert_eq!(message, "tasks[0].parameters nests more than 64 levels deep");
    }
    let answer = server.call(Method::POST, TASKS, Some(&nested(1_000_000))).await;
    assert_eq!(answer.status.as_u16() / 100, 4, "{}", answer.text);
    let wrong_place = format!(r#"{{"type":{}}}"#, nested(1_000_000));
    let answer = server.call(Method::POST, TASKS, Some(&wrong_place)).await;
    assert_eq!(answer.status.as_u16() / 100, 4, "{}", answer.text);
    nothing_was_made(&server).await;
    assert_eq!(server.call(Method::POST, TASKS, Some(&task(64))).await.status, 201);
    let text = json!({"type": "a", "parameters": "[".repeat(100)});
    assert_eq!(server.post(TASKS, &text).await.status, 201, "brackets in a text do not nest");
    server.stop().await;
}

#[tokio::test]
async fn queries_are_read_strictly() {
    let server = TestServer::dev().await;
    let id = server.submit(json!({"type": "a"})).await;
    let cases = [
        ("/api/v1/tasks?stat=dead".to_owned(), "query parameter `stat` is not known here"),
        ("/api/v1/tasks?state=lost".to_owned(), "state `lost` is not a state; the states are"),
        (
            "/api/v1/tasks?limit=0".to_owned(),
            "limit is `0`; it must be a whole number from 1 to 500",
        ),
        ("/api/v1/tasks?limit=501".to_owned(), "limit is `501`; it must be"),
        ("/api/v1/tasks?limit=99999999999999999999".to_owned(), "limit is `99999999999999999999`"),
        ("/api/v1/tasks?limit=x".to_owned(), "limit is `x`; it must be"),
        ("/api/v1/tasks?cursor=x".to_owned(), "cursor is not a `next_cursor`"),
        ("/api/v1/tasks?type=a%20b".to_owned(), "type must be 1 to 128 characters"),
        (format!("/api/v1/tasks/{id}?wait_ms=-1"), "wait_ms is `-1`; it must be"),
        (format!("/api/v1/tasks/{id}?wait_ms=60001"), "wait_ms is `60001`; it must be"),
        (format!("/api/v1/tasks/{id}?wait=1"), "query parameter `wait` is not known here"),
    ];
    for (path, message) in cases {
        let answer = server.get(&path).await;
        answer.refused(422, "E.REQUEST.INVALID");
        assert!(answer.message().starts_with(message), "{path}\n{}", answer.text);
    }
    server.stop().await;
}

#[tokio::test]
async fn bytes_that_are_not_http_end_the_connection_and_nothing_else() {
    let server = TestServer::dev().await;
    for nonsense in
        [&b"\x16\x03\x01\x02\x00\x01\x00"[..], b"GET / HTTP/9.9\r\n\r\n", b"\0\0\0\0\r\n\r\n"]
    {
        let mut socket = TcpStream::connect(server.address()).await.expect("a connection");
        socket.write_all(nonsense).await.expect("sent");
        socket.shutdown().await.expect("half closed");
        let mut answer = Vec::new();
        let _ = socket.read_to_end(&mut answer).await;
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{answer:?}");
    }
    server.get("/healthz").await.expect(200);
    server.stop().await;
}

#[tokio::test]
async fn a_body_that_breaks_off_changes_nothing() {
    let server = TestServer::dev().await;
    let head = format!(
        "POST {TASKS} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
         content-length: 1000\r\n\r\n{{\"type\":\"a\"}}",
        server.address()
    );
    let mut socket = TcpStream::connect(server.address()).await.expect("a connection");
    socket.write_all(head.as_bytes()).await.expect("sent");
    drop(socket);
    nothing_was_made(&server).await;
    server.stop().await;
}

async fn nothing_was_made(server: &TestServer) {
    let list: Reply = server.get(TASKS).await;
    assert_eq!(list.expect(200), json!({"tasks": []}));
}

fn json_request(server: &TestServer, path: &str) -> hyper::Request<crate::support::TestBody> {
    let mut request = server.request(Method::POST, path);
    request.headers_mut().insert(CONTENT_TYPE, "application/json".parse().expect("a header"));
    request.headers_mut().remove(CONTENT_LENGTH);
    request
}

/// The most memory that this process ever had; zero where the system does not say.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
