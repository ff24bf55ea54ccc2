//! The WebSocket door: sessions of workers under `/ws/worker`.
//!
//! Reading order: `listener` (a request becomes a socket), `wire` (frames in, frames out),
//! `connection` (the loop of one socket), `driver` (does what its link asks for), `handshake` (who
//! may open or resume a session), `observe` (what others see of it). What frames mean is decided
//! by `shard::worker_link`.

mod connection;
mod driver;
mod handshake;
pub(crate) mod listener;
mod observe;
pub(crate) mod wire;
