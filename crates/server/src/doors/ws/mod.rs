//! The WebSocket door: sessions of workers under `/ws/worker`.
//!
//! Reading order: `listener` (a request becomes a socket), `wire` (frames in, frames out),
//! `connection` (the loop of one socket), `gate` (who may open or resume a session), `convert`
//! (wire words to commands) and `answers` (back again), `next` (the same for middlewares), `desk`
//! (what a worker does for us).

mod answers;
mod connection;
pub(crate) mod convert;
pub(crate) mod desk;
pub(crate) mod gate;
pub(crate) mod listener;
mod log;
mod next;
mod references;
pub(crate) mod wire;
