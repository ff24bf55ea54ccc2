//! The worker of the WebSocket door: one session over any number of connections.
//!
//! Reading order: [`worker`] starts one and stops it; [`settings`], [`identity`] and
//! [`capabilities`] say who it is and what it can do; `link` is the one task that owns the socket
//! and the protocol's machine; `desk` has what is under way, `attempt` is one errand while it
//! runs, `calls` are what middlewares wait for, `frames` what is said about it.

pub mod address;
mod attempt;
mod calls;
pub mod capabilities;
mod clock;
mod desk;
mod frames;
mod heartbeat;
mod history;
pub mod identity;
mod link;
pub(crate) mod load;
mod log;
pub mod metrics;
mod metrics_door;
pub mod settings;
mod socket;
#[cfg(test)]
mod tests;
pub mod worker;
