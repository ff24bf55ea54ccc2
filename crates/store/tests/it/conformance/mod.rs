//! What every store owes the coordinator, as tests that any store can be put through.
//!
//! Reading order: `promises` (short stories, one per promise), `replay` (any history, compared
//! with [`Tables`](sim::Tables) after each part), `history` (makes valid histories),
//! `sample` (tasks to play with), `run_promises`, `run_history` and `run_sample` (the same for
//! runs), `keys` (the same for keys and values).

mod history;
mod keys;
mod promises;
mod replay;
mod run_history;
mod run_promises;
mod run_sample;
mod sample;

pub(crate) use keys::{exercise_keys, replay_keys, string};
pub(crate) use promises::exercise;
pub(crate) use replay::replay;
pub(crate) use run_promises::exercise_runs;
pub(crate) use run_sample::{frame_opened, linked, node_ended, run_settled, run_started};
pub(crate) use sample::{granted, settled, submitted, tenant};
