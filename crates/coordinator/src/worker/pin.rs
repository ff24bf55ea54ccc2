//! Tasks that belong to a worker: who alone may have them, who is asked first, and how long they
//! wait.

use std::time::Duration;

use model::{Failure, Pin, TaskId, Timestamp, WorkerId};

use crate::change::{Outcome, Settlement, TaskState};
use crate::command::Ticket;
use crate::coordinator::Decision;
use crate::placement::{LaneKey, WaitingRequest};
use crate::state::State;
use crate::task::lease::room_of;
use crate::task::record::Task;

/// The code of a task whose worker did not take it in time.
const WORKER_AWAY: &str = "E.RESOURCE.AWAY";

impl Task {
    /// How long it waits for the worker that alone may have it.
    fn wait_max(&self) -> Option<Duration> {
        match self.pin()? {
            Pin::Worker { is_hard: true, wait_max, .. } => *wait_max,
            Pin::Worker { is_hard: false, .. } | Pin::Key { .. } => None,
        }
    }

    /// Whether one worker may be better than another for it, although both may have it.
    fn is_choosy(&self) -> bool {
        match self.pin() {
            Some(Pin::Worker { is_hard, .. } | Pin::Key { is_hard, .. }) => !is_hard,
            None => self.link().is_some(),
        }
    }
}

impl State {
    /// The lane that a ready task stands in; `None` where everyone may have it.
    pub(crate) fn lane_of(&self, task: &Task) -> Option<LaneKey> {
        let worker = match task.pin() {
            Some(Pin::Worker { worker, is_hard: true, .. }) => Some(worker),
            Some(Pin::Key { key, is_hard: true, .. }) => self.affinities.worker(key),
            Some(Pin::Worker { is_hard: false, .. } | Pin::Key { is_hard: false, .. }) | None => {
                None
            }
        };
        // What only one worker has is needed there, whoever the run is kept from.
        worker.cloned().map(LaneKey::Worker).or_else(|| {
            let run = task.link()?.run;
            self.placement.run_kept_from(run).map(|_| LaneKey::Run(run))
        })
    }

    /// Whether a task is ready, and no concurrency key hides it from placement.
    pub(crate) fn is_visible(&self, task: &Task) -> bool {
        let is_front = |key| self.keys[key].front == Some(task.id);
        matches!(task.progress.state, TaskState::Ready)
            && task.concurrency_key().is_none_or(is_front)
    }

    /// Lets placement see a ready task.
    pub(crate) fn show_ready(&mut self, id: TaskId) {
        let task = self.tasks.get(id).expect("ready tasks are live");
        let wait_max = task.wait_max();
        self.choosy_ready += u64::from(task.is_choosy());
        self.list_sticky(id, true);
        self.move_in(id);
        if let Some(wait_max) = wait_max {
            self.set_deadline(id, self.now.after(wait_max));
        }
    }

    /// Hides a ready task from placement.
    pub(crate) fn hide_ready(&mut self, id: TaskId) {
        self.clear_deadline(id);
        self.move_out(id);
        self.list_sticky(id, false);
        let task = self.tasks.get(id).expect("ready tasks are live");
        self.choosy_ready -= u64::from(task.is_choosy());
    }

    /// Puts a task that placement can see into the lane that it belongs to.
    pub(crate) fn move_in(&mut self, id: TaskId) {
        let task = self.tasks.get(id).expect("ready tasks are live");
        let (spec, lane) = (task.spec, self.lane_of(task));
        self.placement.add_ready(spec, id, lane.as_ref());
    }

    /// Takes it out again, before something changes that the lane depends on.
    pub(crate) fn move_out(&mut self, id: TaskId) {
        let task = self.tasks.get(id).expect("ready tasks are live");
        let (spec, lane) = (task.spec, self.lane_of(task));
        self.placement.remove_ready(spec, id, lane.as_ref());
    }

    /// The worker that is asked first, where others may have the task too.
    fn preferred<'a>(&'a self, task: &'a Task) -> Option<&'a WorkerId> {
        match task.pin() {
            Some(Pin::Worker { worker, is_hard: false, .. }) => Some(worker),
            Some(Pin::Key { key, is_hard: false, .. }) => self.affinities.worker(key),
            Some(Pin::Worker { is_hard: true, .. } | Pin::Key { is_hard: true, .. }) => None,
            None => self.bound_worker(task),
        }
    }

    /// How many of the ready tasks that placement can see are choosy; for tests.
    pub(crate) fn count_choosy(&self) -> u64 {
        let ready = self.tasks.iter().filter(|task| self.is_visible(task));
        ready.filter(|task| task.is_choosy()).count() as u64
    }
}

