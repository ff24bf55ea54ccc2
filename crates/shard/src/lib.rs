//! Everything that a tenant is, as one machine without I/O. The server drives it with a socket's
//! clock and a real store, the simulation with its own.
//!
//! Reading order: `turn` (what one commit makes durable, and what comes back after a restart),
//! `shard` (the turn loop), `projection` (what is told outside once it is durable), `planted`
//! (mistakes that the simulation must find).

pub mod planted;
pub mod projection;
mod shard;
mod turn;

pub use shard::{Effect, Limits, MESSAGES_PER_TURN_MAX, Shard, TURNS_IN_FLIGHT_MAX, Tap};
pub use turn::{ClaimedShard, Restored, Turn};
