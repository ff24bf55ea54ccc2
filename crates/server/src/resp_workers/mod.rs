//! What is known of workers that speak the Redis protocol: the door and the task of the shard share
//! it. It decides nothing.
//!
//! Reading order: `worker_registry` (the workers of one tenant), `resp_worker` (one of them and the
//! jobs that it holds), `registration` (what a worker says that it can do).

pub(crate) mod registration;
pub(crate) mod resp_worker;
mod worker_registry;

pub(crate) use worker_registry::WorkerRegistry;
