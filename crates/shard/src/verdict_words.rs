//! Verdicts and states of tasks in the words that every door uses.

use coordinator::{Judgement, LostAuthority, Verdict, Violation};
use protocol::rest::leases::{VerdictAnswer, VerdictWord};

/// Why a lease ended, on the wire.
pub fn lost_authority_word(lost: LostAuthority) -> &'static str {
    match lost {
        LostAuthority::Expired => "expired",
        LostAuthority::Superseded => "superseded",
        LostAuthority::TaskCancelled => "task_cancelled",
        LostAuthority::Reported => "reported",
    }
}

/// Why a report is rejected, on the wire.
pub fn violation_word(violation: Violation) -> &'static str {
    match violation {
        Violation::UnknownTask => "unknown_task",
        Violation::UnknownLease => "unknown_lease",
        Violation::NotHolder => "not_holder",
        Violation::DuplicateReport => "duplicate_report",
    }
}

/// What became of a report, on the wire.
pub fn verdict_answer(judgement: Judgement) -> VerdictAnswer {
    let (verdict, reason) = match judgement.verdict {
        Verdict::Committed => (VerdictWord::Committed, None),
        Verdict::Cancelled(lost) => (VerdictWord::Cancelled, Some(lost_authority_word(lost))),
        Verdict::Rejected(violation) => (VerdictWord::Rejected, Some(violation_word(violation))),
    };
    let task_state = judgement.task_state;
    VerdictAnswer { verdict, reason: reason.map(str::to_owned), task_state }
}
