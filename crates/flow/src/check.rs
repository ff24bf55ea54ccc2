//! What may be wrong with a definition whose fields are right.
//!
//! Reading order: `cycle` (nodes and graphs), `kinds` (what types need), `schema` (JSON Schemas that
//! nodes bring along), then `parameters` and `wire_type`, which use them.

pub(crate) mod cycle;
pub(crate) mod kinds;
pub(crate) mod parameters;
pub(crate) mod schema;
pub(crate) mod wire_type;
