//! Queues whose ready tasks are hidden from every request.

use std::collections::BTreeSet;

use model::QueueName;

use super::{DemandIdx, Placement, index};
use crate::command::Pause;
use crate::coordinator::Decision;
use crate::effect::{Answer, Refusal};
use crate::tenant_change::TenantChange;

impl Placement {
    pub(crate) fn pause(&self, queue: &QueueName) -> Option<&Pause> {
        self.pauses.get(queue)
    }

    pub(crate) fn pauses(&self) -> impl ExactSizeIterator<Item = (&QueueName, &Pause)> {
        self.pauses.iter()
    }

    /// Hides the ready tasks of a queue from all requests, or shows them again. Looks at every
    /// kind of demand: people pause queues, machines do not.
    pub(crate) fn set_pause(&mut self, queue: QueueName, pause: Option<Pause>) {
        let is_paused = pause.is_some();
        let own = self.demands.iter().filter(|(_, entry)| entry.demand.queue == queue);
        let own: Vec<DemandIdx> = own.map(|(key, _)| DemandIdx(index(key))).collect();
        for demand in own {
            let before = self.head(demand);
            let entry = &mut self.demands[demand.0 as usize];
            entry.is_paused = is_paused;
            if is_paused {
                self.unserved.remove(&demand);
            } else if !entry.ready.is_empty() && !entry.requests.is_empty() {
                self.unserved.insert(demand);
            }
            self.move_head(demand, before);
            if !is_paused {
                self.serve_lanes_of(demand);
            }
        }
        match pause {
            Some(pause) => drop(self.pauses.insert(queue, pause)),
            None => drop(self.pauses.remove(&queue)),
        }
    }
}

/// Limit: queues that may be paused at the same time; one more is refused.
pub const PAUSES_MAX: usize = 10_000;

impl Decision<'_> {
    pub(crate) fn on_set_pause(
        &mut self,
        queue: QueueName,
        pause: Option<Pause>,
    ) -> Result<Answer, Refusal> {
        let placement = &self.state.placement;
        let is_new = placement.pause(&queue).is_none();
        if pause.is_some() && is_new && placement.pauses().len() >= PAUSES_MAX {
            return Err(Refusal::PausesFull);
        }
        match pause {
            Some(pause) => self.record_tenant(TenantChange::QueuePaused { queue, pause }),
            None if is_new => {}
            None => self.record_tenant(TenantChange::QueueResumed { queue }),
        }
        Ok(Answer::PauseSet)
    }
}

impl Placement {
    /// Checks that the heads, and what is to be served, follow from the demands; for tests.
    ///
    /// # Panics
    /// When an index lies.
    pub(crate) fn check_invariants(&self) {
        let mut heads = BTreeSet::new();
        for (key, entry) in &self.demands {
            let idx = DemandIdx(index(key));
            assert_eq!(entry.is_paused, self.pauses.contains_key(&entry.demand.queue), "pauses");
            assert!(!(entry.is_paused && self.unserved.contains(&idx)), "paused and to be served");
            heads.extend(self.head(idx).map(|rank| (rank, idx)));
        }
        self.check_lanes();
        self.ready_sets().for_each(|(_, ready)| ready.check());
        let n_ready: u64 = self.ready_sets().map(|(_, ready)| ready.len()).sum();
        assert_eq!(self.ready_len as u64, n_ready, "ready tasks");
        assert_eq!(self.heads, heads, "heads");
    }
}
