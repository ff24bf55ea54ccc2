//! Everything that a tenant is, as one machine without I/O.
//!
//! Reading order: [`Turn`] (what one commit makes durable, and what a claimed shard holds).

mod turn;

pub use turn::{ClaimedShard, Restored, Turn};
