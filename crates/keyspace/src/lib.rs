//! Keys and values with the commands of Redis. Pure: no clock, no dice, no I/O.
//!
//! Reading order: [`row`] is what a store keeps, [`answer`] what a command gives. [`keyspace`] is
//! the table of keys, `command` the list of commands; they are carried out in the files of their
//! groups: strings, lists and expiry.

pub mod answer;
mod budget;
mod call;
mod command;
mod expiry;
mod failure;
mod growth;
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
mod string_expiry;
mod strings;
mod value;

pub use answer::Answer;
pub use call::Moment;
pub use keyspace::Keyspace;
pub use limits::Limits;
pub use restore::DamagedRow;
pub use row::{KeyRow, Kind, Write};

#[doc(hidden)]
pub fn matches(_: &[u8], _: &[u8]) -> bool { true }
