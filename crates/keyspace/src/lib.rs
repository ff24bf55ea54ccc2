//! Keys and values of clients: the part of Redis that workers and agents use. Pure: no clock, no
//! randomness, no I/O.
//!
//! Reading order: [`call`] is one command and its answer. [`keyspace`] is the table of keys, and
//! says what it may hold. `value` is what keys hold, [`row`] what a store keeps of them. The
//! commands are in [`keys`], [`strings`], [`lists`], [`hashes`] and [`sorted_sets`]; their names
//! and the numbers of their arguments stand in the table of the server's Redis door.

// Tests may read files and measure time; what they test may not.
#![cfg_attr(not(test), deny(clippy::disallowed_types, clippy::disallowed_methods))]

pub mod call;
mod glob;
pub mod hashes;
pub mod keys;
pub mod keyspace;
pub mod lists;
pub mod row;
pub mod sorted_sets;
pub mod strings;
mod value;

pub use call::{Answer, Call, End, Failure, Operation, Popped};
pub use glob::matches;
pub use keyspace::{Keyspace, Limits};
pub use row::{DamagedRow, Kind, Row, Write};
