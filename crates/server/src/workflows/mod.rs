//! Workflows that are kept: `save` (a new version), `diff` (what differs between two).

pub(crate) mod diff;
pub(crate) mod save;
