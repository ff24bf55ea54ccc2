//! A TCP proxy that does to connections what networks do: cut, delay, swallow, fall silent; and to
//! whole WebSocket messages what a session must bear: twice, and in the wrong order.
//!
//! Reading order: `fault` (what can happen), `frames` (where messages end), `lane` (one direction),
//! `connection` (both), `listener` (all connections of one client).

mod connection;
mod fault;
mod frames;
mod lane;
mod listener;

#[cfg(test)]
mod tests;

pub(crate) use fault::{Direction, Fault, Kind};
pub(crate) use listener::Proxy;
