//! The HTTP door: JSON under `/api/v1`.
//!
//! Reading order: `listener` (sockets), `router` (paths), `openapi` (how they are described),
//! `auth_layer` (what every request passes), `permissions` (who may do what), `body` and `params`
//! (bytes to types), `convert` (words to commands) and `answers` (back), then one file per noun:
//! `tasks`, `logs`, `leases`, `run_starts`, `runs`, `run_nodes`, `workflows`, `schedules`, `hooks`,
//! `plans`, `actions`, `workers`, `resources`, `queues`, `events`, `tokens`, `health`. How a refusal
//! looks is `crate::wire_words::problem`.

pub(crate) mod actions;
pub(crate) mod answers;
mod auth_layer;
pub(crate) mod body;
pub(crate) mod convert;
mod events;
mod explain;
mod health;
mod hooks;
pub(crate) mod leases;
pub mod listener;
mod logs;
mod openapi;
mod params;
mod permissions;
mod plans;
mod queues;
mod resources;
mod router;
pub(crate) mod run_nodes;
mod run_starts;
mod runs;
pub(crate) mod schedules;
pub(crate) mod tasks;
pub(crate) mod tokens;
mod workers;
mod workflows;

pub(crate) use events::Snapshots;
pub use permissions::who_may;
pub use router::openapi;
