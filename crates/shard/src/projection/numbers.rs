//! What is counted, as numbers: the server adds them to its metrics.

use coordinator::{Change, Ending, TaskState};
use model::TaskId;

/// Counts of one turn.
#[derive(Debug, Default)]
pub struct Numbers {
    /// Tasks that came into being.
    pub submitted: u64,
    /// Attempts that a worker reported as failed, and that are followed by another one.
    pub failed: u64,
    /// Attempts whose lease ran out.
    pub expired: u64,
    /// Attempts that were never confirmed.
    pub undelivered: u64,
    /// Attempts that went over their time, and that are followed by another one.
    pub timed_out_retried: u64,
    /// Tasks whose lease ended, and whether a report that counts ended it.
    pub ended: Vec<(TaskId, bool)>,
}

impl Numbers {
    pub(super) fn observe(&mut self, changes: &[Change]) {
        for change in changes {
            self.count(change);
        }
    }

    fn count(&mut self, change: &Change) {
        match change {
            Change::TaskSubmitted(_) => self.submitted += 1,
            Change::TaskSettled { task, progress, .. } => {
                let is_reported = matches!(
                    &progress.state,
                    TaskState::Settled(settlement) if settlement.report.is_some()
                );
                self.ended.push((*task, is_reported));
            }
            Change::AttemptEnded { task, attempt, .. } => {
                match attempt.ending {
                    Ending::Failed { .. } => self.failed += 1,
                    Ending::Expired => self.expired += 1,
                    Ending::Undelivered => self.undelivered += 1,
                    Ending::TimedOut => self.timed_out_retried += 1,
                    // A stopped task is not tried again.
                    Ending::Stopped => {}
                }
                let is_reported = matches!(attempt.ending, Ending::Failed { .. });
                self.ended.push((*task, is_reported));
            }
            _ => {}
        }
    }
}
