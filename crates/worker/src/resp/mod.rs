//! The worker of the Redis door: it pulls jobs from a server that speaks WIRE section E, ours or
//! another one (seed 004).
//!
//! Reading order: [`worker`] starts one and stops it; [`address`] is where its server is,
//! [`connection`] speaks to it, `greeting` says who we are and learns which dialect is spoken,
//! `line` keeps a connection alive. `fetch` pops jobs, `job` reads them, `lookup` asks for what
//! they do not say; `execution` is one job from its start to its report, `update` and `listed` are
//! the two ways to report, `heartbeat` is the sign of life; [`units`] describe themselves.

pub mod address;
mod backoff;
pub mod connection;
mod error_text;
mod execution;
mod fetch;
mod greeting;
mod heartbeat;
mod job;
mod leaving;
mod line;
mod listed;
mod lookup;
mod pace;
mod registration;
mod tally;
#[cfg(test)]
mod tests;
pub mod units;
mod update;
pub mod worker;
