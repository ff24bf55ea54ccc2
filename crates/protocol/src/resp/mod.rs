//! The Redis protocol: requests in, replies out, in versions 2 and 3.
//!
//! Reading order: [`request`] reads what clients send, [`reply`] writes what they get,
//! [`client`] is the other end.

pub mod client;
mod double;
mod number;
pub mod reply;
pub mod request;
