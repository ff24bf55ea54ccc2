//! What tasks put out, over real sockets: whole, in part, live.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use base64::Engine as _;
use http_body_util::BodyExt as _;
use hyper::Method;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, CONTENT_TYPE};
use model::LeaseId;
use protocol::rest::logs::LogLine;
use protocol::session::codec::OpenObject;
use protocol::session::payload::exec::{Channel, Chunk, Feedback};
use serde_json::value::RawValue;
use serde_json::{Number, json};

use crate::support::{TestServer, lease_path};

/// Longer than anything here takes, and shorter than a person waits.
const PATIENCE: Duration = Duration::from_secs(20);

fn silence() -> Feedback {
    Feedback {
        run_id: "run".to_owned(),
        task_id: "task".to_owned(),
        stage: None,
        progress: None,
        message: None,
        chunks: None,
        metrics: None,
        metadata: None,
    }
}

/// A task that a worker holds.
struct Running {
    id: String,
    lease: LeaseId,
    granted: serde_json::Value,
    position: u64,
}

impl Running {
    async fn new(server: &TestServer) -> Self {
        let id = server.submit(json!({"type": "a"})).await;
        let granted = server.lease("w1").await;
        let lease = granted["lease_id"].as_str().expect("an id").parse().expect("a lease");
        Self { id, lease, granted, position: 0 }
    }

    fn path(&self, query: &str) -> String {
        format!("/api/v1/tasks/{}/log{query}", self.id)
    }

    /// The worker sends output.
    async fn say(&mut self, server: &TestServer, channel: Channel, bytes: &[u8]) {
        let place = format!("{{\"offset\":{}}}", self.position);
        let place = RawValue::from_string(place).expect("JSON");
        let data = base64::engine::general_purpose::STANDARD.encode(bytes);
        let chunk = Chunk {
            channel,
            index: None,
            mime_type: None,
            text: None,
            data_base64: Some(data),
            metadata: OpenObject::new(place),
        };
        self.position += bytes.len() as u64;
        let feedback = Feedback { chunks: Some(vec![chunk]), ..silence() };
        server.server().app().feedback.take(self.lease, feedback, None).await.expect("taken");
    }

    async fn complete(&self, server: &TestServer) {
        let report = json!({"worker_id": "w1", "result": {}});
        let answer = server.post(&lease_path(&self.granted, "complete"), &report).await;
        assert_eq!(answer.expect(200)["verdict"], "COMMITTED");
    }
}

/// A log as it comes in.
struct Lines {
    body: Incoming,
    unread: Vec<u8>,
}

impl Lines {
    async fn open(server: &TestServer, path: &str) -> Self {
        let response = server.open(server.request(Method::GET, path)).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()[CONTENT_TYPE], "application/x-ndjson");
        Self { body: response.into_body(), unread: Vec::new() }
    }

    /// The next line; `None` after the last.
    async fn next(&mut self) -> Option<LogLine> {
        loop {
            if let Some(at) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=at).collect();
                return Some(serde_json::from_slice(&line).expect("a line of a log"));
            }
            let frame =
                tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("in time")?;
            let data = frame.expect("a whole answer").into_data().expect("data");
            self.unread.extend_from_slice(&data);
        }
    }

    async fn rest(mut self) -> Vec<LogLine> {
        let mut lines = Vec::new();
        while let Some(line) = self.next().await {
            lines.push(line);
        }
        lines
    }
}

fn bytes_of(line: &LogLine) -> Vec<u8> {
    let binary = line.data_base64.as_ref();
    let engine = base64::engine::general_purpose::STANDARD;
    let binary = binary.map(|data| engine.decode(data).expect("base64"));
    let text = line.text.as_ref().map(|text| text.clone().into_bytes());
    text.or(binary).unwrap_or_default()
}

/// What the lines say, after checking that they join from `offset` on; without the last line.
fn joined(lines: &[LogLine], mut offset: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines.iter().filter(|line| line.end.is_none()) {
        assert_eq!(line.offset, Some(offset), "{line:?}");
        bytes.extend(bytes_of(line));
        offset = line.next_offset;
    }
    bytes
}

