//! Tools that a test has shown to be there: a worker claims many, people look at one.

use std::collections::BTreeMap;

use model::{Timestamp, ToolName, WorkerId};

use crate::command::Ticket;
use crate::coordinator::Decision;
use crate::effect::{Answer, Refusal};
use crate::tenant_change::TenantChange;

/// Tools of all workers that are remembered as verified; one more is refused.
pub const VERIFIED_TOOLS_MAX: usize = 100_000;

/// What a verified tool said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedTool {
    /// The first words of its output.
    pub output: String,
    /// When it said it.
    pub at: Timestamp,
}

/// The verified tools of all workers, written by `State::apply_tenant`.
pub type VerifiedTools = BTreeMap<WorkerId, BTreeMap<ToolName, VerifiedTool>>;

impl Decision<'_> {
    /// A worker has executed a tool that it claims to have.
    pub(crate) fn on_verified(
        &mut self,
        ticket: Ticket,
        worker: WorkerId,
        tool: ToolName,
        output: String,
    ) {
        let verified = &self.state.verified;
        let is_new = !verified.get(&worker).is_some_and(|own| own.contains_key(&tool));
        let count: usize = verified.values().map(BTreeMap::len).sum();
        if is_new && count >= VERIFIED_TOOLS_MAX {
            return self.answer(ticket, Answer::Refused(Refusal::VerifiedToolsFull));
        }
        let verified = VerifiedTool { output, at: self.now() };
        self.record_tenant(TenantChange::ToolVerified { worker, tool, verified });
        self.answer(ticket, Answer::Verified);
    }

    /// What an earlier process of the worker showed says nothing about the next one.
    pub(crate) fn forget_verified(&mut self, worker: &WorkerId) {
        if self.state.verified.contains_key(worker) {
            self.record_tenant(TenantChange::ToolsForgotten { worker: worker.clone() });
        }
    }
}
