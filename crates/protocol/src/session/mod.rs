//! The session protocol of the WebSocket door: frames, windows, and the machines at both ends.
//!
//! No sockets and no clocks: bytes and moments come in, frames and events come out.

pub mod envelope;
