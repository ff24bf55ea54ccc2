//! What the facts say of each task, worked out anew from the facts alone.
//!
//! One model follows what is durable; each server has another one that follows what its
//! coordinator has decided, durable or not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use coordinator::{
    Change, EndedAttempt, Ending, Lease, Outcome, Progress, Settlement, TaskRecord, TaskState,
    TenantChange, WaitReason,
};
use model::{
    ConcurrencyKey, IdempotencyKey, IdempotencyMark, LeaseId, QueueName, ReportKey, TaskId,
    TaskSpec, Timestamp, WorkerId,
};
use shard::worker_link::session_leases::TIMEOUT_GRACE;

use crate::consequence::Consequence;
use crate::oracle::notes::Notes;
use crate::workload::intent_of;

/// Workers that a task may lose in a row: the promise, not the coordinator's constant.
const LOSSES_MAX: u32 = 3;

#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) tasks: BTreeMap<TaskId, TaskModel>,
    pub(crate) marks: BTreeMap<IdempotencyKey, TaskId>,
    /// Queues that the coordinator was told to grant nothing from.
    pub(crate) paused: BTreeSet<QueueName>,
    /// Workers that people drained.
    pub(crate) drained: BTreeSet<WorkerId>,
    /// Workers that said of themselves that they want nothing new.
    pub(super) leaving: BTreeSet<WorkerId>,
    /// Tasks that the step at hand stops.
    pub(super) stopping: BTreeSet<TaskId>,
}

#[derive(Clone, Debug)]
pub(crate) struct TaskModel {
    pub(crate) spec: Arc<TaskSpec>,
    pub(crate) intent: u64,
    pub(crate) is_of_run: bool,
    /// How long it lets time pass.
    delay: Option<Duration>,
    pub(crate) key: Option<ConcurrencyKey>,
    pub(crate) mark: Option<IdempotencyMark>,
    pub(crate) after: Vec<TaskId>,
    pub(crate) place: Place,
    /// Every lease ever granted; the first has epoch 1.
    pub(crate) leases: Vec<LeaseModel>,
    /// How often a person has put the task back.
    pub(crate) generation: u32,
    pub(crate) stops: u32,
    pub(crate) stopped_at: Option<Timestamp>,
    pub(crate) result: Option<Bytes>,
    attempts: u32,
    losses: u32,
    /// How often a worker was slow, not lost.
    pub(crate) forgiven: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Waiting {
        until: Timestamp,
        is_backoff: bool,
    },
    /// Other tasks must complete first; then the moment counts.
    Blocked {
        until: Timestamp,
    },
    /// Nobody executes it: time is to pass, or someone must say a word.
    Own {
        until: Timestamp,
    },
    Ready,
    Leased,
    Settled(Outcome),
}

#[derive(Clone, Debug)]
pub(crate) struct LeaseModel {
    pub(crate) holder: WorkerId,
    pub(crate) granted_at: Timestamp,
    /// Whether its holder has not named it since it was granted, its holder registered or the server
    /// started.
    pub(crate) is_doubtful: bool,
    pub(crate) ends_at: Timestamp,
    pub(crate) attempt_ends_at: Option<Timestamp>,
    pub(crate) confirm_by: Option<Timestamp>,
    pub(crate) end: Option<LeaseEnd>,
    /// The generation of the task when it was granted.
    pub(crate) generation: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseEnd {
    /// A report under it counted.
    Committed(ReportKey),
    /// Time took it away.
    Lost,
    /// The server gave it back: it never reached its worker.
    Returned,
    /// A person stopped the task.
    Stopped,
    /// Its holder left.
    GivenBack,
}

impl LeaseModel {
    /// The moment at which it is over unless a heartbeat comes.
    pub(crate) fn due(&self) -> Timestamp {
        self.confirm_by.map_or(self.ends_at, |confirm_by| confirm_by.min(self.ends_at))
    }
}

impl Model {
    pub(crate) fn lease(&self, lease: LeaseId) -> Option<&LeaseModel> {
        let index = usize::try_from(lease.epoch).ok()?.checked_sub(1)?;
        self.tasks.get(&lease.task)?.leases.get(index)
    }

