//! Workers: who is there, who is given nothing, and what belongs to whom.
//!
//! Reading order: `presence` (when they were heard of, what they hold), `drain` (who is given nothing
//! new, and verified tools), `pin`, `affinity`, `binding` (which worker has which work).

pub(crate) mod affinity;
pub(crate) mod binding;
pub(crate) mod drain;
pub(crate) mod pin;
pub(crate) mod presence;
