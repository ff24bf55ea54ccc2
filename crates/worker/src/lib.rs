//! Executes: pulls leases over HTTP, does the work, reports, and obeys the verdict (seed 002).
//!
//! Reading order: [`endpoint`] and [`client`] talk to a server; [`executor`] is what a worker can
//! do, [`builtin`] what every worker can do; [`worker`] is the loop; [`attempt`] is one lease from
//! its grant to its verdict.

pub mod attempt;
pub mod builtin;
pub mod client;
pub mod endpoint;
pub mod executor;
pub mod feedback;
pub mod runner;
pub mod toolbox;
pub mod worker;
