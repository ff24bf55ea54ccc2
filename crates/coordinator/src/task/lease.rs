//! Leases: granted, extended, ended by time, handed back.

use std::cmp::Reverse;
use std::time::Duration;

use model::{LeaseId, TaskId, TaskSpec, Timestamp, WorkerId};

use super::report::{Standing, names_a_task_twice};
use crate::change::{Change, EndedAttempt, Ending, Lease, Progress, TaskState, WaitReason};
use crate::command::{LeaseRequest, Renewal, Ticket};
use crate::coordinator::Decision;
use crate::effect::{Answer, Grant, HeartbeatVerdict, LostAuthority, Refusal, Violation};
use crate::placement::{OfferIdx, Placement, Room};
use crate::state::Deadline;
use crate::state::TaskTable;
use crate::state::{State, lease_deadline};
use crate::worker::presence::Workers;

/// Limit: requests that may wait for a task at the same time; one more is refused.
pub const REQUESTS_MAX: usize = 100_000;
/// Limit: workers that a task may lose in a row before it is taken for the cause.
pub const LOSSES_MAX: u32 = 3;

/// A lease as a restart gives it back: one fresh TTL, but never beyond the attempt's own end.
pub(crate) fn fresh_lease(lease: &Lease, spec: &TaskSpec, now: Timestamp) -> Lease {
    // The wall clock may have been set back while the server was away; an attempt must not gain
    // more than its timeout by that.
    let attempt_ends_at = lease
        .attempt_ends_at
        .map(|ends_at| spec.timeout.map_or(ends_at, |timeout| ends_at.min(now.after(timeout))));
    Lease {
        holder: lease.holder.clone(),
        granted_at: lease.granted_at,
        expires_at: lease_end(spec, attempt_ends_at, now),
        attempt_ends_at,
        confirm_by: None,
        is_doubtful: true,
    }
}

fn lease_end(spec: &TaskSpec, attempt_ends_at: Option<Timestamp>, now: Timestamp) -> Timestamp {
    let end = now.after(spec.lease_ttl);
    attempt_ends_at.map_or(end, |ends_at| ends_at.min(end))
}

/// Three chances to be heard within one TTL, and within one attempt: a worker that was silent
/// through all of it is taken for lost, not for slow.
fn heartbeat_every(spec: &TaskSpec) -> Duration {
    spec.timeout.map_or(spec.lease_ttl, |timeout| timeout.min(spec.lease_ttl)) / 3
}

/// What the worker's own limits leave, given what it holds.
pub(crate) fn room_of(
    placement: &Placement,
    workers: &Workers,
    tasks: &TaskTable,
    request: &LeaseRequest,
) -> Room {
    let in_flight = u32::try_from(workers.in_flight(&request.worker)).unwrap_or(u32::MAX);
    let slots = request.slots.map(|slots| slots.saturating_sub(in_flight));
    let mut room = Room { slots, of_type: request.offer.limits.clone() };
    if room.of_type.is_empty() {
        return room;
    }
    // The slots are counted already; taking from them twice must not matter.
    room.slots = None;
    for task in workers.held(&request.worker) {
        let task = tasks.get(task).expect("held tasks are live");
        room.take(&placement.spec(task.spec).demand.task_type);
    }
    Room { slots, ..room }
}

