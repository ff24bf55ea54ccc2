//! What a keyspace promises, among it that it answers as a real Redis does.

mod chance;
mod compare;
mod differential;
mod generator;
mod grammar;
mod redis;
mod rows;
mod support;
