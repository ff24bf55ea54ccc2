//! The worker of the WebSocket door: one session over any number of connections.
//!
//! Reading order: [`worker`] starts one and stops it, [`settings`] is what its environment says;
//! `session` is the one task that owns the [`socket`] and the protocol's machine: `inbound` is what
//! comes in, reads of resources among it, `outbound` what goes out and `frames` how it is said, `chain`
//! what middlewares call for.

mod chain;
mod frames;
mod inbound;
pub mod metrics;
mod outbound;
mod session;
pub mod settings;
pub mod socket;
#[cfg(test)]
mod tests;
pub mod worker;