    pub(crate) fn lease_mut(&mut self, lease: LeaseId) -> Option<&mut LeaseModel> {
        let index = usize::try_from(lease.epoch).ok()?.checked_sub(1)?;
        self.tasks.get_mut(&lease.task)?.leases.get_mut(index)
    }

    /// The same as a process knows it that starts now: every lease has one fresh term, and nobody
    /// knows who has confirmed what.
    pub(crate) fn restored(&self, now: Timestamp) -> Self {
        let mut model = self.clone();
        for task in model.tasks.values_mut() {
            // A wall clock that was set back must not lengthen a retry's pause or a delay either.
            if let Place::Waiting { until, is_backoff: true } = &mut task.place {
                *until = (*until).min(now.after(task.spec.retry.backoff_max));
            }
            if let (Place::Own { until }, Some(delay)) = (&mut task.place, task.delay) {
                *until = (*until).min(now.after(delay));
            }
        }
        for task in model.tasks.values_mut().filter(|task| task.place == Place::Leased) {
            let Some(lease) = task.leases.last_mut() else { continue };
            let end = lease.attempt_ends_at;
            // A wall clock that was set back must not lengthen an attempt.
            lease.attempt_ends_at =
                end.map(|end| task.spec.timeout.map_or(end, |timeout| end.min(now.after(timeout))));
            let term = now.after(task.spec.lease_ttl);
            lease.ends_at = lease.attempt_ends_at.map_or(term, |end| end.min(term));
            lease.confirm_by = None;
            lease.is_doubtful = true;
        }
        model
    }

    /// Takes a fact in. `now` is the clock of the coordinator that decided it; facts that become
    /// durable carry no such clock, and are only checked for their order.
    pub(crate) fn observe(&mut self, change: &Change, now: Option<Timestamp>, notes: &mut Notes) {
        match change {
            Change::TaskSubmitted(record) => self.submitted(record, notes),
            Change::TaskRequeued(record) => self.requeued(record, notes),
            Change::LeaseGranted { task, progress, .. } => {
                self.granted(*task, progress, now, notes);
            }
            Change::AttemptEnded { task, attempt, progress } => {
                self.note_return(*task, attempt, progress, (now, notes));
                self.attempt_ended(*task, attempt, now, notes);
                self.goes_on(*task, &attempt.ending, progress, (now, notes));
            }
            Change::TaskReleased { task, progress } => {
                self.released(*task, progress, (now, notes));
            }
            Change::LossForgiven { task, progress } => self.forgiven(*task, progress, notes),
            Change::TaskSettled { task, attempt, progress, .. } => {
                self.settled(*task, attempt.as_ref(), progress, (now, notes));
            }
        }
    }

    /// Takes a fact about the tenant in.
    pub(crate) fn observe_tenant(&mut self, change: &TenantChange) {
        match change {
            TenantChange::WorkerDrained { worker, .. } => drop(self.drained.insert(worker.clone())),
            TenantChange::WorkerUndrained { worker } => drop(self.drained.remove(worker)),
            _ => {}
        }
    }

    /// How many leases a worker holds.
    pub(super) fn n_held(&self, worker: &WorkerId) -> usize {
        let is_held = |task: &&TaskModel| {
            task.place == Place::Leased
                && task.leases.last().is_some_and(|lease| lease.holder == *worker)
        };
        self.tasks.values().filter(is_held).count()
    }

