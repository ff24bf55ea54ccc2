//! Serves: a shard per tenant, the doors, tokens, metrics.
//!
//! Reading order: [`app`] (the whole), [`handle`] (how doors talk to a shard), `shard_task`
//! (drives the one turn that everything goes through), [`directory`] (who owns which tenant), then
//! [`doors`] (with `wire_words`, which they share, and `resp_workers`), [`logs`] (what never enters a coordinator), [`events`] (what is told of runs), `resources` (what workers keep), [`keyspace`] (keys and values), [`auth`], [`metrics`].

pub mod app;
pub mod auth;
mod bulk;
pub mod clock;
pub mod directory;
pub mod doors;
pub mod events;
pub mod handle;
pub mod keyspace;
mod links;
pub mod logs;
pub mod metrics;
mod plans;
mod resources;
mod resp_workers;
mod runs;
mod schedules;
mod session_keys;
mod shard_task;
pub(crate) mod ui;
mod updates;
#[cfg(test)]
#[path = "../../../tests/waiting.rs"]
mod waiting;
mod wire_words;
mod workflows;

pub use doors::resp::command_spec::CommandSpec;
pub use doors::resp::commands::COMMANDS as REDIS_COMMANDS;
