//! What servers say about reports.

use std::sync::Arc;

use protocol::rest::leases::VerdictWord;

/// What the coordinator said about an attempt.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// The lease that it is about.
    pub lease_id: String,
    /// The verdict; final.
    pub verdict: VerdictWord,
    /// Why, unless it was committed.
    pub reason: Option<String>,
}

/// Is told every judgement, once: [`log`], unless a program counts them itself.
pub type Listener = Arc<dyn Fn(&Judgement) + Send + Sync>;

/// What a worker did, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Reports that count.
    pub committed: u64,
    /// Reports that lost authority.
    pub cancelled: u64,
    /// Reports that were refused: bugs.
    pub rejected: u64,
    /// Attempts that ended without a verdict.
    pub unheard: u64,
}

impl Summary {
    pub(crate) fn add(&mut self, judgement: Option<&Judgement>) {
        let counter = match judgement.map(|judgement| judgement.verdict) {
            Some(VerdictWord::Committed) => &mut self.committed,
            Some(VerdictWord::Cancelled) => &mut self.cancelled,
            Some(VerdictWord::Rejected) => &mut self.rejected,
            None => &mut self.unheard,
        };
        *counter += 1;
    }
}

/// Writes a judgement to the log, with the lease and the verdict as fields.
pub fn log(judgement: &Judgement) {
    let Judgement { lease_id, verdict, reason } = judgement;
    match verdict {
        VerdictWord::Committed => {
            tracing::debug!(lease_id, verdict = "COMMITTED", "the result counts");
        }
        VerdictWord::Cancelled => {
            tracing::info!(lease_id, verdict = "CANCELLED", reason, "superseded; result discarded");
        }
        // Seed 002 section 3.3: a bug; it is shown and never retried.
        VerdictWord::Rejected => {
            tracing::error!(lease_id, verdict = "REJECTED", reason, "the report was refused");
        }
    }
}
