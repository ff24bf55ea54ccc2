//! The real shard under every fault, from one seed.
//!
//! A run has two phases: first faults without mercy, then none, and everything must come to its
//! end. Reading order: [`RunConfig`] and `world` (what exists, and the loop), `agenda` (what
//! happens when), `server` and `server_life` (drive the shard as the production task
//! does), `store`, `network`,
//! `worker`, `worker_faults`, `session` (workers that hold sessions), `submitter`, `workload` (what they do and suffer), `runs` (random
//! workflows, and how they must end), `oracle` (what must be true), `liveness`, then `seeds`,
//! `sweep`, `shrink` and `report` (many seeds, and what to say). [`Tables`] is what every store is
//! compared with.

mod agenda;
mod clock;
mod consequence;
mod faults;
mod liveness;
mod memory_store;
mod message;
mod network;
mod options;
mod oracle;
pub mod report;
mod rng;
mod run;
mod runs;
pub mod seeds;
mod server;
mod server_life;
mod session;
mod shrink;
mod store;
mod submitter;
mod sweep;
mod tables;
mod trace;
mod worker;
mod worker_faults;
mod workload;
mod world;

pub use consequence::{Consequence, Counters};
pub use faults::{Fault, FaultSet};
pub use memory_store::MemoryStore;
pub use options::{Mode, Options, USAGE};
pub use oracle::Violation;
pub use rng::Dice;
pub use run::{RunResult, run};
pub use shrink::shrink;
pub use sweep::{Sweep, SweepResult};
pub use tables::Tables;
pub use trace::Trace;
pub use world::{RunConfig, WORKFLOWS_ALONE};
