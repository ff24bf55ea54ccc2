//! Runs of random workflows under faults, compared with a simple interpreter.
//!
//! Reading order: `generate` (a workflow from a seed), `deeds` (what its steps do: always the same,
//! whoever executes them), `interpret` (what must come of it), `world` (workers, crashes, lost
//! leases, repeated words), `checks` (what must be true of every turn that is kept), `find` (planted bugs).

mod checks;
mod deeds;
mod find;
mod generate;
mod interpret;
mod world;

pub use find::find;
pub use world::{FlowResult, run};
