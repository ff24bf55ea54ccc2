//! Everything that a tenant is, as one machine without I/O. The server drives it with a socket's
//! clock and a real store, the simulation with its own.
//!
//! Reading order: `turn` (what one commit makes durable, and what comes back after a restart),
//! `shard` (the turn loop), `projection` (what is told outside once it is durable), [`sessions`]
//! (which workers are connected, and who takes over from whom), [`documents`] (what a tenant keeps as
//! documents), [`worker_link`] (one connection of a worker), then what the doors share with it
//! ([`artifacts`], [`report_key`], [`verdict_words`]).

// Tests may read files and measure time; what they test may not.
#![cfg_attr(not(test), deny(clippy::disallowed_types, clippy::disallowed_methods))]

pub mod artifacts;
pub mod documents;
pub mod projection;
pub mod report_key;
pub mod sessions;
mod shard;
mod turn;
pub mod verdict_words;
pub mod worker_link;

pub use shard::{Effect, Limits, MESSAGES_PER_TURN_MAX, Shard, Tap, Tell};
pub use turn::{ClaimedShard, Document, DocumentBody, DocumentKind, Restored, Turn};
