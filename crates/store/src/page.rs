//! Which tasks and which runs belong on a page.

use bytes::Bytes;
use coordinator::{Ending, RunWord, StateWord, TaskRecord, TaskState};
use model::Failure;

use crate::contract::{PageQuery, RunQuery};

/// One call looks at no more rows than this, so that a rare state cannot make the store read
/// everything.
pub const ROWS_PER_LIST_MAX: usize = 50_000;

/// A page ends before its payloads grow beyond this, so that large tasks cannot make it huge. The
/// first task always fits.
pub const PAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How full a page is.
#[derive(Debug, Default)]
pub(crate) struct PageFill {
    bytes: usize,
}

impl PageFill {
    /// Whether one more task fits; it is counted if it does.
    pub(crate) fn takes(&mut self, record: &TaskRecord) -> bool {
        let is_first = self.bytes == 0;
        self.bytes += record.parameters.len() + end_bytes(record) + history_bytes(record);
        is_first || self.bytes <= PAGE_BYTES_MAX
    }
}

fn end_bytes(record: &TaskRecord) -> usize {
    let TaskState::Settled(settlement) = &record.progress.state else { return 0 };
    let result = settlement.result.as_ref().map_or(0, Bytes::len);
    result + settlement.failure.as_ref().map_or(0, details_bytes)
}

fn history_bytes(record: &TaskRecord) -> usize {
    let failures = record.ended_attempts.iter().filter_map(|attempt| match &attempt.ending {
        Ending::Failed { failure, .. } => Some(failure),
        Ending::Expired | Ending::TimedOut | Ending::Undelivered | Ending::Stopped => None,
    });
    failures.map(details_bytes).sum()
}

fn details_bytes(failure: &Failure) -> usize {
    failure.details.as_ref().map_or(0, Bytes::len)
}

impl PageQuery {
    /// Whether a task with these properties is asked for.
    pub(crate) fn admits(&self, state: StateWord, task_type: &str, queue: &str) -> bool {
        (self.states.is_empty() || self.states.contains(&state))
            && self.task_type.as_ref().is_none_or(|wanted| wanted.as_str() == task_type)
            && self.queue.as_ref().is_none_or(|wanted| wanted.as_str() == queue)
    }

    /// A page holds at least one task, so that following the cursors always ends.
    pub(crate) fn page_size(&self) -> usize {
        usize::try_from(self.limit.max(1)).unwrap_or(ROWS_PER_LIST_MAX)
    }
}

impl RunQuery {
    /// Whether a run with these properties is asked for; a live one has no end, and may have begun.
    pub(crate) fn admits(
        &self,
        (end, has_begun): (Option<RunWord>, bool),
        client_id: Option<&str>,
        workflow_id: &str,
    ) -> bool {
        (self.ends.is_empty() || self.ends.contains(&end))
            && (end.is_some() || self.begun.is_none_or(|wanted| wanted == has_begun))
            && self.client_id.as_deref().is_none_or(|wanted| Some(wanted) == client_id)
            && self.workflow_id.as_deref().is_none_or(|wanted| wanted == workflow_id)
    }

    /// A page holds at least one run, so that following the cursors always ends.
    pub(crate) fn page_size(&self) -> usize {
        usize::try_from(self.limit.max(1)).unwrap_or(ROWS_PER_LIST_MAX)
    }
}
