//! Live events: what becomes of runs, their nodes and workers, for whoever watches.
//!
//! Facts become events in the turn that makes them (`shard::projection`), and are told when the
//! turn is durable. They
//! decide nothing: nobody who reads can hold up the loop. A reader has no buffer here, only a
//! place in the ring that all readers of a tenant share; who falls out of it is cut off and comes
//! back for a snapshot.
//!
//! Reading order: `tenant` (publish, read), `index`
//! (which task belongs to which node), `feedback` (a worker's
//! words to events), `ids`, `ring` (the past), `filter` (who wants what), `frame` (events to
//! bytes), `batch`, `page` (what readers at one place are sent), `pace` (how often), `reader` (a
//! place in the ring), `tickets` (a way in without a header), `limits`.

mod batch;
mod feedback;
mod filter;
mod frame;
mod ids;
mod index;
mod limits;
mod pace;
mod page;
mod reader;
mod ring;
mod tenant;
mod tickets;

#[cfg(test)]
mod tests;

pub(crate) use filter::Filter;
pub(crate) use frame::{FRAME_END, opening_data, opening_head};
pub(crate) use ids::floors;
pub use limits::{
    BEHIND_EVENTS, CHUNK_BYTES_MAX, FLOOD_EVENTS, LINGER_FOR, LOOK_COSTS, LOOK_EVERY,
    LOOKS_AT_ONCE, PAGE_BYTES_MAX, PAGES_MAX, READ_EVENTS_MAX, READERS_MAX, RING_BYTES_MAX,
    RING_EVENTS_MAX, SHARED_BYTES_MAX,
};
pub(crate) use reader::{Came, Reader, Said};
pub use shard::projection::RESULT_BYTES_MAX;
pub(crate) use tenant::TenantEvents;
pub(crate) use tickets::{Holder, TicketError, Tickets};
pub use tickets::{TICKET_LIFETIME, TICKETS_MAX};
