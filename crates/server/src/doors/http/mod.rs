//! The HTTP door: JSON under `/api/v1`.
//!
//! Reading order: `listener` and `stall` (sockets), `router` (paths), `gate` (what every request passes),
//! `permissions` (who may do what), `body` (bytes to types), `convert` and its neighbours (words
//! to commands and back), then one file per noun: `tasks`, `logs`, `leases`, `reports`,
//! `run_starts`, `runs`, `run_nodes`, `rebind`, `workflows`, `schedules`, `hooks`, `plans`, `actions`, `jobs`, `workers`, `resources`, `queues`, `events`, `tokens`, `health`. How a refusal looks is `crate::wire_words::problem`.

pub(crate) mod actions;
pub(crate) mod answers;
pub(crate) mod body;
pub(crate) mod convert;
mod event_tickets;
mod events;
mod explain;
mod gate;
mod health;
mod hooks;
mod jobs;
pub(crate) mod leases;
pub mod listener;
mod logs;
mod params;
pub(super) mod permissions;
mod plans;
mod queues;
mod rebind;
pub(crate) mod reports;
mod resources;
mod router;
pub(crate) mod run_nodes;
mod run_starts;
mod runs;
pub(crate) mod schedules;
pub(crate) mod stall;
pub(crate) mod tasks;
pub(crate) mod tokens;
mod workers;
mod workflows;

pub(crate) use events::Snapshots;
pub use router::openapi;
