//! What readers at one place are sent: made once, and shared.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use foldhash::fast::RandomState;
use model::RunId;
use parking_lot::Mutex;
use shard::projection::{Event, News, Step};

use super::frame::Frame;
use super::reader::{
    BEHIND_EVENTS, CHUNK_BYTES_MAX, Filter, PAGE_BYTES_MAX, PAGES_MAX, SHARED_BYTES_MAX,
};

/// Most events are shorter.
const FRAME_BYTES_GUESS: usize = 512;

/// Events that come next for those who have seen everything up to a certain one.
#[derive(Debug)]
pub(super) struct Page {
    filter: Filter,
    /// Who has seen everything up to here reads it.
    after: u64,
    /// Who has read it has seen everything up to here.
    pub(super) last: u64,
    /// What happened, wanted or not.
    pub(super) n_events: usize,
    batches: Vec<Arc<Batch>>,
    /// What is sent of the batches: which one, and which of its events.
    chosen: Vec<(usize, usize)>,
    /// Pieces that are sent to several readers.
    pieces: Mutex<Vec<Piece>>,
    shared: Arc<AtomicUsize>,
}

/// What is sent at once.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    from: usize,
    /// Where the next one begins.
    pub(super) to: usize,
    /// The newest event in it.
    pub(super) told: u64,
    pub(super) bytes: Bytes,
}

/// Up to which event a reader is told that it hears of the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReplayedTo(pub(super) u64);

impl Page {
    /// Chooses what is sent of the batches; there is at least one.
    pub(super) fn new(
        filter: Filter,
        after: u64,
        batches: Vec<Arc<Batch>>,
        shared: Arc<AtomicUsize>,
    ) -> Self {
        let n_events = batches.iter().map(|batch| batch.events.len()).sum();
        let mut chosen = Vec::new();
        let mut newer: HashSet<(RunId, Step), RandomState> = HashSet::default();
        for (which, batch) in batches.iter().enumerate().rev() {
            for (place, event) in batch.events.iter().enumerate().rev() {
                if batch.id_of(place) <= after {
                    break;
                }
                if !filter.wants(event) {
                    continue;
                }
                // Who is behind wants to know how things stand, not how they came about.
                if n_events > BEHIND_EVENTS
                    && let (News::Status(news), Some(run)) = (&event.news, &event.run)
                    && !newer.insert((run.run, news.step))
                {
                    continue;
                }
                chosen.push((which, place));
            }
        }
        chosen.reverse();
        let last = batches.last().map_or(after, |batch| batch.last_id());
        let pieces = Mutex::default();
        Self { filter, after, last, n_events, batches, chosen, pieces, shared }
    }

    /// What is sent from a place on, made once for all; `None` at the end.
    pub(super) fn piece(&self, from: usize, tenant: &str) -> Option<Piece> {
        let mut pieces = self.pieces.lock();
        if let Some(piece) = pieces.iter().find(|piece| piece.from == from) {
            return Some(piece.clone());
        }
        let piece = self.write(from, tenant, ReplayedTo(0))?;
        let n_bytes = piece.bytes.len();
        if self.shared.fetch_add(n_bytes, Ordering::Relaxed) + n_bytes <= SHARED_BYTES_MAX {
            pieces.push(piece.clone());
        } else {
            self.shared.fetch_sub(n_bytes, Ordering::Relaxed);
        }
        Some(piece)
    }

    /// What is sent from a place on; `None` at the end.
    pub(super) fn write(&self, from: usize, tenant: &str, replayed: ReplayedTo) -> Option<Piece> {
        let mut told = None;
        let mut to = from;
        let guess = (self.chosen.len() - from) * FRAME_BYTES_GUESS;
        let mut out = Vec::with_capacity(guess.min(CHUNK_BYTES_MAX + FRAME_BYTES_GUESS));
        for (which, place) in &self.chosen[from..] {
            let batch = &self.batches[*which];
            let id = batch.id_of(*place);
            batch.frame(*place, tenant).write(&mut out, id <= replayed.0);
            told = Some(id);
            to += 1;
            if out.len() >= CHUNK_BYTES_MAX {
                break;
            }
        }
        told.map(|told| Piece { from, to, told, bytes: out.into() })
    }

    /// Events that are still to be sent from a place on.
    #[cfg(test)]
    pub(super) fn left(&self, place: usize) -> usize {
        self.chosen.len() - place
    }

