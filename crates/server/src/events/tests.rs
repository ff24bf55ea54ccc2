//! Events as a whole: facts in, bytes out.

mod cost;
mod epochs;
mod facts;
mod making;
mod reading;
mod restarts;
mod words;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use coordinator::{Change, Command, Moment, Question, Renewal, RunChange, Step, Ticket};
use model::{LeaseId, ShardId, Timestamp, WorkerId};
use parking_lot::Mutex;
use serde_json::Value;
use shard::projection::{Event, Projections, Publication};
use sim::MemoryStore;

use super::reader::{Filter, Reader, Said};
use super::ring::floors;
use super::tenant::TenantEvents;
use crate::clock::Clock;

fn shard() -> ShardId {
    ShardId::new(7).expect("fits")
}

/// The events of one tenant on a store of its own, as a process has them.
struct World {
    store: Arc<MemoryStore>,
    events: Arc<TenantEvents>,
    projections: Mutex<Projections>,
}

impl World {
    async fn new() -> Self {
        Self::on(Arc::new(MemoryStore::default())).await
    }

    /// A process that begins on this store.
    async fn on(store: Arc<MemoryStore>) -> Self {
        let floor = floors(&*store).await.expect("floors").get("acme").copied().unwrap_or(0);
        let tenant = "acme".parse().expect("a name");
        let events = Arc::new(TenantEvents::new(tenant, Clock::start(), floor));
        events.begin(next_epoch(), (&[], &[]));
        Self { store, events, projections: Mutex::default() }
    }

    /// The events of a turn's facts, as the shard makes them.
    fn make(&self, changes: &[Change], runs: &[RunChange], now: Timestamp) -> Vec<Event> {
        let (changes, runs) = (changes.to_vec(), runs.to_vec());
        let step = Step { changes, runs, ..Step::default() };
        let mut publication = Publication::default();
        let at = Moment { now, wall: now, entropy: 0 };
        self.projections.lock().observe(&step, at, &mut publication);
        publication.events
    }

    /// The events of a worker's sign of life.
    fn confirmed(&self, worker: &WorkerId, leases: &[LeaseId], now: Timestamp) -> Vec<Event> {
        let (ticket, worker, leases) =
            (Ticket(1), worker.clone(), Renewal::Listed(leases.to_vec()));
        let command = Command::Ask(ticket, Question::Heartbeat { worker, leases });
        let mut publication = Publication::default();
        let at = Moment { now, wall: now, entropy: 0 };
        self.projections.lock().overhear(&command, at, &mut publication);
        publication.events
    }

    /// The process ends, and another one begins on the same store.
    async fn restart(self) -> Self {
        Self::on(self.store).await
    }

    async fn reader(&self, seen: Option<u64>) -> Reader {
        self.reader_of(seen, Filter::new(None, None, None).expect("a filter")).await
    }

    async fn reader_of(&self, seen: Option<u64>, filter: Filter) -> Reader {
        self.events.has_ids().await;
        self.events.reader(filter, seen).expect("room")
    }
}

/// Each claim has a higher epoch.
fn next_epoch() -> u64 {
    static EPOCH: AtomicU64 = AtomicU64::new(1);
    EPOCH.fetch_add(1, Ordering::Relaxed)
}

/// One event, as a client sees it.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    id: u64,
    kind: String,
    envelope: Value,
}

/// The next events that a reader is sent, in one piece.
async fn next(reader: &mut Reader) -> Vec<Seen> {
    match reader.next().await {
        Said::Bytes(bytes) => parse(std::str::from_utf8(&bytes).expect("text")),
        Said::TooSlow | Said::Lost => panic!("it was cut off"),
    }
}

/// As many events as are wanted.
async fn next_n(reader: &mut Reader, n: usize) -> Vec<Seen> {
    let mut seen = Vec::new();
    while seen.len() < n {
        let more = next(reader).await;
        // A heartbeat alone: nothing has come for a long time.
        assert!(!more.is_empty(), "{} of {n} events came", seen.len());
        seen.extend(more);
    }
    seen
}

/// As the rules of `text/event-stream` say.
fn parse(text: &str) -> Vec<Seen> {
    assert!(text.ends_with("\n\n"), "{text:?}");
    let blocks = text.trim_end_matches('\n').split("\n\n");
    blocks.filter(|block| !block.starts_with(':')).map(parse_one).collect()
}

fn parse_one(block: &str) -> Seen {
    let field = |name: &str| {
        let lines = block.lines().filter_map(|line| line.split_once(": "));
        let mut values = lines.filter(|(own, _)| *own == name).map(|(_, value)| value);
        let value = values.next().unwrap_or_else(|| panic!("{name} in {block}"));
        assert_eq!(values.next(), None, "one {name}");
        value.to_owned()
    };
    assert_eq!(block.lines().count(), 3, "{block}");
    let envelope: Value = serde_json::from_str(&field("data")).expect("JSON");
    let (id, kind) = (field("id"), field("event"));
    assert_eq!(envelope["id"], id.as_str());
    assert_eq!(envelope["type"], kind.as_str());
    assert_eq!(envelope["data"]["kind"], kind.as_str());
    Seen { id: id.parse().expect("a number"), kind, envelope }
}

impl Seen {
    fn data(&self) -> &Value {
        &self.envelope["data"]
    }

    fn is_replayed(&self) -> bool {
        self.envelope["replayed"] == true
    }
}
