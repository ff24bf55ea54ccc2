//! Real processes, killed at random moments, while an outside client keeps its own books.
//!
//! Reading order: `run` (the whole), `dice` (chance from a seed), `ledger` (what the outside client
//! was told), `submitter`, `flows` and `reporter` (the outside client), `killer` (what is done to the
//! processes), `audit` (the books against the store).

mod audit;
mod dice;
mod flows;
mod killer;
mod ledger;
mod reporter;
mod run;
mod submitter;

pub(crate) use dice::Dice;
pub(crate) use run::{Arguments, run};
