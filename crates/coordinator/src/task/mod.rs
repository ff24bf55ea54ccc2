//! Tasks: from their submit over their leases to their end.
//!
//! Reading order: `record` (a live task), `submit`, `dependency` (tasks that wait for others),
//! `lease`, `report` (the verdicts), `retry`, `cancel` (what people do), `load` (what is settled, and
//! who waits for an end), `explain`.

pub(crate) mod cancel;
pub(crate) mod dependency;
pub(crate) mod explain;
pub(crate) mod lease;
pub(crate) mod load;
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod retry;
pub(crate) mod submit;
