//! Which tasks and which runs belong on a page.

use bytes::Bytes;
use coordinator::{Ending, RunWord, StateWord, TaskRecord, TaskState};
use memchr::memmem;
use model::{Failure, TaskId};

use crate::contract::{
    Detail, PageQuery, RunQuery, SUMMARY_PARAMETERS_BYTES, SUMMARY_RESULT_BYTES_MAX,
};

/// Limit: rows that one page of a filtered list looks at.
pub const ROWS_PER_LIST_MAX: usize = 50_000;

/// Limit: a page ends before its payloads grow beyond this, so that large tasks cannot make it
/// huge. The first task always fits. A page with words to look for ends when it has looked at as
/// much.
pub const PAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A page holds at least one entry, so that following the cursors always ends.
pub(crate) fn page_size(limit: u32) -> usize {
    usize::try_from(limit.max(1)).unwrap_or(ROWS_PER_LIST_MAX)
}

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
            && (self.task_types.is_empty()
                || self.task_types.iter().any(|wanted| wanted.as_str() == task_type))
            && self.queue.as_ref().is_none_or(|wanted| wanted.as_str() == queue)
    }
}

/// Looks into tasks for the holder and the words of a query.
pub(crate) struct TextSearch<'q> {
    query: &'q PageQuery,
    words: Vec<memmem::Finder<'q>>,
    bytes: usize,
}

impl<'q> TextSearch<'q> {
    pub(crate) fn new(query: &'q PageQuery) -> Self {
        let words = query.words.iter().map(memmem::Finder::new).collect();
        Self { query, words, bytes: 0 }
    }

    /// Whether the text of tasks matters at all.
    pub(crate) fn is_asked(&self) -> bool {
        self.query.holder.is_some() || !self.words.is_empty()
    }

    /// Whether a task has what is looked for; what was looked at is counted.
    pub(crate) fn admits(&mut self, id: TaskId, holder: Option<&str>, parameters: &[u8]) -> bool {
        if self.query.holder.as_ref().is_some_and(|wanted| Some(wanted.as_str()) != holder) {
            return false;
        }
        if self.words.is_empty() {
            return true;
        }
        self.bytes += parameters.len();
        let id = id.to_string();
        self.words.iter().all(|word| {
            let texts = [id.as_bytes(), holder.unwrap_or_default().as_bytes(), parameters];
            texts.iter().any(|text| word.find(text).is_some())
        })
    }

    /// Whether one page has looked at enough.
    pub(crate) fn is_over(&self) -> bool {
        self.bytes >= PAGE_BYTES_MAX
    }
}

/// What a page carries of a task that was read whole.
pub(crate) fn cut(mut record: TaskRecord, detail: Detail) -> TaskRecord {
    if detail == Detail::Whole {
        return record;
    }
    record.parameters.truncate(SUMMARY_PARAMETERS_BYTES);
    if let TaskState::Settled(settlement) = &mut record.progress.state {
        cut_long(&mut settlement.result);
        if let Some(failure) = &mut settlement.failure {
            cut_long(&mut failure.details);
        }
    }
    record
}

fn cut_long(bytes: &mut Option<Bytes>) {
    bytes.take_if(|bytes| bytes.len() > SUMMARY_RESULT_BYTES_MAX);
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
}