    fn submitted(&mut self, record: &TaskRecord, notes: &mut Notes) {
        let task = TaskModel {
            spec: Arc::clone(&record.spec),
            intent: intent_of(&record.parameters),
            is_of_run: record.link.is_some(),
            delay: delay_of(record),
            key: record.concurrency_key.clone(),
            mark: record.idempotency.clone(),
            after: record.after.clone(),
            place: place_of(&record.progress.state),
            leases: Vec::new(),
            generation: 0,
            stops: 0,
            stopped_at: None,
            result: None,
            attempts: 0,
            losses: 0,
            forgiven: 0,
        };
        let number = record.id.number();
        self.check_after(record, task.place, notes);
        let before = self.tasks.insert(record.id, task);
        notes.demand(before.is_none(), "P1", || format!("task {number} was made twice"));
        if let Some(mark) = &record.idempotency {
            let before = self.marks.insert(mark.key.clone(), record.id);
            notes.demand(before.is_none(), "P1", || format!("{} made two tasks", mark.key));
        }
    }

    fn requeued(&mut self, record: &TaskRecord, notes: &mut Notes) {
        let number = record.id.number();
        let Some(task) = self.tasks.get_mut(&record.id) else {
            return notes.broken("P1", || format!("task {number} was requeued but never made"));
        };
        let is_allowed =
            matches!(task.place, Place::Settled(outcome) if outcome != Outcome::Completed);
        notes.demand(is_allowed, "P2", || format!("task {number} requeued from {:?}", task.place));
        let keeps_epoch = usize::try_from(record.progress.epoch) == Ok(task.leases.len());
        notes
            .demand(keeps_epoch, "P4", || format!("the epoch of task {number} changed in requeue"));
        task.place = place_of(&record.progress.state);
        task.generation += 1;
        (task.attempts, task.losses) = (0, 0);
    }

    fn granted(
        &mut self,
        id: TaskId,
        progress: &Progress,
        now: Option<Timestamp>,
        notes: &mut Notes,
    ) {
        let TaskState::Leased(lease) = &progress.state else { return };
        self.check_key(id, notes);
        self.check_not_paused(id, now, notes);
        let is_drained = now.is_some() && self.drained.contains(&lease.holder);
        notes.demand(!is_drained, "P5", || {
            format!("task {} was granted to {}, which is drained", id.number(), lease.holder)
        });
        let is_free = self.is_free(id);
        let number = id.number();
        let Some(task) = self.tasks.get_mut(&id) else {
            return notes.broken("P1", || format!("task {number} was granted but never made"));
        };
        task.attempts += 1;
        check_may_start(task, (number, progress.epoch, is_free), now, notes);
        check_term(task, number, lease, now, notes);
        task.place = Place::Leased;
        task.leases.push(LeaseModel {
            holder: lease.holder.clone(),
            granted_at: lease.granted_at,
            // Of those who call; sessions list what they work on.
            is_doubtful: true,
            ends_at: lease.expires_at,
            attempt_ends_at: lease.attempt_ends_at,
            confirm_by: lease.confirm_by,
            end: None,
            generation: task.generation,
        });
    }

    /// At most one task with a key runs at a time.
    fn check_key(&self, id: TaskId, notes: &mut Notes) {
        let Some(key) = self.tasks.get(&id).and_then(|task| task.key.as_ref()) else { return };
        let rival = self.tasks.iter().find(|(other, task)| {
            **other != id && task.place == Place::Leased && task.key.as_ref() == Some(key)
        });
        if let Some((rival, _)) = rival {
            let (number, rival) = (id.number(), rival.number());
            notes.broken("P11", || format!("tasks {rival} and {number} both run under key {key}"));
        }
    }

