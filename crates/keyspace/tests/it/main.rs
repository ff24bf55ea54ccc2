//! What a keyspace promises, among it that it answers as a real Redis does.

mod chance;
mod compare;
mod differential;
mod expiry;
mod generator;
mod grammar;
mod limits;
mod redis;
mod restore;
mod rows;
mod scans;
mod support;
mod waiting;
