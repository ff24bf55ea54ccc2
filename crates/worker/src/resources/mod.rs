//! Things that live on this worker: files that tasks left behind.
//!
//! Reading order: [`eviction`] has what is kept, and decides what stays and what goes; [`registry`] is
//! the whole, with its files and the index that survives the process.

pub mod eviction;
pub mod registry;

pub use eviction::{Limits, NewResource, Resource};
pub use registry::{Lent, Registry, RegistryError, Totals};
