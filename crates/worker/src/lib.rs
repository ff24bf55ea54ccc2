//! Executes: does the work of leases, reports, and obeys the verdict (seed 002).
//!
//! Reading order: [`executor`] is what a worker can do, [`builtin`] what every worker can do,
//! [`runner`] runs programs, [`feedback`] is what work says before its end, [`next`] how a middleware calls
//! what it is wrapped around. [`session`] is the
//! worker that holds a session over a WebSocket, [`resp`] the one that pulls jobs over the Redis
//! protocol. The third worker pulls leases over HTTP: [`endpoint`] and [`client`] talk to a server;
//! [`worker`] is its loop, [`attempt`] one lease from its grant to its verdict.

pub mod attempt;
pub mod builtin;
pub mod client;
pub mod endpoint;
pub mod executor;
pub mod feedback;
pub mod next;
pub mod resources;
pub mod resp;
pub mod runner;
pub mod session;
pub mod toolbox;
#[cfg(test)]
#[path = "../../../tests/waiting.rs"]
mod waiting;
pub mod worker;

pub use session::worker::{Options, RunningWorker, Worker};