impl Decision<'_> {
    pub(crate) fn on_request(&mut self, ticket: Ticket, request: LeaseRequest) {
        if !self.touch_worker(&request.worker) {
            return self.answer(ticket, Answer::Refused(Refusal::WorkersFull));
        }
        self.note_offer(&request.worker, &request.offer);
        let offer = self.state.placement.add_offer_user(&request.offer);
        let grants = self.grant_up_to(&request, offer);
        self.state.placement.remove_offer_user(offer);
        if !grants.is_empty() || request.wait_until <= self.now() {
            return self.answer(ticket, Answer::Leases(grants));
        }
        if self.state.placement.waiting_len() >= REQUESTS_MAX {
            return self.answer(ticket, Answer::Refused(Refusal::RequestsFull));
        }
        self.state.deadlines.insert(request.wait_until, Deadline::Request(ticket));
        self.state.workers.add_asking(&request.worker, ticket);
        let in_flight = self.state.workers.in_flight(&request.worker);
        let is_drained = self.state.drains.is_drained(&request.worker);
        self.state.placement.add_waiting(ticket, request, in_flight, is_drained);
    }

    /// A worker's former process ended: its leases end now, not with their time.
    pub(crate) fn on_lose_worker(&mut self, worker: &WorkerId) {
        for lease in self.leases_of(worker) {
            // The end of one may have stopped another: they may belong to one run.
            if self.state.is_leased(lease) {
                self.after_lost_worker(lease.task, worker.clone(), Ending::Expired);
            }
        }
    }

    /// Gives ready tasks to requests that wait for them.
    pub(crate) fn place(&mut self) {
        while let Some(ticket) = self.next_to_serve() {
            let ticket = self.rather(ticket);
            let (request, offer) = self.stop_waiting(ticket).expect("it waits");
            self.touch_worker(&request.worker);
            let grants = self.grant_up_to(&request, offer);
            self.answer(ticket, Answer::Leases(grants));
        }
    }

    fn next_to_serve(&mut self) -> Option<Ticket> {
        if let Some(ticket) = self.next_in_lanes() {
            return Some(ticket);
        }
        let State { placement, workers, tasks, .. } = &mut *self.state;
        placement.next_to_serve(|placement, request, task_type| {
            room_of(placement, workers, tasks, request).has(task_type)
        })
    }

    /// What a worker's own limits leave.
    pub(crate) fn room_of(&self, request: &LeaseRequest) -> Room {
        let State { placement, workers, tasks, .. } = &*self.state;
        room_of(placement, workers, tasks, request)
    }

    fn grant_up_to(&mut self, request: &LeaseRequest, offer: OfferIdx) -> Vec<Grant> {
        let mut grants = Vec::new();
        if self.state.drains.is_drained(&request.worker) {
            return grants;
        }
        let (worker, mut room) = (&request.worker, self.room_of(request));
        while grants.len() < request.max as usize {
            let Some(task) = self.state.placement.best_for(worker, offer, &room) else { break };
            if !grants.is_empty() && self.better_asker(task, worker).is_some() {
                break;
            }
            let grant = self.grant(task, request);
            room.take(&grant.spec.demand.task_type);
            grants.push(grant);
        }
        assert!(grants.len() <= request.max as usize, "no more is granted than was asked for");
        self.state.workers.count_grants(&request.worker, grants.len() as u64);
        grants
    }

    fn grant(&mut self, id: TaskId, request: &LeaseRequest) -> Grant {
        let now = self.now();
        let task = self.state.tasks.get(id).expect("ready tasks are live");
        let spec = self.state.placement.spec(task.spec).clone();
        let attempt_ends_at =
            spec.timeout.map(|timeout| now.after(timeout + request.timeout_grace));
        let lease = Lease {
            holder: request.worker.clone(),
            granted_at: now,
            expires_at: lease_end(&spec, attempt_ends_at, now),
            attempt_ends_at,
            confirm_by: request.confirm_within.map(|within| now.after(within)),
            is_doubtful: !request.is_loss_noticed,
        };
        let expires_at = lease.expires_at;
        let fact = self.state.next_fact_of(task);
        let progress = Progress {
            state: TaskState::Leased(lease),
            attempt: task.progress.attempt + 1,
            epoch: task.progress.epoch + 1,
            losses: task.progress.losses,
        };
        let grant = Grant {
            lease: LeaseId { task: id, epoch: progress.epoch },
            attempt: progress.attempt,
            parameters: task.parameters.clone(),
            run: task.run().cloned(),
            concurrency_key: task.concurrency_key().cloned(),
            link: task.link().cloned(),
            chain: self.state.chain_of(task),
            fact,
            expires_at,
            heartbeat_every: heartbeat_every(&spec),
            spec,
        };
        self.change(Change::LeaseGranted { task: id, progress, fact });
        if let Some(link) = &grant.link {
            self.begin_run(link.run);
        }
        grant
    }

    // ----- requests that end without a grant

    pub(crate) fn on_request_due(&mut self, ticket: Ticket) {
        // The deadline has been taken from its table already, so only the request goes.
        let Some(waiting) = self.state.placement.remove_waiting(ticket) else { return };
        self.state.workers.remove_asking(&waiting.request.worker, ticket);
        self.touch_worker(&waiting.request.worker);
        self.answer(ticket, Answer::Leases(Vec::new()));
    }

    pub(crate) fn on_withdraw(&mut self, ticket: Ticket) {
        self.stop_waiting(ticket);
        self.stop_asking(ticket);
        let watched = self.state.watches.remove(ticket);
        if let Some(until) = watched.or_else(|| self.state.runs.watches.remove(ticket)) {
            self.state.deadlines.remove(until, Deadline::Watch(ticket));
        }
    }

    pub(crate) fn stop_waiting(&mut self, ticket: Ticket) -> Option<(LeaseRequest, OfferIdx)> {
        let waiting = self.state.placement.remove_waiting(ticket)?;
        let until = waiting.request.wait_until;
        self.state.deadlines.remove(until, Deadline::Request(ticket));
        self.state.workers.remove_asking(&waiting.request.worker, ticket);
        Some((waiting.request, waiting.offer))
    }

    /// Grants that never left this house: the attempts did not happen, but their epochs are spent.
    pub(crate) fn on_return(&mut self, leases: &[LeaseId]) {
        for lease in leases {
            let Some(task) = self.state.tasks.get(lease.task) else { continue };
            let TaskState::Leased(current) = &task.progress.state else { continue };
            if task.progress.epoch != lease.epoch {
                continue;
            }
            let worker = current.holder.clone();
            let progress = Progress {
                state: TaskState::Ready,
                attempt: task.progress.attempt.saturating_sub(1),
                ..task.progress
            };
            self.end_attempt(lease.task, worker, Ending::Undelivered, progress);
        }
    }

    /// Leases that their holder gives back. The work was begun and did nothing wrong, so no attempt
    /// is counted; a task that every worker gives back must still come to its end.
    pub(crate) fn on_give_back(&mut self, worker: &WorkerId, leases: &[LeaseId]) {
        for lease in leases {
            if !matches!(self.standing(*lease, worker), Standing::Holder) {
                continue;
            }
            let task = self.state.tasks.get(lease.task).expect("held tasks are live");
            let losses = task.progress.losses + 1;
            if losses >= LOSSES_MAX {
                self.after_lost_worker(lease.task, worker.clone(), Ending::Expired);
                continue;
            }
            let progress = Progress {
                state: TaskState::Ready,
                attempt: task.progress.attempt.saturating_sub(1),
                epoch: task.progress.epoch,
                losses,
            };
            self.end_attempt(lease.task, worker.clone(), Ending::Expired, progress);
        }
    }

    // ----- heartbeats

    pub(crate) fn on_heartbeat(&mut self, worker: &WorkerId, leases: Renewal) -> Answer {
        self.touch_worker(worker);
        let (leases, is_listed) = match leases {
            Renewal::Listed(leases) => (leases, true),
            Renewal::Unlisted { n_active } => (self.implied_leases(worker, n_active), false),
        };
        let tasks = || leases.iter().map(|lease| lease.task);
        let is_holding =
            names_a_task_twice(tasks()) || self.state.any_may_end_with_another(tasks());
        if is_holding {
            self.state.loads.hold();
        }
        let extend = |lease: &LeaseId| self.extend(*lease, worker, is_listed);
        let verdicts = leases.iter().map(extend).collect();
        if is_holding {
            self.state.loads.let_go();
        }
        let drain = self.state.drains.order_at(worker, self.now());
        Answer::Heartbeats { verdicts, drain }
    }

    pub(crate) fn leases_of(&self, worker: &WorkerId) -> Vec<LeaseId> {
        let lease = |task: TaskId| {
            let epoch = self.state.tasks.get(task).expect("held tasks are live").progress.epoch;
            LeaseId { task, epoch }
        };
        self.state.workers.held(worker).map(lease).collect()
    }

    /// What a worker works on that names nothing, see [`Renewal::Unlisted`].
    fn implied_leases(&self, worker: &WorkerId, n_active: usize) -> Vec<LeaseId> {
        let held = |lease: &LeaseId| {
            let task = self.state.tasks.get(lease.task).expect("held tasks are live");
            let TaskState::Leased(held) = &task.progress.state else { panic!("{lease} is held") };
            (held.is_doubtful, held.granted_at)
        };
        let (mut doubtful, mut implied): (Vec<_>, Vec<_>) =
            self.leases_of(worker).into_iter().partition(|lease| held(lease).0);
        doubtful.sort_by_key(|lease| Reverse((held(lease).1, lease.task)));
        doubtful.truncate(n_active.saturating_sub(implied.len()));
        implied.append(&mut doubtful);
        implied
    }

    /// A worker that registers may be a new process: it must name or count what it holds.
    pub(crate) fn doubt_leases(&mut self, worker: &WorkerId) {
        for lease in self.leases_of(worker) {
            let task = self.state.tasks.get_mut(lease.task).expect("held tasks are live");
            if let TaskState::Leased(held) = &mut task.progress.state {
                held.is_doubtful = true;
            }
        }
    }

    fn extend(&mut self, lease: LeaseId, worker: &WorkerId, is_named: bool) -> HeartbeatVerdict {
        match self.standing(lease, worker) {
            Standing::Holder => {}
            Standing::Reported { .. } => {
                return HeartbeatVerdict::Cancelled(LostAuthority::Reported);
            }
            Standing::Lost(reason) => {
                self.forgive_loss(lease);
                return HeartbeatVerdict::Cancelled(reason);
            }
            Standing::Wrong(violation) => return HeartbeatVerdict::Rejected(violation),
        }
        let now = self.now();
        let task = self.state.tasks.get_mut(lease.task).expect("held tasks are live");
        let spec = self.state.placement.spec(task.spec);
        let TaskState::Leased(current) = &mut task.progress.state else {
            return HeartbeatVerdict::Rejected(Violation::UnknownLease);
        };
        current.confirm_by = None;
        current.is_doubtful &= !is_named;
        // Soft state: the table of deadlines keeps the earlier moment, and the look that comes then
        // finds that there is time left.
        current.expires_at = lease_end(spec, current.attempt_ends_at, now).max(current.expires_at);
        HeartbeatVerdict::Extended { expires_at: current.expires_at }
    }

    // ----- time

    /// A task's deadline has come: its wait is over, or its lease may be.
    pub(crate) fn on_task_due(&mut self, id: TaskId) {
        let now = self.now();
        let task = self.state.tasks.get_mut(id).expect("deadlines of live tasks");
        task.deadline = None; // It has just been taken from the table.
        match &task.progress.state {
            // Not a fact to keep: a restart sees by the clock that the wait is over.
            TaskState::Waiting { why: why @ (WaitReason::Delay | WaitReason::Signal), .. } => {
                let why = *why;
                self.end_own_wait(id, why);
            }
            TaskState::Waiting { .. } => self.state.end_wait(id),
            TaskState::Leased(lease) => {
                let at = lease_deadline(lease);
                if at > now {
                    self.state.set_deadline(id, at);
                } else {
                    self.expire(id);
                }
            }
            TaskState::Ready => self.give_up(id),
            TaskState::Settled(_) => panic!("a settled task has no deadline"),
        }
    }

    /// Ends the current lease of a task, because its time is up.
    pub(crate) fn expire(&mut self, id: TaskId) {
        let now = self.now();
        let task = self.state.tasks.get(id).expect("leased tasks are live");
        let TaskState::Leased(lease) = &task.progress.state else { return };
        let worker = lease.holder.clone();
        let is_over = |end: Option<Timestamp>| end.is_some_and(|end| end <= now);
        if is_over(lease.attempt_ends_at) {
            return self.after_timeout(id, worker);
        }
        let undelivered = lease.expires_at > now && is_over(lease.confirm_by);
        let ending = if undelivered { Ending::Undelivered } else { Ending::Expired };
        self.after_lost_worker(id, worker, ending);
    }

    /// Records an attempt that ended while the task goes on.
    pub(crate) fn end_attempt(
        &mut self,
        task: TaskId,
        worker: WorkerId,
        ending: Ending,
        progress: Progress,
    ) {
        let attempt = EndedAttempt { epoch: progress.epoch, worker, at: self.now(), ending };
        self.change(Change::AttemptEnded { task, attempt, progress });
    }
}