#[tokio::test]
async fn a_log_is_read_whole_or_from_any_byte_on() {
    let server = TestServer::dev().await;
    let mut task = Running::new(&server).await;
    let nothing = server.get(&task.path("")).await;
    assert_eq!(nothing.text, "{\"next_offset\":0,\"end\":false}\n");
    task.say(&server, Channel::Stdout, b"hello\n").await;
    task.say(&server, Channel::Stderr, "caf\u{e9}".as_bytes()).await;
    task.say(&server, Channel::Custom, &[0xff, 0xfe]).await;
    let whole = Lines::open(&server, &task.path("")).await.rest().await;
    let first = &whole[0];
    assert_eq!((first.offset, first.next_offset, first.attempt), (Some(0), 6, Some(1)));
    assert_eq!(
        (first.channel.as_deref(), first.text.as_deref()),
        (Some("stdout"), Some("hello\n"))
    );
    assert!(first.at.as_ref().is_some_and(|at| at.ends_with('Z')), "{first:?}");
    assert_eq!(whole[2].data_base64.as_deref(), Some("//4="));
    assert_eq!(whole[3], LogLine { next_offset: 13, end: Some(false), ..LogLine::default() });
    let all = b"hello\ncaf\xc3\xa9\xff\xfe";
    for offset in 0..=all.len() {
        let lines = Lines::open(&server, &task.path(&format!("?offset={offset}"))).await;
        assert_eq!(joined(&lines.rest().await, offset as u64), all[offset..]);
    }
    let cut = Lines::open(&server, &task.path("?offset=10")).await.rest().await;
    assert_eq!(cut[0].data_base64.as_deref(), Some("qQ=="), "half a character is no text");
    task.complete(&server).await;
    let beyond = server.get(&task.path("?offset=99&follow=1")).await;
    assert_eq!(beyond.text, "{\"next_offset\":13,\"end\":true}\n");
    server.stop().await;
}

#[tokio::test]
async fn plain_text_is_the_bytes_themselves() {
    let server = TestServer::dev().await;
    let mut task = Running::new(&server).await;
    task.say(&server, Channel::Stdout, b"out\n").await;
    task.position += 5;
    task.say(&server, Channel::Stderr, "\u{e9}rr\n".as_bytes()).await;
    task.complete(&server).await;
    for (query, expected) in [
        ("", "out\n\n[... 5 bytes dropped ...]\n\u{e9}rr\n"),
        ("?offset=9&follow=1", "\u{e9}rr\n"),
        ("?offset=99", ""),
    ] {
        let mut request = server.request(Method::GET, &task.path(query));
        request.headers_mut().insert(ACCEPT, "text/plain".parse().expect("text"));
        let answer = server.send(request).await;
        assert_eq!(answer.text, expected, "{query}");
        assert_eq!(answer.headers[CONTENT_TYPE], "text/plain; charset=utf-8");
    }
    let gap = &Lines::open(&server, &task.path("?offset=4")).await.rest().await[0];
    assert_eq!((gap.offset, gap.next_offset, gap.dropped), (Some(4), 9, Some(5)));
    server.stop().await;
}

#[tokio::test]
async fn what_is_no_task_and_no_offset_is_refused() {
    let server = TestServer::dev().await;
    let id = server.submit(json!({"type": "a"})).await;
    let stranger = "/api/v1/tasks/2b0cd0b4-7c4e-8f3f-9d0e-1b2c3d4e5f60/log";
    server.get(stranger).await.refused(404, "E.TASK.NOT_FOUND");
    for query in ["offset=-1", "offset=x", "follow=yes", "ofset=1"] {
        let path = format!("/api/v1/tasks/{id}/log?{query}");
        server.get(&path).await.refused(422, "E.REQUEST.INVALID");
    }
    server.stop().await;
}

