//! Feedback: how tasks fare and what they put out. It decides nothing, so it never enters the
//! coordinator and never holds it up.
//!
//! Reading order: `hub` (what doors call), `snapshot` (how a task fares, in memory), `chunk` (from
//! frames to bytes), then the log store: `limits`, `record` (bytes on disk), `positions` (what of an
//! attempt is held), `folder` (files), `index` (which logs there are), `task_log` (one log, as it is
//! written), `recover` (the same after a restart), `losses` (what a broken disk cost), `writer` (the
//! one thread that writes), `reader` (pages), `followers` (who waits for more).

mod chunk;
mod folder;
mod followers;
mod hub;
mod index;
mod limits;
mod losses;
mod open_logs;
mod positions;
mod reader;
mod recent;
mod record;
mod recover;
mod snapshot;
mod task_log;
mod writer;

#[cfg(test)]
mod tests;

pub use followers::{Follower, HubStopped};
pub use hub::{FeedbackError, FeedbackHub, OpenError};
pub use limits::{
    LOGS_MAX, LogLimits, QUEUE_BYTES_MAX, RECORD_BYTES_MAX, TAKE_WITHIN, TASK_LOG_BYTES_MAX,
    TOTAL_LOG_BYTES_MAX,
};
pub use reader::{LogContent, LogCursor, LogEntry, LogPage};
pub use snapshot::{SNAPSHOT_BYTES_MAX, SNAPSHOTS_MAX, Snapshot};
