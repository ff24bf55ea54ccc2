//! Things that live on this worker: files that tasks left behind, and what they keep in memory.
//!
//! Reading order: [`resource`] is one of them; `shelf` has them all and decides what stays and what
//! goes; `index` is what survives the process; [`registry`] is the whole, with its files.

mod index;
pub mod registry;
pub mod resource;
mod shelf;

pub use registry::{Lent, Registry, RegistryError, Totals};
pub use resource::{Body, Limits, NewResource, Resource};
