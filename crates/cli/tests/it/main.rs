//! The binary as people use it: real processes, real sockets, a real server and a real worker.

mod plan_commands;
mod plans;
mod queues;
mod run;
mod run_failures;
mod run_many;
mod sandbox;
mod sandbox_bombs;
mod support;
#[path = "../../../../tests/waiting.rs"]
mod waiting;
mod workflows;