impl Decision<'_> {
    /// A request that something was found for in a lane, if there is one.
    pub(crate) fn next_in_lanes(&mut self) -> Option<Ticket> {
        while let Some(lane) = self.state.placement.first_unserved_lane().cloned() {
            let found = match &lane {
                LaneKey::Worker(worker) => self.asking(worker).find(|ticket| {
                    let waiting = self.state.placement.waiting(*ticket);
                    let room = self.room_of(&waiting.request);
                    self.state.placement.lane_has(&lane, waiting.offer, &room)
                }),
                LaneKey::Run(run) => {
                    let State { placement, workers, tasks, .. } = &*self.state;
                    placement.asker_in_lane(*run, |placement, request, task_type| {
                        room_of(placement, workers, tasks, request).has(task_type)
                    })
                }
            };
            if found.is_some() {
                return found;
            }
            self.state.placement.lane_is_served(&lane);
        }
        None
    }

    /// The requests of a worker that wait for something.
    fn asking(&self, worker: &WorkerId) -> impl Iterator<Item = Ticket> {
        let is_drained = self.state.drains.is_drained(worker);
        self.state.workers.asking(worker).filter(move |_| !is_drained)
    }

    /// The request that is served in the place of this one, because its best task would rather go
    /// there. Each step leads to a better task, so it comes to an end.
    pub(crate) fn rather(&self, mut ticket: Ticket) -> Ticket {
        if self.state.choosy_ready == 0 {
            return ticket;
        }
        loop {
            let WaitingRequest { request, offer, .. } = self.state.placement.waiting(ticket);
            let room = self.room_of(request);
            let best = self.state.placement.best_for(&request.worker, *offer, &room);
            match best.and_then(|task| self.better_asker(task, &request.worker)) {
                Some(other) => ticket = other,
                None => return ticket,
            }
        }
    }

    /// A waiting request of another worker that should rather have this task.
    pub(crate) fn better_asker(&self, task: TaskId, than: &WorkerId) -> Option<Ticket> {
        if self.state.choosy_ready == 0 {
            return None;
        }
        let task = self.state.tasks.get(task).expect("ready tasks are live");
        let preferred = self.state.preferred(task).filter(|worker| *worker != than);
        let first = preferred
            .and_then(|worker| self.asking(worker).find(|ticket| self.can_take(*ticket, task)));
        first.or_else(|| {
            self.state.left_worker(task).filter(|left| *left == than)?;
            self.state.placement.askers(task.spec).find(|ticket| {
                let request = &self.state.placement.waiting(*ticket).request;
                request.worker != *than && self.can_take(*ticket, task)
            })
        })
    }

    /// Whether a waiting request could be given a ready task that everyone may have, or everyone
    /// but those whom its run is kept from.
    fn can_take(&self, ticket: Ticket, task: &Task) -> bool {
        let request = &self.state.placement.waiting(ticket).request;
        let demand = &self.state.placement.spec(task.spec).demand;
        let kept_from = task.link().and_then(|link| self.state.placement.run_kept_from(link.run));
        kept_from.is_none_or(|kept_from| !kept_from.contains(&request.worker))
            && request.offer.covers(demand)
            && self.room_of(request).has(&demand.task_type)
    }

    /// A ready task has waited long enough for its worker. While its queue is paused that is
    /// nobody's absence, and it waits on.
    pub(crate) fn give_up(&mut self, id: TaskId) {
        let task = self.state.tasks.get(id).expect("ready tasks are live");
        let Some(Pin::Worker { worker, because, wait_max: Some(waited), .. }) = task.pin() else {
            panic!("only tasks that wait for a worker have deadlines while they are ready")
        };
        let queue = &self.state.placement.spec(task.spec).demand.queue;
        if self.state.placement.pause(queue).is_some() {
            return self.state.set_deadline(id, self.state.now.after(*waited));
        }
        let failure = Some(self.worker_away(worker, because, *waited));
        let end = Settlement::unexecuted(Outcome::Failed, self.now());
        self.settle_as(id, None, Settlement { failure, ..end });
    }

    fn worker_away(&self, worker: &WorkerId, because: &str, waited: Duration) -> Failure {
        let how = if self.state.workers.is_away(worker, self.now()) {
            "has been away"
        } else if self.state.drains.is_drained(worker) {
            "is drained and took nothing"
        } else {
            "was busy"
        };
        let waited = waited.as_secs_f64();
        let reason = format!("its worker {worker} {how} for {waited} s; it needs {because}");
        Failure::new(WORKER_AWAY, reason)
    }
}

/// Why a task belongs to one worker, for people.
pub(crate) fn why(task: &Task) -> String {
    match task.pin() {
        Some(Pin::Worker { because, .. }) => because.clone(),
        Some(Pin::Key { key, .. }) => format!("affinity `{key}`"),
        None => String::new(),
    }
}

/// # Panics
/// When a task waits for its worker and does not know how long, or the other way round.
pub(crate) fn check_pin(task: &Task, is_visible: bool) {
    let waits = task.wait_max().is_some() && is_visible;
    assert_eq!(task.deadline.is_some(), waits, "who waits for a worker gives up: {task:?}");
}

/// When a task that waits for its worker gives up.
pub(crate) fn until(task: &Task) -> Option<Timestamp> {
    task.deadline.filter(|_| matches!(task.progress.state, TaskState::Ready))
}
