//! What may be wrong with a definition.

pub(crate) mod cycle;
pub(crate) mod nesting;
pub(crate) mod shape;
