//! Workers that hold sessions: real machines at both ends, frames as bytes between them.
//!
//! Reading order: `wire` (connections that delay, lose, repeat and break), `worker` (a process with
//! the worker's machine), `link` (the server's end: drives a [`shard::worker_link::WorkerLink`] as
//! the production driver does).

mod link;
mod wire;
mod worker;

pub(crate) use link::Link;
pub(crate) use wire::{Direction, Line, Sent};
pub(crate) use worker::{SessionTimer, SessionWorker};