    /// A grant that never left the house does not count as an attempt: that is how a returned
    /// lease looks in the facts.
    fn note_return(
        &mut self,
        id: TaskId,
        attempt: &EndedAttempt,
        progress: &Progress,
        (now, notes): (Option<Timestamp>, &mut Notes),
    ) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        let is_returned = progress.attempt < task.attempts;
        let Some(lease) = task.leases.last_mut() else { return };
        let was_returned = matches!(lease.end, Some(LeaseEnd::Returned | LeaseEnd::GivenBack));
        if now.is_none() && is_returned && attempt.ending == Ending::Undelivered {
            lease.end = Some(LeaseEnd::Returned);
        } else if now.is_none() && is_returned && attempt.ending == Ending::Expired {
            lease.end = Some(LeaseEnd::GivenBack);
        } else {
            let number = id.number();
            notes.demand(now.is_none() || is_returned == was_returned, "P6", || {
                format!("an attempt of task {number} does not count, though its worker had it")
            });
        }
    }

    fn attempt_ended(
        &mut self,
        id: TaskId,
        attempt: &EndedAttempt,
        now: Option<Timestamp>,
        notes: &mut Notes,
    ) {
        let number = id.number();
        let lease_id = LeaseId { task: id, epoch: attempt.epoch };
        let is_current = self.tasks.get(&id).is_some_and(|task| {
            task.place == Place::Leased && usize::try_from(attempt.epoch) == Ok(task.leases.len())
        });
        notes.demand(is_current, "P4", || {
            format!("an attempt of task {number} ended under epoch {} that is over", attempt.epoch)
        });
        let Some(lease) = self.lease_mut(lease_id) else { return };
        notes.demand(lease.holder == attempt.worker, "P4", || {
            format!("an attempt of task {number} ended by {}, not its holder", attempt.worker)
        });
        let (is_right, end) = end_of(lease, &attempt.ending, now);
        notes.demand(is_right, "P4", || {
            format!(
                "task {number} epoch {}: {:?} at {now:?}, but {} holds it until {:?}",
                attempt.epoch, attempt.ending, lease.holder, lease.ends_at
            )
        });
        lease.end = Some(end);
        count_ending(&attempt.ending, now, notes);
    }

    fn goes_on(
        &mut self,
        id: TaskId,
        ending: &Ending,
        progress: &Progress,
        (now, notes): (Option<Timestamp>, &mut Notes),
    ) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        task.place = place_of(&progress.state);
        let last_end = task.leases.last().and_then(|lease| lease.end);
        match ending {
            Ending::Failed { .. } | Ending::TimedOut => {
                // Slow or gone? Until its worker is heard of, a timeout counts as a loss.
                let is_reported = matches!(ending, Ending::Failed { .. });
                task.losses = if is_reported { 0 } else { task.losses + 1 };
                if let (Place::Waiting { until, .. }, Some(now)) = (task.place, now) {
                    notes.pause(task.spec.retry, task.attempts, until.since(now));
                    notes.happened(Consequence::RetriedAfterFailure);
                }
            }
            Ending::Undelivered if last_end == Some(LeaseEnd::Returned) => task.attempts -= 1,
            Ending::Expired if last_end == Some(LeaseEnd::GivenBack) => {
                task.attempts -= 1;
                task.losses += 1;
            }
            Ending::Expired | Ending::Undelivered => task.losses += 1,
            Ending::Stopped => {}
        }
        let is_live = !matches!(task.place, Place::Leased | Place::Settled(_));
        notes.demand(is_live, "P2", || format!("task {} ended an attempt oddly", id.number()));
    }

    /// A worker whose attempt timed out was heard of.
    fn forgiven(&mut self, id: TaskId, progress: &Progress, notes: &mut Notes) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        let was_slow = task.losses > 0 && progress.losses == 0;
        notes.demand(was_slow, "P6", || format!("task {} is forgiven nothing", id.number()));
        notes.happened(Consequence::LossForgiven);
        task.losses = 0;
        task.forgiven += 1;
        task.place = place_of(&progress.state);
        // The fact carries the lease as a restart under another wall clock may have cut it.
        if let (TaskState::Leased(lease), Some(last)) = (&progress.state, task.leases.last_mut()) {
            last.attempt_ends_at = lease.attempt_ends_at;
        }
    }

    fn settled(
        &mut self,
        id: TaskId,
        attempt: Option<&EndedAttempt>,
        progress: &Progress,
        (now, notes): (Option<Timestamp>, &mut Notes),
    ) {
        let number = id.number();
        let TaskState::Settled(settlement) = &progress.state else { return };
        let Some(task) = self.tasks.get_mut(&id) else {
            return notes.broken("P1", || format!("task {number} settled but was never made"));
        };
        let was_settled = matches!(task.place, Place::Settled(_));
        notes.demand(!was_settled, "P2", || format!("task {number} was settled twice"));
        let failure = settlement.failure.as_ref();
        if failure.is_some_and(|failure| failure.code == "E.TASK.DEPENDENCY") {
            self.check_failed_with_others(id, (now, notes));
        }
        let Some(task) = self.tasks.get_mut(&id) else { return };
        check_settling_report(task, number, progress.epoch, (settlement, now, notes));
        let is_poison = task.losses + 1 >= LOSSES_MAX;
        if settlement.outcome == Outcome::Stopped {
            task.stops += 1;
            task.stopped_at = Some(settlement.at);
        }
        task.result.clone_from(&settlement.result);
        if let Some(attempt) = attempt {
            self.attempt_ended(id, attempt, now, notes);
        }
        if let Some(task) = self.tasks.get_mut(&id) {
            task.place = Place::Settled(settlement.outcome);
        }
        if settlement.outcome == Outcome::Dead && now.is_some() {
            let failure = settlement.failure.as_ref();
            let lost = failure.is_some_and(|failure| failure.code == "E.WORKER.LOST");
            notes.happened(if lost && is_poison {
                Consequence::DeadByPoison
            } else {
                Consequence::DeadByAttempts
            });
        }
    }
}

