//! The HTTP door, from outside: a real server on a real store, real sockets, bytes in, bytes out.

mod access;
mod actions;
mod bad_input;
mod bindings;
mod events;
mod flows;
mod hooks;
mod leases;
mod logs;
mod metrics;
mod plans;
mod queues;
mod rebinds;
mod reports;
mod run_nodes;
mod run_retries;
mod runs;
mod schedules;
mod store_trouble;
mod support;
mod surface;
mod tasks;
mod tokens;
#[path = "../../../../tests/waiting.rs"]
mod waiting;
mod watching;
mod workers;
mod workflows;
