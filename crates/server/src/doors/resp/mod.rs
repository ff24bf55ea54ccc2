//! The Redis protocol: `redis-cli` is a client and a worker (seed 004).
//!
//! Reading order: `listener` (a socket comes), `gate` (who is it), `connection` (requests in,
//! replies out, in order), then the commands by group. `crew` knows the workers that speak this
//! protocol and what they hold; `convert` and `answers` translate.

mod actions;
mod answers;
mod auth;
mod classify;
mod client;
mod connection;
mod convert;
mod crew;
pub(crate) mod crew_member;
mod dispatch;
mod gate;
mod info;
mod jobs;
mod keys;
pub(crate) mod listener;
mod plans;
mod pops;
mod pubsub;
mod queues;
mod reports;
mod stream;
mod submits;
mod verify;
mod views;
mod wire;
mod workers;

pub(crate) use crew::Crew;
