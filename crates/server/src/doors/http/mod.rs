//! The HTTP door: JSON under `/api/v1`.
//!
//! Reading order: `listener` (sockets), `router` (paths, and who may use them), `openapi` (how they
//! are described), `auth_layer` (what every request passes), `request` (bytes to types), `convert`
//! (words to commands) and `answers` (back), then one file per noun: `tasks`, `explain`, `logs`,
//! `leases`, `run_starts`, `runs`, `workflows`, `schedules`, `plans`, `workers`, `resources`,
//! `queues`, `events`, `tokens`, `health`. How a refusal looks is `crate::wire_words::problem`.

mod answers;
mod auth_layer;
mod convert;
mod events;
mod explain;
mod health;
mod leases;
pub mod listener;
mod logs;
mod openapi;
mod plans;
mod queues;
mod request;
mod resources;
mod router;
mod run_starts;
mod runs;
mod schedules;
mod tasks;
mod tokens;
mod workers;
mod workflows;

pub(crate) use events::Snapshots;
pub use router::{openapi, who_may};
