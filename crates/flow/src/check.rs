//! What may be wrong with a definition.
//!
//! Reading order: `shape` (fields), `nesting` (graphs in graphs), `cycle`, `kinds` (what types
//! need), `schema` (JSON Schemas that nodes bring along), then `parameters`, `results` and
//! `wire_type`, which use them.

pub(crate) mod cycle;
pub(crate) mod kinds;
pub(crate) mod nesting;
pub(crate) mod parameters;
pub(crate) mod results;
pub(crate) mod schema;
pub(crate) mod shape;
pub(crate) mod wire_type;
mod words;
