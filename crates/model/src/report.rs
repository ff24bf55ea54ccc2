//! What a worker says about an attempt. The coordinator decides what it is worth.

use bytes::Bytes;

use crate::id::LeaseId;
use crate::text::WorkerId;

/// Recognises a report that is sent again: a digest of its `report_id`, or of its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReportKey(pub u128);

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// A short code, like `E.RUNNER.FAILURE`.
    pub code: String,
    /// A sentence for people.
    pub reason: String,
    /// What the attempt leaves behind although it failed, such as the results of the steps before
    /// the failure: JSON, opaque here.
    pub details: Option<Bytes>,
}

impl Failure {
    /// A failure that leaves nothing behind.
    pub fn new(code: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { code: code.into(), reason: reason.into(), details: None }
    }
}

/// How an attempt ended, by the worker's word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportedOutcome {
    /// The work is done; the result is JSON, opaque here.
    Completed {
        /// What the work gave.
        result: Bytes,
        /// What only few results have.
        extra: Option<Box<ResultExtra>>,
    },
    /// The work failed.
    Failed {
        /// Why.
        failure: Failure,
        /// Whether another attempt could help, by the worker's word.
        retryable: bool,
    },
}

/// What only few results have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResultExtra {
    /// The worker found that there was nothing to do.
    pub is_skipped: bool,
    /// What the work left behind: a JSON array, opaque here.
    pub artifacts: Option<Bytes>,
}

/// A worker's word about one lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The lease that it claims to hold.
    pub lease: LeaseId,
    /// Who reports.
    pub worker: WorkerId,
    /// Recognises the same report when it is sent again.
    pub key: ReportKey,
    /// What happened.
    pub outcome: ReportedOutcome,
}
