//! The messages of the HTTP door, as JSON: one file per noun.
//!
//! Requests refuse unknown fields, so that a typing error is not silently ignored. Answers are
//! read leniently, so that an older client understands a newer server.

pub mod actions;
pub mod events;
pub mod health;
pub mod leases;
pub mod logs;
pub mod plans;
pub mod problem;
pub mod queues;
pub mod resources;
pub mod runs;
pub mod schedules;
pub mod tasks;
pub mod tokens;
pub mod workers;
pub mod workflows;
