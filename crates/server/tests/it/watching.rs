//! A client that watches events over a real socket.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use http_body_util::BodyExt as _;
use hyper::Method;
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use serde_json::Value;

use crate::support::{TestServer, bearer};

/// Longer than anything here takes, and shorter than a person waits.
const PATIENCE: Duration = Duration::from_secs(20);

/// One event.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// What a client would send as `Last-Event-ID` from here on.
    pub(crate) last_id: Option<u64>,
    pub(crate) kind: String,
    pub(crate) envelope: Value,
    /// When it was there.
    pub(crate) at: Instant,
}

impl Event {
    pub(crate) fn data(&self) -> &Value {
        &self.envelope["data"]
    }

    /// `node.status 1 completed`: the type, the number at the end of the node's id, the status.
    pub(crate) fn story(&self) -> String {
        let data = self.data();
        let last = data["nodeId"].as_str().and_then(|id| id.rsplit('-').next());
        let node = last.map(|number| number.trim_start_matches('0'));
        let words = [Some(self.kind.as_str()), node, data["status"].as_str()];
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

/// A stream of events.
pub(crate) struct Watcher {
    body: Incoming,
    unread: Vec<u8>,
    ready: VecDeque<Event>,
    pub(crate) last_id: Option<u64>,
    /// What was said beside events.
    pub(crate) comments: Vec<String>,
}

impl Watcher {
    pub(crate) async fn open(server: &TestServer, query: &str) -> Self {
        Self::open_as(server, query, None, None).await
    }

    pub(crate) async fn open_as(
        server: &TestServer,
        query: &str,
        last_id: Option<u64>,
        token: Option<&str>,
    ) -> Self {
        let mut request = server.request(Method::GET, &format!("/api/v1/events{query}"));
        if let Some(id) = last_id {
            let id = id.to_string().parse().expect("a header");
            request.headers_mut().insert("last-event-id", id);
        }
        if let Some(token) = token {
            request.headers_mut().insert(AUTHORIZATION, bearer(token));
        }
        let response = server.open(request).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()[CONTENT_TYPE], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-store");
        let body = response.into_body();
        let (unread, ready) = (Vec::new(), VecDeque::new());
        let mut watcher = Self { body, unread, ready, last_id: None, comments: Vec::new() };
        // The first piece shows that the reader has its place.
        assert!(watcher.read().await);
        watcher
    }

    /// Reads a piece; `false` at the end.
    async fn read(&mut self) -> bool {
        let frame = tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("in time");
        let Some(frame) = frame else { return false };
        let data = frame.expect("a whole answer").into_data().expect("data");
        self.unread.extend_from_slice(&data);
        let at = Instant::now();
        while let Some(end) = self.unread.windows(2).position(|pair| pair == b"\n\n") {
            let block: Vec<u8> = self.unread.drain(..end + 2).collect();
            self.block(std::str::from_utf8(&block[..end]).expect("text"), at);
        }
        true
    }

    fn block(&mut self, block: &str, at: Instant) {
        let (mut kind, mut data) = (None, None);
        for line in block.lines() {
            match line.split_once(": ") {
                Some(("id", id)) => self.last_id = Some(id.parse().expect("a number")),
                Some(("event", name)) => kind = Some(name.to_owned()),
                Some(("data", json)) => data = Some(json.to_owned()),
                Some(("retry", _)) => {}
                _ => self.comments.push(line.to_owned()),
            }
        }
        let (Some(kind), Some(data)) = (kind, data) else { return };
        let envelope: Value = serde_json::from_str(&data).expect("JSON");
        assert_eq!(envelope["type"], kind.as_str());
        assert_eq!(envelope["data"]["kind"], kind.as_str());
        self.ready.push_back(Event { last_id: self.last_id, kind, envelope, at });
    }

    /// The next event; `None` when the stream is over.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        let until = Instant::now() + PATIENCE;
        while self.ready.is_empty() {
            // Heartbeats go on while nothing happens.
            assert!(Instant::now() < until, "no event came");
            if !self.read().await {
                return None;
            }
        }
        self.ready.pop_front()
    }

    /// Everything up to the event with this story.
    pub(crate) async fn until(&mut self, story: &str) -> Vec<Event> {
        let mut seen = Vec::new();
        loop {
            let event = self.next().await.unwrap_or_else(|| panic!("no {story} in {seen:#?}"));
            let is_it = event.story() == story;
            seen.push(event);
            if is_it {
                return seen;
            }
        }
    }

    /// Everything up to the end of the stream.
    pub(crate) async fn rest(&mut self) -> Vec<Event> {
        let mut seen = Vec::new();
        while let Some(event) = self.next().await {
            seen.push(event);
        }
        seen
    }
}

pub(crate) fn stories(events: &[Event]) -> Vec<String> {
    events.iter().map(Event::story).collect()
}