    /// What it takes in memory when nobody else has its events.
    fn bytes(&self) -> usize {
        self.batches.iter().map(|batch| batch.bytes).sum()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let n_bytes = self.pieces.get_mut().iter().map(|piece| piece.bytes.len()).sum();
        self.shared.fetch_sub(n_bytes, Ordering::Relaxed);
    }
}

/// The newest pages of a tenant. Readers that take the same one stand at the same place afterwards,
/// so that they share the next one too.
#[derive(Debug, Default)]
pub(super) struct Pages {
    newest: VecDeque<Arc<Page>>,
    /// What the pieces take that several readers are sent.
    pub(super) shared: Arc<AtomicUsize>,
}

impl Pages {
    pub(super) fn find(&self, filter: &Filter, after: u64) -> Option<Arc<Page>> {
        let mut pages = self.newest.iter();
        pages.find(|page| page.after == after && page.filter == *filter).map(Arc::clone)
    }

    /// Keeps a page for others. Who was first has made it for all.
    pub(super) fn keep(&mut self, page: Arc<Page>) -> Arc<Page> {
        if let Some(first) = self.find(&page.filter, page.after) {
            return first;
        }
        if page.bytes() <= PAGE_BYTES_MAX {
            if self.newest.len() >= PAGES_MAX {
                self.newest.pop_front();
            }
            self.newest.push_back(Arc::clone(&page));
        }
        page
    }

    pub(super) fn clear(&mut self) {
        self.newest.clear();
    }
}

/// Set in `Batch::rendered` when the ring has let go of the batch.
const RETIRED: i64 = 1 << 62;

/// What the JSON of all events in a ring takes. It may be below zero for a moment: a reader counts
/// after it made something.
pub(super) type RenderedBytes = Arc<AtomicI64>;

/// Events with ids from `first_id` on. Shared by the ring and by all who read.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) first_id: u64,
    pub(super) events: Vec<Event>,
    /// Their JSON, each made when the first reader wants it.
    frames: OnceLock<Box<[OnceLock<Frame>]>>,
    /// What the events take without their JSON.
    pub(super) bytes: usize,
    /// What the JSON takes that was made so far.
    rendered: AtomicI64,
    rendered_in_ring: RenderedBytes,
}

impl Batch {
    /// At least one event.
    pub(super) fn new(
        first_id: u64,
        mut events: Vec<Event>,
        rendered_in_ring: RenderedBytes,
    ) -> Self {
        // Turns with one event are the many, and room for four would be most of what is kept.
        if events.capacity() > events.len() + events.len() / 4 {
            events.shrink_to_fit();
        }
        let room = events.capacity() * size_of::<Event>();
        let bytes = size_of::<Self>() + room + events.iter().map(Event::bytes).sum::<usize>();
        let (frames, rendered) = (OnceLock::new(), AtomicI64::new(0));
        Self { first_id, events, frames, bytes, rendered, rendered_in_ring }
    }

    pub(super) fn last_id(&self) -> u64 {
        self.id_of(self.events.len()) - 1
    }

    pub(super) fn id_of(&self, place: usize) -> u64 {
        self.first_id + place as u64
    }

    /// The bytes of one event, made once for all who read it.
    pub(super) fn frame(&self, place: usize, tenant: &str) -> &Frame {
        let frames = self.frames.get_or_init(|| {
            self.count_rendered(self.events.len() * size_of::<OnceLock<Frame>>());
            self.events.iter().map(|_| OnceLock::new()).collect()
        });
        frames[place].get_or_init(|| {
            let frame = Frame::of(&self.events[place], self.id_of(place), tenant);
            self.count_rendered(frame.len());
            frame
        })
    }

    fn count_rendered(&self, n_bytes: usize) {
        let n_bytes = i64::try_from(n_bytes).expect("a frame is small");
        if self.rendered.fetch_add(n_bytes, Ordering::Relaxed) < RETIRED {
            self.rendered_in_ring.fetch_add(n_bytes, Ordering::Relaxed);
        }
    }

    /// The ring lets go of it: what readers still make of it is not the ring's.
    pub(super) fn retire(&self) {
        let rendered = self.rendered.fetch_add(RETIRED, Ordering::Relaxed);
        self.rendered_in_ring.fetch_sub(rendered, Ordering::Relaxed);
    }
}
