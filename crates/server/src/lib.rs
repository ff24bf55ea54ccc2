//! Serves: a coordinator loop per tenant, the doors, tokens, metrics.
//!
//! Reading order: [`app`] (the whole), [`handle`] (how doors talk to a loop), `coordinator_loop`
//! (the one turn that everything goes through), `outbox` (effects leave), [`shards`], then
//! [`doors`], [`feedback`] (what never enters a coordinator), [`events`] (what is told of runs), `resources` (what workers keep), [`scratch`] (keys and values), [`auth`], [`metrics`].

pub mod app;
mod artifacts;
pub mod auth;
mod bulk;
pub mod clock;
mod coordinator_loop;
mod crews;
mod dice;
pub mod doors;
pub mod events;
pub mod feedback;
pub mod handle;
pub mod limits;
pub mod metrics;
mod outbox;
mod pauses;
mod plans;
mod resources;
mod runs;
mod schedules;
pub mod scratch;
mod sessions;
pub mod shards;
pub(crate) mod ui;
mod updates;
mod workflows;

pub use coordinator_loop::{COMMANDS_PER_TURN_MAX, TURNS_IN_FLIGHT_MAX};
