//! P5: nobody waits without a reason.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coordinator::{Answer, Command, Effect, Question, Ticket};
use model::{Offer, TaskId, Timestamp, WorkerId};

use crate::consequence::Consequence;
use crate::oracle::model::{Model, Place, TaskModel};
use crate::oracle::notes::Notes;

/// Beyond so many kinds of demand placement goes another way; the world goes beyond it.
const KINDS_LOOKED_AT: usize = 32;

/// Requests that a coordinator has heard and not answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct WaitingRequests(BTreeMap<Ticket, WaitingRequest>);

/// A request that waits: who asks, for what, and how many leases it may hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WaitingRequest {
    worker: WorkerId,
    offer: Arc<Offer>,
    slots: Option<u32>,
}

impl WaitingRequests {
    pub(crate) fn observe(
        &mut self,
        command: Option<&Command>,
        effects: &[Effect],
        notes: &mut Notes,
    ) {
        match command {
            Some(Command::Ask(ticket, Question::RequestLeases { request })) => {
                let (worker, slots) = (request.worker.clone(), request.slots);
                let offer = Arc::clone(&request.offer);
                self.0.insert(*ticket, WaitingRequest { worker, offer, slots });
            }
            Some(Command::Withdraw { ticket }) => {
                self.0.remove(ticket);
            }
            _ => {}
        }
        for effect in effects {
            match effect {
                Effect::Answer { ticket, answer: Answer::Leases(grants) } => {
                    let Some(WaitingRequest { offer, .. }) = self.0.remove(ticket) else {
                        continue;
                    };
                    let other = grants.iter().find(|grant| !offer.covers(&grant.spec.demand));
                    notes.demand(other.is_none(), "P2", || {
                        format!("{other:?} was granted to a worker that offers {offer:?}")
                    });
                }
                Effect::Answer { ticket, answer: Answer::Refused(_) } => {
                    self.0.remove(ticket);
                }
                Effect::Answer { .. } | Effect::Load { .. } | Effect::Prepare { .. } => {}
            }
        }
    }
}

impl Model {
    /// After a step: no ready task waits while a fit worker asks, and the coordinator wakes up no
    /// later than the first thing is due.
    pub(crate) fn check_waiting(
        &self,
        requests: &WaitingRequests,
        wakes_at: Option<Timestamp>,
        notes: &mut Notes,
    ) {
        let (drained, open) = self.requests_by_drain(requests);
        let ready = self.tasks.values().filter(|task| task.place == Place::Ready);
        let kinds: BTreeSet<_> = ready.map(|task| &task.spec.demand).collect();
        if kinds.len() > KINDS_LOOKED_AT {
            notes.happened(Consequence::ManyKindsReady);
        }
        let mut keys = BTreeMap::new();
        for task in self.tasks.values() {
            if let (Some(key), Place::Ready | Place::Leased) = (&task.key, task.place) {
                *keys.entry(key).or_insert(0_u32) += 1;
            }
        }
        for (id, task) in &self.tasks {
            check_due((*id, self.is_free(*id)), task, wakes_at, notes);
            let is_alone = task.key.as_ref().is_none_or(|key| keys.get(key) == Some(&1));
            if task.place != Place::Ready {
                continue;
            }
            if !is_alone {
                notes.happened(Consequence::KeyMadeTaskWait);
                continue;
            }
            let is_fit = open.iter().any(|offer| offer.covers(&task.spec.demand));
            if !is_fit && drained.iter().any(|offer| offer.covers(&task.spec.demand)) {
                notes.happened(Consequence::DrainHeldTaskBack);
            }
            if self.paused.contains(&task.spec.demand.queue) {
                if is_fit {
                    notes.happened(Consequence::PauseHeldTaskBack);
                }
                continue;
            }
            notes.demand(!is_fit, "P5", || {
                format!(
                    "task {} is ready and a fit worker asks, but it is not granted",
                    id.number()
                )
            });
        }
    }

    /// The offers of drained workers that ask, and of those that may be granted something.
    fn requests_by_drain<'a>(
        &self,
        requests: &'a WaitingRequests,
    ) -> (BTreeSet<&'a Arc<Offer>>, BTreeSet<&'a Arc<Offer>>) {
        let (mut drained, mut open) = (BTreeSet::new(), BTreeSet::new());
        for WaitingRequest { worker, offer, slots } in requests.0.values() {
            let has_room =
                slots.is_none_or(|slots| self.n_held(worker) < usize::try_from(slots).unwrap_or(0));
            if self.drained.contains(worker) || self.leaving.contains(worker) {
                drained.insert(offer);
            } else if has_room {
                open.insert(offer);
            }
        }
        (drained, open)
    }

    /// After the coordinator has looked at its deadlines: nothing that is due is left.
    pub(crate) fn check_nothing_due(&self, now: Timestamp, notes: &mut Notes) {
        for (id, task) in &self.tasks {
            let is_due = match task.place {
                Place::Leased => task.leases.last().is_some_and(|lease| lease.due() <= now),
                Place::Waiting { .. }
                | Place::Blocked { .. }
                | Place::Ready
                | Place::Settled(_) => false,
                // One of no length may have begun in this very step.
                Place::Own { until } => until < now,
            };
            notes.demand(!is_due, "P5", || {
                format!("task {} is {:?} after all that is due was done", id.number(), task.place)
            });
        }
    }

    /// Waits that the clock has ended are no facts; the coordinator sees them by itself, and so
    /// does the model.
    pub(crate) fn end_waits(&mut self, now: Timestamp) {
        let is_over = |(id, task): (&TaskId, &TaskModel)| match task.place {
            Place::Waiting { until, .. } => until <= now,
            Place::Blocked { until } => until <= now && self.is_free(*id),
            Place::Own { .. } | Place::Ready | Place::Leased | Place::Settled(_) => false,
        };
        let over: Vec<TaskId> =
            self.tasks.iter().filter(|one| is_over(*one)).map(|(id, _)| *id).collect();
        for id in over {
            if let Some(task) = self.tasks.get_mut(&id) {
                task.place = Place::Ready;
            }
        }
    }
}

/// The coordinator wakes up in time for this task.
fn check_due(
    (id, is_free): (TaskId, bool),
    task: &TaskModel,
    wakes_at: Option<Timestamp>,
    notes: &mut Notes,
) {
    let due = match task.place {
        Place::Own { until: Timestamp::MAX } => return,
        Place::Waiting { until, .. } | Place::Own { until } => until,
        Place::Blocked { until } if is_free => until,
        Place::Leased => match task.leases.last() {
            Some(lease) => lease.due(),
            None => return,
        },
        Place::Blocked { .. } | Place::Ready | Place::Settled(_) => return,
    };
    notes.demand(wakes_at.is_some_and(|at| at <= due), "P5", || {
        let number = id.number();
        format!("task {number} is due at {due}, but the coordinator sleeps until {wakes_at:?}")
    });
}