/// Whether an attempt may end like this by that clock, and what it makes of the lease.
fn end_of(lease: &LeaseModel, ending: &Ending, now: Option<Timestamp>) -> (bool, LeaseEnd) {
    let is_due = |moment: Option<Timestamp>| match (moment, now) {
        (Some(moment), Some(now)) => moment <= now,
        (_, None) => true,
        (None, Some(_)) => false,
    };
    let was_returned = lease.end == Some(LeaseEnd::Returned);
    let was_given_back = lease.end == Some(LeaseEnd::GivenBack);
    match ending {
        Ending::Failed { report, .. } => {
            let end = LeaseEnd::Committed(*report);
            (now.is_none() || lease.end == Some(end), end)
        }
        Ending::Expired if was_given_back => (true, LeaseEnd::GivenBack),
        Ending::Expired if lease.end == Some(LeaseEnd::Lost) => (true, LeaseEnd::Lost),
        Ending::Expired => (is_due(Some(lease.ends_at)), LeaseEnd::Lost),
        Ending::TimedOut => (is_due(lease.attempt_ends_at), LeaseEnd::Lost),
        Ending::Undelivered if was_returned => (true, LeaseEnd::Returned),
        Ending::Undelivered => (is_due(lease.confirm_by), LeaseEnd::Lost),
        Ending::Stopped => (true, LeaseEnd::Stopped),
    }
}

/// A task that a report settles was held, and the report was one that counts.
fn check_settling_report(
    task: &mut TaskModel,
    number: u64,
    epoch: u32,
    (settlement, now, notes): (&Settlement, Option<Timestamp>, &mut Notes),
) {
    let is_executed = !matches!(task.place, Place::Own { .. });
    let needs_report = settlement.outcome == Outcome::Completed && is_executed;
    notes.demand(!needs_report || settlement.report.is_some(), "P2", || {
        format!("task {number} was completed without a report")
    });
    let Some(key) = settlement.report else { return };
    let is_current = usize::try_from(epoch) == Ok(task.leases.len());
    let Some(lease) = task.leases.last_mut() else { return };
    let end = Some(LeaseEnd::Committed(key));
    let counts = now.is_none() || lease.end == end;
    notes.demand(task.place == Place::Leased && is_current && counts, "P4", || {
        format!("task {number} was settled by a report that does not count")
    });
    lease.end = end;
}

