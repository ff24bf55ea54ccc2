//! One who reads: a place in the ring, and what is sent next.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use foldhash::fast::RandomState;
use model::RunId;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::batch::Batch;
use super::event::{News, Step};
use super::filter::Filter;
use super::limits::{BEHIND_EVENTS, CHUNK_BYTES_MAX, LOOK_EVERY, READ_EVENTS_MAX};
use super::ring::Found;
use super::tenant::TenantEvents;

/// Proxies, and readers, give up on connections that are silent for longer.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(15);

/// Most events are shorter.
const FRAME_BYTES_GUESS: usize = 512;

/// Reads the events of a tenant.
pub(crate) struct Reader {
    events: Arc<TenantEvents>,
    filter: Filter,
    /// Everything up to here was looked at.
    seen: u64,
    /// Everything up to here happened before this reader came.
    replayed_to: u64,
    came: Came,
    /// What is sent next: which batch, and which of its events.
    ready: VecDeque<(usize, usize)>,
    batches: Vec<Arc<Batch>>,
    /// When it looks into the ring again, at the earliest.
    look_at: Instant,
    heartbeat_at: Instant,
    /// The id that the other side was told last.
    told: u64,
    _permit: OwnedSemaphorePermit,
}

/// How a reader came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// For what happens from here on.
    Fresh,
    /// Back, and everything since it left is here.
    Back,
    /// Back, and it has missed something that nobody can tell any more.
    TooLate,
}

/// What a reader gets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// Bytes for the other side.
    Bytes(Bytes),
    /// It was too slow: what comes next for it is gone.
    TooSlow,
}

impl Reader {
    pub(super) fn new(
        events: Arc<TenantEvents>,
        filter: Filter,
        (seen, replayed_to): (u64, u64),
        came: Came,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let now = Instant::now();
        Self {
            events,
            filter,
            seen,
            replayed_to,
            came,
            ready: VecDeque::new(),
            batches: Vec::new(),
            look_at: now,
            heartbeat_at: now + HEARTBEAT_EVERY,
            told: seen,
            _permit: permit,
        }
    }

    pub(crate) fn filter(&self) -> &Filter {
        &self.filter
    }

    /// The id of the newest event before this reader came.
    pub(crate) fn began_at(&self) -> u64 {
        self.replayed_to
    }

    pub(crate) fn came(&self) -> Came {
        self.came
    }

    pub(crate) fn tenant(&self) -> &Arc<TenantEvents> {
        &self.events
    }

    /// Events that it has not looked at, or not sent.
    #[cfg(test)]
    pub(super) fn lag(&self) -> u64 {
        self.events.last_id() - self.seen + self.ready.len() as u64
    }

    /// The next bytes, as soon as there are some. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> Said {
        loop {
            if let Some(bytes) = self.write() {
                return Said::Bytes(bytes);
            }
            let events = Arc::clone(&self.events);
            let changed = events.changed().notified();
            tokio::pin!(changed);
            if Instant::now() >= self.look_at {
                // Listen first, then look: what comes between is not missed.
                changed.as_mut().enable();
                match self.events.after(self.seen, READ_EVENTS_MAX) {
                    Found::Gone => return Said::TooSlow,
                    Found::Batches(batches) if batches.is_empty() => {
                        tokio::select! {
                            () = changed => {}
                            () = tokio::time::sleep_until(self.heartbeat_at) => {
                                return Said::Bytes(self.heartbeat());
                            }
                        }
                    }
                    Found::Batches(batches) => self.take_up(batches),
                }
            } else {
                tokio::time::sleep_until(self.look_at).await;
            }
        }
    }

    /// Chooses what is sent of the batches.
    fn take_up(&mut self, batches: Vec<Arc<Batch>>) {
        self.look_at = Instant::now() + LOOK_EVERY;
        let n_unseen: usize = batches.iter().map(|batch| batch.events.len()).sum();
        let mut newer: HashSet<(RunId, Step), RandomState> = HashSet::default();
        for (which, batch) in batches.iter().enumerate().rev() {
            for (place, event) in batch.events.iter().enumerate().rev() {
                if batch.id_of(place) <= self.seen {
                    break;
                }
                if !self.filter.wants(event) {
                    continue;
                }
                // Who is behind wants to know how things stand, not how they came about.
                if n_unseen > BEHIND_EVENTS
                    && let (News::Status(news), Some(run)) = (&event.news, &event.run)
                    && !newer.insert((run.run, news.step))
                {
                    continue;
                }
                self.ready.push_front((which, place));
            }
        }
        self.seen = batches.last().map_or(self.seen, |batch| batch.last_id());
        self.batches = batches;
    }

    /// The next bytes of what was chosen.
    fn write(&mut self) -> Option<Bytes> {
        if self.ready.is_empty() {
            // What was told is the ring's alone again.
            self.batches.clear();
            return None;
        }
        let guess = self.ready.len() * FRAME_BYTES_GUESS;
        let mut out = Vec::with_capacity(guess.min(CHUNK_BYTES_MAX + FRAME_BYTES_GUESS));
        while let Some((which, place)) = self.ready.pop_front() {
            let batch = &self.batches[which];
            let id = batch.id_of(place);
            let frame = batch.frame(place, self.events.tenant().as_str());
            frame.write(&mut out, id <= self.replayed_to);
            self.told = id;
            if out.len() >= CHUNK_BYTES_MAX {
                break;
            }
        }
        self.heartbeat_at = Instant::now() + HEARTBEAT_EVERY;
        Some(out.into())
    }

    /// A comment. Where events passed that the other side does not want, it learns the newest id,
    /// so that it can come back without a gap.
    fn heartbeat(&mut self) -> Bytes {
        self.heartbeat_at = Instant::now() + HEARTBEAT_EVERY;
        if self.told == self.seen {
            return Bytes::from_static(b": heartbeat\n\n");
        }
        self.told = self.seen;
        format!(": heartbeat\nid: {}\n\n", self.seen).into()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.events.reader_left();
    }
}
