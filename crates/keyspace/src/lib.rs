//! Keys and values with the commands of Redis. Pure: no clock, no dice, no I/O.
//!
//! Reading order: [`row`] is what a store keeps, [`answer`] what a command gives.

pub mod answer;
pub mod row;
