//! Events that were told together, with neighbouring ids.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

use shard::projection::Event;

use super::frame::Frame;

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