/// A grant needs a task that may start, the next epoch, and an attempt that is left.
fn check_may_start(
    task: &TaskModel,
    (number, epoch, is_free): (u64, u32, bool),
    now: Option<Timestamp>,
    notes: &mut Notes,
) {
    let may_start = match task.place {
        Place::Ready => true,
        Place::Blocked { until } => is_free && now.is_none_or(|now| until <= now),
        // Only a clock can say that the wait is over, and what is durable has none.
        Place::Waiting { until, .. } => now.is_none_or(|now| until <= now),
        Place::Leased | Place::Settled(_) | Place::Own { .. } => false,
    };
    notes.demand(may_start, "P4", || format!("task {number} granted while {:?}", task.place));
    let rises = usize::try_from(epoch) == Ok(task.leases.len() + 1);
    notes.demand(rises, "P4", || {
        format!("task {number}: epoch {} after {} leases", epoch, task.leases.len())
    });
    notes.demand(task.attempts <= task.spec.retry.max_attempts, "P6", || {
        format!("task {number} is tried for the {}. time", task.attempts)
    });
    notes.demand(task.losses < LOSSES_MAX, "P6", || {
        format!("task {number} is granted after it lost {} workers in a row", task.losses)
    });
}

/// A lease lasts one term from its grant, cut by the attempt's own end.
fn check_term(
    task: &TaskModel,
    number: u64,
    lease: &Lease,
    now: Option<Timestamp>,
    notes: &mut Notes,
) {
    let mut end = task.spec.timeout.map(|timeout| lease.granted_at.after(timeout));
    // A worker that holds a session is told the timeout, and has some time to say that it was too
    // long.
    let with_grace = end.map(|end| end.after(TIMEOUT_GRACE));
    if lease.attempt_ends_at == with_grace {
        end = with_grace;
    }
    let term = lease.granted_at.after(task.spec.lease_ttl);
    let expires_at = end.map_or(term, |end| end.min(term));
    let is_right = lease.expires_at == expires_at
        && lease.attempt_ends_at == end
        && now.is_none_or(|now| now == lease.granted_at);
    notes
        .demand(is_right, "P4", || format!("task {number} was granted for an odd term: {lease:?}"));
}

fn count_ending(ending: &Ending, now: Option<Timestamp>, notes: &mut Notes) {
    if now.is_none() {
        return;
    }
    match ending {
        Ending::TimedOut => notes.happened(Consequence::TimedOut),
        Ending::Undelivered => notes.happened(Consequence::UndeliveredTakenBack),
        Ending::Failed { .. } | Ending::Expired | Ending::Stopped => {}
    }
}

fn delay_of(record: &TaskRecord) -> Option<Duration> {
    let given: serde_json::Value = serde_json::from_slice(&record.parameters).ok()?;
    let is_delay = record.spec.demand.task_type.as_str() == "core.delay";
    given["ms"].as_u64().filter(|_| is_delay).map(Duration::from_millis)
}

pub(super) fn place_of(state: &TaskState) -> Place {
    match state {
        TaskState::Waiting { until, why: WaitReason::After } => Place::Blocked { until: *until },
        TaskState::Waiting { until, why: WaitReason::Delay | WaitReason::Signal } => {
            Place::Own { until: *until }
        }
        TaskState::Waiting { until, why } => {
            Place::Waiting { until: *until, is_backoff: *why == WaitReason::Backoff }
        }
        TaskState::Ready => Place::Ready,
        TaskState::Leased(_) => Place::Leased,
        TaskState::Settled(settlement) => Place::Settled(settlement.outcome),
    }
}
