//! Workers that are given nothing new. A person's drain is a fact; what a worker says of itself is
//! soft state, which the worker says again.

use std::collections::{BTreeMap, BTreeSet};

use model::{Timestamp, ToolName, WorkerId};

use super::presence::WORKERS_MAX;
use crate::command::{Drain, DrainCause};
use crate::coordinator::Decision;
use crate::effect::{Answer, DrainOrder, Refusal};
use crate::state::State;
use crate::tenant_change::TenantChange;

/// The drained workers.
#[derive(Debug, Default)]
pub(crate) struct Drains {
    /// By a person; written by `State::apply_tenant`.
    ordered: BTreeMap<WorkerId, Drain>,
    /// By the worker itself, each with its causes.
    own: BTreeMap<WorkerId, BTreeSet<DrainCause>>,
}

impl Drains {
    pub(crate) fn is_drained(&self, worker: &WorkerId) -> bool {
        self.ordered.contains_key(worker) || self.own.contains_key(worker)
    }

    pub(crate) fn causes(&self, worker: &WorkerId) -> BTreeSet<DrainCause> {
        self.own.get(worker).cloned().unwrap_or_default()
    }

    pub(crate) fn ordered(&self, worker: &WorkerId) -> Option<&Drain> {
        self.ordered.get(worker)
    }

    /// What a person's drain asks of the worker at this moment.
    pub(crate) fn order_at(&self, worker: &WorkerId, now: Timestamp) -> Option<DrainOrder> {
        let drain = self.ordered.get(worker)?;
        let is_over = drain.gone_by.is_some_and(|gone_by| now >= gone_by);
        Some(if is_over { DrainOrder::Leave } else { DrainOrder::Finish })
    }

    pub(crate) fn set_ordered(&mut self, worker: &WorkerId, drain: Option<Drain>) {
        match drain {
            Some(drain) => drop(self.ordered.insert(worker.clone(), drain)),
            None => drop(self.ordered.remove(worker)),
        }
    }

    fn set_own(&mut self, worker: &WorkerId, cause: DrainCause, on: bool) {
        let causes = self.own.entry(worker.clone()).or_default();
        if on {
            causes.insert(cause);
        } else {
            causes.remove(&cause);
        }
        if causes.is_empty() {
            self.own.remove(worker);
        }
    }
}

impl State {
    /// Checks that exactly the requests of drained workers are hidden.
    pub(crate) fn check_drains(&self) {
        assert!(self.drains.own.values().all(|causes| !causes.is_empty()), "a drain with no cause");
        for (worker, ticket) in self.workers.all_asking() {
            let is_drained = self.drains.is_drained(worker);
            assert_ne!(self.placement.is_shown(ticket), is_drained, "a request of {worker}");
        }
    }

    /// Changes why a worker is drained, and shows or hides its requests where that makes a
    /// difference.
    pub(crate) fn set_drains(&mut self, worker: &WorkerId, set: impl FnOnce(&mut Drains)) {
        let was_drained = self.drains.is_drained(worker);
        set(&mut self.drains);
        let is_drained = self.drains.is_drained(worker);
        if was_drained != is_drained {
            self.placement.set_drained(self.workers.asking(worker), is_drained);
            if !is_drained {
                self.placement.serve_lanes_for(worker);
            }
        }
    }
}

impl Decision<'_> {
    /// What a worker said of itself goes with it; what a person said stays.
    pub(crate) fn forget_own_drains(&mut self, worker: &WorkerId) {
        self.state.set_drains(worker, |drains| drop(drains.own.remove(worker)));
    }

    /// A worker says of itself that it wants nothing new, or that it does again.
    pub(crate) fn on_set_drain(
        &mut self,
        worker: &WorkerId,
        cause: DrainCause,
        on: bool,
    ) -> Result<Answer, Refusal> {
        let own = &self.state.drains.own;
        if on && !own.contains_key(worker) && own.len() >= WORKERS_MAX {
            return Err(Refusal::WorkersFull);
        }
        self.state.set_drains(worker, |drains| drains.set_own(worker, cause, on));
        Ok(Answer::DrainSet)
    }

    /// A person drains a worker, or lets it take work again.
    pub(crate) fn on_drain(
        &mut self,
        worker: WorkerId,
        drain: Option<Drain>,
    ) -> Result<Answer, Refusal> {
        let ordered = &self.state.drains.ordered;
        let is_new = !ordered.contains_key(&worker);
        if drain.is_some() && is_new && ordered.len() >= WORKERS_MAX {
            return Err(Refusal::WorkersFull);
        }
        match drain {
            Some(drain) => self.record_tenant(TenantChange::WorkerDrained { worker, drain }),
            None if is_new => {}
            None => self.record_tenant(TenantChange::WorkerUndrained { worker }),
        }
        Ok(Answer::DrainSet)
    }
}

/// Limit: tools of all workers that are remembered as verified; one more is refused.
const VERIFIED_TOOLS_MAX: usize = 100_000;

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
        worker: WorkerId,
        tool: ToolName,
        output: String,
    ) -> Result<Answer, Refusal> {
        let verified = &self.state.verified;
        let is_new = !verified.get(&worker).is_some_and(|own| own.contains_key(&tool));
        let count: usize = verified.values().map(BTreeMap::len).sum();
        if is_new && count >= VERIFIED_TOOLS_MAX {
            return Err(Refusal::VerifiedToolsFull);
        }
        let verified = VerifiedTool { output, at: self.now() };
        self.record_tenant(TenantChange::ToolVerified { worker, tool, verified });
        Ok(Answer::Verified)
    }

    /// What an earlier process of the worker showed says nothing about the next one.
    pub(crate) fn forget_verified(&mut self, worker: &WorkerId) {
        if self.state.verified.contains_key(worker) {
            self.record_tenant(TenantChange::ToolsForgotten { worker: worker.clone() });
        }
    }
}
