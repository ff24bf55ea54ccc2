//! What every store owes the coordinator, as tests that any store can be put through.
//!
//! Reading order: `promises` (short stories, one per promise), `replay` (any history, compared
//! with [`Tables`](crate::Tables) after each part), `history` (makes valid histories),
//! `sample` (tasks to play with), `scratch` (the same for keys and values).

mod history;
mod promises;
mod replay;
mod sample;
mod scratch;

pub use promises::exercise;
pub use replay::replay;
pub use sample::{granted, settled, submitted, tenant};
pub use scratch::{exercise_scratch, replay_scratch, string};
