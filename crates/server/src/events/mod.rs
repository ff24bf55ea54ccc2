//! Live events: what becomes of runs, their nodes and workers, for whoever watches.
//!
//! Facts become events in the turn that makes them (`shard::projection`), and are told when the
//! turn is durable. They decide nothing: nobody who reads can hold up the loop. A reader has no buffer here, only a
//! place in the ring that all readers of a tenant share; who falls out of it is cut off and comes
//! back for a snapshot.
//!
//! Reading order: `tenant` (publish, read), `feedback` (a worker's words to events), `ring` (the
//! past), `frame` (events to bytes), `page` (what readers at one place are
//! sent), `reader` (who wants what, a place in the ring, how often it looks, and the limits), `tickets` (a way in
//! without a header).

mod feedback;
mod frame;
mod page;
mod reader;
mod ring;
mod tenant;
mod tickets;

#[cfg(test)]
mod tests;

pub(crate) use frame::{FRAME_END, opening_data, opening_head, run_status};
pub(crate) use reader::{Came, Filter, READERS_MAX, Reader, Said};
pub(crate) use ring::floors;
pub use shard::projection::RESULT_BYTES_MAX;
pub(crate) use tenant::TenantEvents;
pub use tickets::TICKET_LIFETIME;
pub(crate) use tickets::{Holder, Tickets};
