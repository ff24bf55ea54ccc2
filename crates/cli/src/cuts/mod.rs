//! Workers with sessions over a network that fails, while an outside client knows what every task
//! must have said.
//!
//! Reading order: `run` (the whole), `job` (what a task says), `plan` (which fault when), `crew`
//! (workers, each behind a proxy of its own), `storm` (faults while tasks run), `audit` (what must
//! be true afterwards), `stories` (a worker that is frozen, a server that hangs up at once).

mod audit;
mod crew;
mod job;
mod plan;
mod run;
mod stories;
mod storm;

pub(crate) use run::{Arguments, run};
