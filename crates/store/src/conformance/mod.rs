//! What every store owes the coordinator, as tests that any store can be put through.
//!
//! Reading order: `promises` (short stories, one per promise), `replay` (any history, compared
//! with [`Tables`](crate::Tables) after each part), `history` (makes valid histories),
//! `sample` (tasks to play with).

mod history;
mod promises;
mod replay;
mod sample;

pub use promises::exercise;
pub use replay::replay;
pub use sample::{granted, settled, submitted, tenant};
