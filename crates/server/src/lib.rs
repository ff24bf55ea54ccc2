//! Serves: a coordinator loop per tenant, the doors, tokens, metrics.
//!
//! Reading order: [`app`] (the whole), [`handle`] (how doors talk to a loop), `coordinator_loop`
//! (the one turn that everything goes through), `outbox` (effects leave), [`shards`], then
//! [`doors`], [`feedback`] (what never enters a coordinator), [`auth`], [`metrics`].

pub mod app;
pub mod auth;
pub mod clock;
mod coordinator_loop;
mod dice;
pub mod doors;
pub mod feedback;
pub mod handle;
pub mod limits;
pub mod metrics;
mod outbox;
mod plans;
mod sessions;
pub mod shards;
pub(crate) mod ui;
mod updates;

pub use coordinator_loop::{COMMANDS_PER_TURN_MAX, TURNS_IN_FLIGHT_MAX};

mod scratch {
    use std::sync::Arc;
    use bytes::Bytes;
    pub struct Scratch;
    pub struct TenantScratch;
    pub struct Mark;
    impl Scratch {
        pub fn new(_: Arc<dyn store::Store>, _: crate::shards::Shards, _: crate::clock::Clock, _: tokio_util::sync::CancellationToken) -> Self { Self }
        pub async fn of(&self, _: &model::TenantId) -> Result<Arc<TenantScratch>, ()> { Err(()) }
    }
    impl TenantScratch {
        pub fn execute(&self, _: &[&[Bytes]], _: model::Timestamp) -> (Vec<keyspace::Answer>, Mark) { (vec![], Mark) }
        pub async fn durable(&self, _: Mark) -> Result<(), ()> { Ok(()) }
        pub async fn execute_waiting(&self, _: Vec<Bytes>, _: crate::clock::Clock) -> Result<keyspace::Answer, ()> { Err(()) }
        pub fn n_keys(&self) -> usize { 0 }
        pub fn n_bytes(&self) -> usize { 0 }
    }
}
