//! What every store owes the coordinator, as tests that any store can be put through.
//!
//! Reading order: `promises` (short stories, one per promise), `replay` (any history, compared
//! with [`Tables`](crate::Tables) after each part), `history` (makes valid histories),
//! `sample` (tasks to play with), `run_promises`, `run_history` and `run_sample` (the same for
//! runs), `scratch` (the same for keys and values).

mod history;
mod promises;
mod replay;
mod run_history;
mod run_promises;
mod run_sample;
mod sample;
mod scratch;

pub use promises::exercise;
pub use replay::replay;
pub use run_promises::exercise_runs;
pub use run_sample::{frame_opened, linked, node_ended, run_settled, run_started};
pub use sample::{granted, settled, submitted, tenant};
pub use scratch::{exercise_scratch, replay_scratch, string};
