//! Events that were told together, with neighbouring ids.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::event::Event;
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
        Self { first_id, events, bytes, rendered: AtomicI64::new(0), rendered_in_ring }
    }

    pub(super) fn last_id(&self) -> u64 {
        self.id_of(self.events.len()) - 1
    }

    pub(super) fn id_of(&self, place: usize) -> u64 {
        self.first_id + place as u64
    }

    /// The bytes of one event, made once for all who read it.
    pub(super) fn frame(&self, place: usize, tenant: &str) -> &Frame {
        let event = &self.events[place];
        event.frame.get_or_init(|| {
            let frame = Frame::of(event, self.id_of(place), tenant);
            let n_bytes = i64::try_from(frame.len()).expect("a frame is small");
            if self.rendered.fetch_add(n_bytes, Ordering::Relaxed) < RETIRED {
                self.rendered_in_ring.fetch_add(n_bytes, Ordering::Relaxed);
            }
            frame
        })
    }

    /// The ring lets go of it: what readers still make of it is not the ring's.
    pub(super) fn retire(&self) {
        let rendered = self.rendered.fetch_add(RETIRED, Ordering::Relaxed);
        self.rendered_in_ring.fetch_sub(rendered, Ordering::Relaxed);
    }
}
