//! The worker of the Redis door: it pulls jobs from a server that speaks WIRE section E, ours or
//! another one (seed 004).
//!
//! Reading order: [`worker`] starts one and stops it; [`connection`] is where its server is and
//! speaks to it, [`registration`] says who we are and learns which dialect is spoken, `reconnecting`
//! keeps a connection alive. `fetch` pops jobs, `job` reads them; `execution` is one job from its
//! start to its report, `report` has the two ways to report, `heartbeat` is the sign of life.

pub mod connection;
mod execution;
mod fetch;
mod heartbeat;
mod job;
mod reconnecting;
pub mod registration;
mod report;
#[cfg(test)]
mod tests;
pub mod worker;
