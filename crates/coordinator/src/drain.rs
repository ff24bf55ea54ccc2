//! Workers that are given nothing new. Soft state: the shell remembers what people said.

use std::collections::{BTreeMap, BTreeSet};

use model::WorkerId;

use crate::command::{DrainCause, Ticket};
use crate::coordinator::Turn;
use crate::effect::{Answer, Refusal};
use crate::state::State;
use crate::worker::WORKERS_MAX;

/// The drained workers, each with its causes.
#[derive(Debug, Default)]
pub(crate) struct Drains {
    causes: BTreeMap<WorkerId, BTreeSet<DrainCause>>,
}

impl Drains {
    pub(crate) fn is_drained(&self, worker: &WorkerId) -> bool {
        self.causes.contains_key(worker)
    }

    pub(crate) fn causes(&self, worker: &WorkerId) -> BTreeSet<DrainCause> {
        self.causes.get(worker).cloned().unwrap_or_default()
    }

    fn set(&mut self, worker: &WorkerId, cause: DrainCause, on: bool) {
        let causes = self.causes.entry(worker.clone()).or_default();
        if on {
            causes.insert(cause);
        } else {
            causes.remove(&cause);
        }
        if causes.is_empty() {
            self.causes.remove(worker);
        }
    }
}

impl Turn<'_> {
    /// What a worker said of itself goes with it; what a person said stays.
    pub(crate) fn forget_own_drains(&mut self, worker: &WorkerId) {
        if self.state.drains.is_drained(worker) {
            self.state.drains.set(worker, DrainCause::Leaving, false);
            self.state.drains.set(worker, DrainCause::Pressure, false);
        }
    }

    pub(crate) fn on_set_drain(
        &mut self,
        ticket: Ticket,
        worker: &WorkerId,
        cause: DrainCause,
        on: bool,
    ) {
        let was_drained = self.state.drains.is_drained(worker);
        if on && !was_drained && self.state.drains.causes.len() >= WORKERS_MAX {
            return self.answer(ticket, Answer::Refused(Refusal::WorkersFull));
        }
        self.state.drains.set(worker, cause, on);
        let is_drained = self.state.drains.is_drained(worker);
        if was_drained != is_drained {
            let State { placement, workers, .. } = &mut *self.state;
            placement.set_drained(workers.asking(worker), is_drained);
            if !is_drained {
                placement.serve_lanes_for(worker);
            }
        }
        self.answer(ticket, Answer::DrainSet);
    }
}
