//! Feedback: how tasks fare and what they put out. It decides nothing, so it never enters the
//! coordinator and never holds it up.
//!
//! Reading order: `hub` (what doors call), `snapshot` (how a task fares, in memory), then the store
//! of logs: `record` (bytes on disk), `folder` (files and limits), `task_log` (one log), `writer`
//! (the one thread that writes), `reader` (pages).

mod folder;
mod hub;
mod reader;
mod record;
mod snapshot;
mod task_log;
mod writer;

#[cfg(test)]
mod tests;

pub use folder::{LogLimits, QUEUE_BYTES_MAX, RECORD_BYTES_MAX, TAKE_WITHIN};
pub use hub::{FeedbackError, FeedbackHub, Follower, OpenError};
pub use reader::{LogContent, LogCursor, LogEntry, LogPage};
pub use snapshot::Snapshot;
