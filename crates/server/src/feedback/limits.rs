//! How much is kept, and how much waits.

use std::time::Duration;

/// What is kept of one task's log, on disk; then its oldest part goes.
pub const TASK_LOG_BYTES_MAX: usize = 10 * 1024 * 1024;
/// What is kept of all logs together; then the oldest log goes.
pub const TOTAL_LOG_BYTES_MAX: usize = 4 * 1024 * 1024 * 1024;
/// Logs at the same time; then the oldest one goes. Each is an entry in memory.
pub const LOGS_MAX: usize = 250_000;
/// One record of a log. A longer chunk becomes several entries.
pub const RECORD_BYTES_MAX: usize = 64 * 1024;
/// Chunks that wait to be written, in bytes; further ones wait outside.
pub const QUEUE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// A disk that takes longer to take chunks costs logs, not time.
pub const TAKE_WITHIN: Duration = Duration::from_secs(2);

/// A log is a row of files, so that its oldest part goes by removing one.
pub(super) const SEGMENTS_PER_LOG: usize = 8;
/// A smaller log would be all heads and no content.
const TASK_LOG_BYTES_MIN: u64 = 64 * 1024;
/// What a file takes on disk is a multiple of this.
pub(super) const BLOCK_BYTES: u64 = 4096;

/// How much of the logs is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimits {
    /// Of one task; see [`TASK_LOG_BYTES_MAX`]. At least 64 KiB are kept.
    pub task_bytes_max: u64,
    /// Of all tasks; see [`TOTAL_LOG_BYTES_MAX`].
    pub total_bytes_max: u64,
    /// How many logs; see [`LOGS_MAX`].
    pub logs_max: usize,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self {
            task_bytes_max: TASK_LOG_BYTES_MAX as u64,
            total_bytes_max: TOTAL_LOG_BYTES_MAX as u64,
            logs_max: LOGS_MAX,
        }
    }
}

impl LogLimits {
    /// One file of a log.
    pub(super) fn segment_bytes_max(&self) -> u64 {
        self.task_bytes_max.max(TASK_LOG_BYTES_MIN) / SEGMENTS_PER_LOG as u64
    }

    /// The content of one record; several fit into a segment.
    pub(super) fn record_bytes_max(&self) -> usize {
        let quarter = self.segment_bytes_max() / 4;
        usize::try_from(quarter).unwrap_or(RECORD_BYTES_MAX).min(RECORD_BYTES_MAX)
    }
}
