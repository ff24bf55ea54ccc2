//! The session protocol of the WebSocket door: frames, windows, and the machines at both ends.
//!
//! No sockets and no clocks: bytes and moments come in, frames and events come out.
//!
//! What is said: [`envelope`], [`kind`], then [`payload`] file by file; [`codec`] has the limits.
//! Reading order of the rest: [`window`], [`worker_machine`], [`server_machine`].

pub mod backoff;
pub mod codec;
pub mod control;
mod control_queue;
pub mod envelope;
pub mod event;
pub mod frame;
pub mod incoming;
pub mod kind;
pub mod outgoing;
pub mod payload;
mod read;
mod rule;
pub mod server_machine;
pub mod server_session;
pub mod state;
#[cfg(test)]
mod tests;
pub mod token;
pub mod window;
pub mod worker_machine;
