//! Executes: does the work of leases, reports, and obeys the verdict (seed 002).
//!
//! Reading order: [`core`] is what every worker does, however it reaches its server; [`builtin`] what
//! every worker can do, [`runner`] runs programs, [`sandbox`] bounds them, [`resources`] keeps what
//! tasks leave behind. [`transport`] has the worker that holds a session over a WebSocket and the one
//! that pulls jobs over the Redis protocol.

pub mod builtin;
pub mod core;
pub mod resources;
pub mod runner;
pub mod sandbox;
pub mod transport;
#[cfg(test)]
#[path = "../../../tests/waiting.rs"]
mod waiting;

pub use transport::ws::worker::{Options, RunningWorker};
