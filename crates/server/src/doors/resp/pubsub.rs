//! Channels: `SUBSCRIBE job:updates` tells where jobs stand, as soon as it is durable.

use std::collections::BTreeSet;

use bytes::Bytes;
use coordinator::LoadKey;
use protocol::resp::reply::{Reply, Version};
use protocol::resp::request::Request;
use serde_json::json;
use tokio::sync::broadcast;

use super::answers::{job_id, seconds, status_word};
use super::connection::Connection;
use shard::projection::TaskUpdate;

/// The channel on which jobs tell where they stand.
const JOB_UPDATES: &[u8] = b"job:updates";
/// Limit: channels and patterns that one connection may listen to.
const SUBSCRIPTIONS_MAX: usize = 1_000;

/// What a channel says.
pub(super) type Message = TaskUpdate;

/// What one connection listens to.
#[derive(Default)]
pub(super) struct Subscriptions {
    channels: BTreeSet<Bytes>,
    patterns: BTreeSet<Bytes>,
    updates: Option<broadcast::Receiver<TaskUpdate>>,
}

impl Subscriptions {
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn len(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }

    /// The next message; `None` when the connection fell too far behind. Waits for ever if it
    /// listens to nothing.
    pub(super) async fn next(&mut self) -> Option<Message> {
        match &mut self.updates {
            Some(updates) => updates.recv().await.ok(),
            None => std::future::pending().await,
        }
    }

    fn hears_updates(&self) -> bool {
        self.channels.contains(JOB_UPDATES) || self.matching().next().is_some()
    }

    fn matching(&self) -> impl Iterator<Item = &Bytes> {
        self.patterns.iter().filter(|pattern| keyspace::matches(pattern, JOB_UPDATES))
    }
}

impl Connection {
    /// `SUBSCRIBE`, `PSUBSCRIBE` and their opposites: one reply for each name.
    pub(super) fn on_subscribe(&mut self, request: &Request) -> Option<Reply> {
        let name = request.upper_name()?;
        let names = &request.arguments[1..];
        let is_pattern = name.as_str().starts_with('P');
        let is_end = name.as_str().contains("UNSUB");
        if names.is_empty() && !is_end {
            let name = name.as_str().to_lowercase();
            let text = format!("ERR wrong number of arguments for '{name}' command");
            return Some(Reply::error(text));
        }
        if !is_end && self.subscriptions.len() + names.len() > SUBSCRIPTIONS_MAX {
            return Some(Reply::error(format!("ERR at most {SUBSCRIPTIONS_MAX} subscriptions")));
        }
        let word = name.as_str().to_lowercase();
        let all: Vec<Bytes> = match (names.is_empty(), is_pattern) {
            (false, _) => names.to_vec(),
            (true, true) => self.subscriptions.patterns.iter().cloned().collect(),
            (true, false) => self.subscriptions.channels.iter().cloned().collect(),
        };
        if all.is_empty() {
            self.confirm(&word, None);
        }
        for one in all {
            let subscriptions = &mut self.subscriptions;
            let set =
                if is_pattern { &mut subscriptions.patterns } else { &mut subscriptions.channels };
            let own = Bytes::copy_from_slice(&one);
            if is_end {
                set.remove(&own)
            } else {
                set.insert(own)
            };
            self.confirm(&word, Some(one));
        }
        let hears = self.subscriptions.hears_updates();
        if hears && self.subscriptions.updates.is_none() {
            match self.member().handle.tenant() {
                Ok(tenant) => self.subscriptions.updates = Some(tenant.updates.listen()),
                Err(error) => return Some(error.into()),
            }
        } else if !hears {
            self.subscriptions.updates = None;
        }
        None
    }

    fn confirm(&mut self, word: &str, name: Option<Bytes>) {
        let count = i64::try_from(self.subscriptions.len()).unwrap_or(i64::MAX);
        let name = name.map_or(Reply::Null, Reply::Bulk);
        let word = Reply::bulk(word.to_owned().into_bytes());
        self.reply(&Reply::Push(vec![word, name, Reply::Integer(count)]));
    }

    /// Whether the connection is one of version 2 that listens to channels.
    pub(super) fn is_listening(&self) -> bool {
        !self.subscriptions.is_empty() && self.client.version == Version::Two
    }

    /// Whether a client that listens may send this: version 2 has one stream for both.
    pub(super) fn refuse_while_listening(&self, request: &Request) -> Option<Reply> {
        if !self.is_listening() {
            return None;
        }
        let may =
            ["SUBSCRIBE", "UNSUBSCRIBE", "PSUBSCRIBE", "PUNSUBSCRIBE", "PING", "QUIT", "RESET"];
        if may.iter().any(|name| request.name_is(name)) {
            return None;
        }
        let name = String::from_utf8_lossy(request.name()).to_lowercase();
        Some(Reply::error(format!(
            "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / \
             RESET are allowed in this context"
        )))
    }

    /// Passes a message on.
    pub(super) async fn tell(&mut self, update: &Message) {
        let load = vec![LoadKey::Task(update.task)];
        let shard = self.member().handle.shard();
        let found = self.app.store.load(shard, load).await.unwrap_or_default();
        let parameters = found.first().map(|(_, record)| record.parameters.clone());
        let name = job_id(update.task, &parameters.unwrap_or_default());
        let json = json!({
            "job_id": name,
            "task_id": update.task.to_string(),
            "status": status_word(update.state),
            "worker_id": update.worker.as_ref().map(model::WorkerId::as_str),
            "attempt": update.attempt,
            "at": seconds(update.at),
        });
        let json = Bytes::from(json.to_string());
        let channel = Reply::Bulk(Bytes::from_static(JOB_UPDATES));
        if self.subscriptions.channels.contains(JOB_UPDATES) {
            let word = Reply::bulk(&b"message"[..]);
            self.reply(&Reply::Push(vec![word, channel.clone(), Reply::Bulk(json.clone())]));
        }
        let patterns: Vec<Bytes> = self.subscriptions.matching().cloned().collect();
        for pattern in patterns {
            let word = Reply::bulk(&b"pmessage"[..]);
            let parts =
                vec![word, Reply::Bulk(pattern), channel.clone(), Reply::Bulk(json.clone())];
            self.reply(&Reply::Push(parts));
        }
    }

    /// Gives up all channels.
    pub(super) fn unsubscribe_all(&mut self) {
        self.subscriptions = Subscriptions::default();
    }
}
