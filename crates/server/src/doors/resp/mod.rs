//! The Redis protocol: `redis-cli` is a client and a worker (seed 004).
//!
//! Reading order: `listener` (a socket comes), `gate` (who is it), `connection` (requests in,
//! replies out, in order), then the commands by group. `convert` and `answers` translate. The
//! workers that speak this protocol and what they hold are known to `crate::resp_workers`.

mod actions;
mod answers;
mod auth;
pub(crate) mod capabilities;
mod classify;
mod client;
pub(crate) mod connection;
mod convert;
mod dispatch;
pub(crate) mod gate;
mod info;
pub(crate) mod jobs;
mod keys;
pub(crate) mod listener;
pub(crate) mod multi;
mod plans;
pub(crate) mod pops;
pub(crate) mod pubsub;
pub(crate) mod queues;
mod reports;
mod stream;
mod submits;
mod verify;
mod views;
pub(crate) mod wire;
pub(crate) mod workers;