#[tokio::test]
async fn one_tenant_does_not_read_the_log_of_another() {
    let server = TestServer::locked().await;
    let task = Running::new(&server).await;
    let role = protocol::rest::tokens::Role::Admin;
    let stranger = server.token("other", role).await;
    let answer = server.call_as(Some(&stranger), Method::GET, &task.path(""), None).await;
    answer.refused(404, "E.TASK.NOT_FOUND");
    assert_eq!(server.get(&task.path("")).await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn a_follower_hears_each_word_at_once_and_of_the_end() {
    let server = TestServer::dev().await;
    let mut task = Running::new(&server).await;
    let mut lines = Lines::open(&server, &task.path("?follow=1")).await;
    for word in ["one", "two", "three"] {
        task.say(&server, Channel::Log, word.as_bytes()).await;
        let line = lines.next().await.expect("a line");
        assert_eq!(line.text.as_deref(), Some(word));
    }
    task.say(&server, Channel::Log, b"last").await;
    task.complete(&server).await;
    let rest = lines.rest().await;
    assert_eq!(rest.len(), 2, "{rest:?}");
    assert_eq!(rest[0].text.as_deref(), Some("last"));
    assert_eq!((rest[1].next_offset, rest[1].end), (15, Some(true)));
    server.stop().await;
}

#[tokio::test]
async fn a_slow_follower_holds_nobody_up_and_goes_on_where_it_was() {
    const CHUNKS: u64 = 600;
    let server = TestServer::dev().await;
    let mut task = Running::new(&server).await;
    let (fast_path, slow_path) = (task.path("?follow=1"), task.path("?follow=1"));
    let mut slow = Lines::open(&server, &slow_path).await;
    let fast = Lines::open(&server, &fast_path).await;
    let mut expected = Vec::new();
    let write = async {
        for number in 0..CHUNKS {
            let chunk = format!("{number:08}").repeat(1024);
            task.say(&server, Channel::Stdout, chunk.as_bytes()).await;
            expected.extend_from_slice(chunk.as_bytes());
        }
        task.complete(&server).await;
    };
    let started = Instant::now();
    let ((), fast) = tokio::join!(write, fast.rest());
    assert!(started.elapsed() < PATIENCE, "the slow one holds nobody up");
    assert!(joined(&fast, 0) == expected, "the fast one has everything");
    // The slow one reads a little, leaves, and comes back, again and again.
    let (mut seen, mut offset, mut is_over) = (Vec::new(), 0, false);
    while !is_over {
        for _ in 0..70 {
            let Some(line) = slow.next().await else { break };
            is_over = line.end == Some(true);
            seen.extend(joined(std::slice::from_ref(&line), offset));
            offset = line.next_offset;
        }
        slow = Lines::open(&server, &task.path(&format!("?follow=1&offset={offset}"))).await;
    }
    assert!(seen == expected, "{} of {}", seen.len(), expected.len());
    server.stop().await;
}

#[tokio::test]
async fn a_log_goes_on_after_a_restart_of_the_server() {
    let mut server = TestServer::dev().await;
    let mut task = Running::new(&server).await;
    task.say(&server, Channel::Stdout, b"before ").await;
    let mut lines = Lines::open(&server, &task.path("?follow=1")).await;
    assert_eq!(lines.next().await.and_then(|line| line.text).as_deref(), Some("before "));
    let started = Instant::now();
    let (restarted, rest) = tokio::join!(server.restart(), lines.rest());
    server = restarted;
    assert!(started.elapsed() < Duration::from_secs(3), "followers do not hold up the stop");
    assert_eq!((rest[0].next_offset, rest[0].end), (7, Some(false)));
    // The worker sends again what it is not sure of.
    task.position = 4;
    task.say(&server, Channel::Stdout, b"re after").await;
    task.complete(&server).await;
    let lines = Lines::open(&server, &task.path("?follow=1&offset=7")).await.rest().await;
    assert_eq!(joined(&lines, 7), b"after");
    server.stop().await;
}

#[tokio::test]
async fn a_task_shows_how_it_fares() {
    let server = TestServer::dev().await;
    let task = Running::new(&server).await;
    let path = format!("/api/v1/tasks/{}", task.id);
    assert_eq!(server.get(&path).await.expect(200).get("feedback"), None);
    let feedback = Feedback {
        stage: Some("train".to_owned()),
        progress: Some(0.25),
        message: Some("epoch 1 of 4".to_owned()),
        metrics: Some(BTreeMap::from([("loss".to_owned(), Number::from(3))])),
        ..silence()
    };
    server.server().app().feedback.take(task.lease, feedback, None).await.expect("taken");
    let mut shown = server.get(&path).await.expect(200)["feedback"].clone();
    assert!(shown["at"].take().as_str().is_some_and(|at| at.ends_with('Z')));
    let expected = json!({
        "stage": "train", "progress": 0.25, "message": "epoch 1 of 4",
        "metrics": {"loss": 3}, "at": null,
    });
    assert_eq!(shown, expected);
    let listed = server.get("/api/v1/tasks").await.expect(200);
    assert_eq!(listed["tasks"][0].get("feedback"), None);
    server.stop().await;
}
