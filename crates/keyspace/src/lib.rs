//! Keys and values with the commands of Redis. Pure: no clock, no dice, no I/O.
//!
//! Reading order: [`row`] is what a store keeps, [`answer`] what a command gives. [`keyspace`] is
//! the table of keys, `command` the list of commands. They are carried out in the files of their
//! groups: `strings`, `lists`, `hashes`, `sets`, `sorted_sets`, `expiry`, `generic` and `scan`.
//! `value` is what keys hold.

// Tests may read files and measure time; what they test may not.
#![cfg_attr(not(test), deny(clippy::disallowed_types, clippy::disallowed_methods))]

pub mod answer;
mod budget;
mod call;
mod command;
mod dice;
mod expiry;
mod failure;
mod generic;
mod glob;
mod growth;
mod hash_state;
mod hashes;
pub mod keyspace;
mod ledger;
mod limits;
mod list_ends;
mod lists;
mod literal;
mod long_double;
mod natural;
mod number;
mod restore;
pub mod row;
mod scan;
mod set_algebra;
mod sets;
mod sorted_ranges;
mod sorted_sets;
mod string_expiry;
mod strings;
mod value;

pub use answer::Answer;
pub use call::Moment;
pub use glob::matches;
pub use keyspace::Keyspace;
pub use limits::Limits;
pub use restore::DamagedRow;
pub use row::{KeyRow, Kind, Write};
