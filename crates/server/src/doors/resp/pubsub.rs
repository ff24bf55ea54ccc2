//! Channels: `SUBSCRIBE job:updates` tells where jobs stand, as soon as it is durable.

use std::collections::BTreeSet;

use bytes::Bytes;
use coordinator::LoadKey;
use protocol::resp::reply::{Reply, Version};
use serde_json::json;
use tokio::sync::broadcast;

use super::answers::{Answered, RespError, job_id, json_bulk, seconds, status_word};
use super::connection::Connection;
use super::dispatch::Invocation;
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
    pub(super) fn on_subscribe(&mut self, request: &Invocation) -> Option<Reply> {
        let (word, names) = (request.command(), &request.arguments[1..]);
        let (is_pattern, is_end) = (word.starts_with('p'), word.contains("unsub"));
        if !is_end && self.subscriptions.len() + names.len() > SUBSCRIPTIONS_MAX {
            return Some(Reply::error(format!("ERR at most {SUBSCRIPTIONS_MAX} subscriptions")));
        }
        let all: Vec<Bytes> = match (names.is_empty(), is_pattern) {
            (false, _) => names.to_vec(),
            (true, true) => self.subscriptions.patterns.iter().cloned().collect(),
            (true, false) => self.subscriptions.channels.iter().cloned().collect(),
        };
        if all.is_empty() {
            self.confirm(word, None);
        }
        for one in all {
            let subscriptions = &mut self.subscriptions;
            let set =
                if is_pattern { &mut subscriptions.patterns } else { &mut subscriptions.channels };
            if is_end {
                set.remove(&one);
            } else {
                set.insert(Bytes::copy_from_slice(&one));
            }
            self.confirm(word, Some(one));
        }
        let hears = self.subscriptions.hears_updates();
        if hears && self.subscriptions.updates.is_none() {
            match self.member().handle.tenant() {
                Ok(tenant) => self.subscriptions.updates = Some(tenant.updates.listen()),
                Err(error) => return Some(RespError::from(error).into()),
            }
        } else if !hears {
            self.subscriptions.updates = None;
        }
        None
    }

    fn confirm(&mut self, word: &'static str, name: Option<Bytes>) {
        let count = self.subscriptions.len().into();
        self.reply(&Reply::Push(vec![word.into(), name.into(), count]));
    }

    /// Whether the connection is one of version 2 that listens to channels.
    pub(super) fn is_listening(&self) -> bool {
        !self.subscriptions.is_empty() && self.client.version == Version::Two
    }

    /// Whether a client that listens may send this: version 2 has one stream for both.
    pub(super) fn allow_while_listening(&self, request: &Invocation) -> Answered<()> {
        let Some(spec) = request.spec.filter(|_| self.is_listening()) else { return Ok(()) };
        if spec.group == "pubsub" || ["ping", "quit", "reset"].contains(&spec.name) {
            return Ok(());
        }
        let text = format!(
            "Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are \
             allowed in this context",
            spec.name
        );
        Err(text.into())
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
        let channel = Reply::Bulk(Bytes::from_static(JOB_UPDATES));
        let json = json_bulk(json);
        if self.subscriptions.channels.contains(JOB_UPDATES) {
            self.reply(&Reply::Push(vec!["message".into(), channel.clone(), json.clone()]));
        }
        let patterns: Vec<Bytes> = self.subscriptions.matching().cloned().collect();
        for pattern in patterns {
            let parts = vec!["pmessage".into(), pattern.into(), channel.clone(), json.clone()];
            self.reply(&Reply::Push(parts));
        }
    }

    /// Gives up all channels.
    pub(super) fn unsubscribe_all(&mut self) {
        self.subscriptions = Subscriptions::default();
    }
}
