//! Effects leave here, once what they say is durable.

use std::collections::HashMap;
use std::sync::Arc;

use coordinator::{Answer, Command, Effect, LoadKey, LoadTicket, Ticket};
use foldhash::fast::RandomState;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use model::{LeaseId, ShardId};
use store::{Store, StoreFuture};
use tokio::sync::oneshot;

/// Carries answers to those who asked, and loads to the store and back.
pub(crate) struct Outbox {
    shard: ShardId,
    store: Arc<dyn Store>,
    replies: HashMap<Ticket, oneshot::Sender<Answer>, RandomState>,
    loads: FuturesUnordered<StoreFuture<Command>>,
}

impl Outbox {
    pub(crate) fn new(shard: ShardId, store: Arc<dyn Store>) -> Self {
        Self { shard, store, replies: HashMap::default(), loads: FuturesUnordered::new() }
    }

    /// Someone waits for the answer to this ticket.
    pub(crate) fn expect(&mut self, ticket: Ticket, reply: oneshot::Sender<Answer>) {
        self.replies.insert(ticket, reply);
    }

    /// The asker has gone.
    pub(crate) fn forget(&mut self, ticket: Ticket) {
        self.replies.remove(&ticket);
    }

    /// Sends an effect on its way; gives leases that could not be delivered.
    pub(crate) fn send(&mut self, effect: Effect) -> Vec<LeaseId> {
        match effect {
            Effect::Answer { ticket, answer } => self.deliver(ticket, answer),
            Effect::Load { load, keys } => {
                self.loads.push(read(&self.store, self.shard, load, keys));
                Vec::new()
            }
        }
    }

    fn deliver(&mut self, ticket: Ticket, answer: Answer) -> Vec<LeaseId> {
        let undelivered = match self.replies.remove(&ticket) {
            Some(reply) => reply.send(answer).err(),
            None => Some(answer),
        };
        match undelivered {
            // A grant that nobody hears of would block its task until the lease ends.
            Some(Answer::Leases(grants)) => grants.iter().map(|grant| grant.lease).collect(),
            _ => Vec::new(), // Any other answer may be lost: the asker asks again.
        }
    }

    /// The next load that came back, as a command. Waits for ever when none is under way.
    pub(crate) async fn next_loaded(&mut self) -> Command {
        match self.loads.next().await {
            Some(command) => command,
            None => std::future::pending().await,
        }
    }
}

fn read(
    store: &Arc<dyn Store>,
    shard: ShardId,
    load: LoadTicket,
    keys: Vec<LoadKey>,
) -> StoreFuture<Command> {
    let reading = store.load(shard, keys);
    Box::pin(async move {
        match reading.await {
            Ok(found) => Command::Loaded { load, found },
            Err(error) => {
                tracing::warn!(%error, "cannot read settled tasks");
                Command::LoadFailed { load }
            }
        }
    })
}
