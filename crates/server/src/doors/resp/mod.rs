//! The Redis protocol: `redis-cli` is a client and a worker (seed 004).
//!
//! Reading order: `listener` (a socket comes), `auth` (who is it), `connection` (requests in,
//! replies out, in order), `commands` (the table of commands), then the commands by group.
//! `answers` translates. The workers that speak this protocol and what they hold are
//! known to `crate::resp_workers`.

mod answers;
mod auth;
mod client;
pub(crate) mod command_spec;
pub(crate) mod commands;
pub(crate) mod connection;
mod dispatch;
mod info;
pub(crate) mod jobs;
mod keys;
pub(crate) mod lease_pop;
pub(crate) mod listener;
mod plans;
pub(crate) mod pubsub;
pub(crate) mod queues;
mod reports;
mod views;
pub(crate) mod wire;
pub(crate) mod workers;
