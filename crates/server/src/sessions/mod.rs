//! The sessions of workers, of all tenants: the lock, the store and the channels around the
//! machines of `shard::sessions`.
//!
//! Reading order: `registry` (who is here, and how they are reached), `keys` (what signs tokens).

mod keys;
mod registry;

pub(crate) use keys::SESSION_KEYS_MAX;
pub(crate) use registry::{Sessions, ToLink};
