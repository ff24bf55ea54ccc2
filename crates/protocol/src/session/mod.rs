//! The session protocol of the WebSocket door: frames, windows, and the machines at both ends.
//!
//! No sockets and no clocks: bytes and moments come in, frames and events come out.
//!
//! What is said: [`envelope`], [`kind`], [`alias`], then [`payload`] file by file; [`decode`] and
//! [`encode`] have the limits. Reading order of the rest: [`window`], [`worker_machine`],
//! [`server_machine`].

pub mod alias;
pub mod backoff;
pub mod control;
pub mod decode;
mod dice;
pub mod encode;
pub mod envelope;
pub mod event;
pub mod frame;
pub mod incoming;
pub mod kind;
mod lane;
mod moment;
pub mod open;
pub mod outgoing;
pub mod payload;
mod quick;
mod read;
pub mod server_machine;
pub mod server_session;
pub mod state;
#[cfg(test)]
mod tests;
pub mod token;
pub mod unnumbered;
pub mod window;
mod windows;
pub mod worker_machine;
mod write;
