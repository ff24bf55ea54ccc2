//! Queues whose ready tasks are hidden from every request.

use model::QueueName;

use super::{DemandIdx, Placement, index};
use crate::command::Pause;

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
