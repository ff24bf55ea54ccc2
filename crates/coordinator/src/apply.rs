//! Facts become state: the only code that writes tasks and their indexes, live and at recovery.

use std::sync::Arc;

use model::{ConcurrencyKey, TaskId, Timestamp, WorkerId};

use crate::change::{Change, EndedAttempt, TaskRecord, TaskState, WaitReason};
use crate::placement::ReadyRank;
use crate::run::apply::{After, RunFact};
use crate::run::change::FactNumber;
use crate::state::Deadline;
use crate::state::{KeySlot, QueueCounts, State, lease_deadline};
use crate::task::record::{AfterPart, LinkPart, RareParts, Task};

impl State {
    /// Makes a fact true. Gives what follows for the run that the task belongs to.
    pub(crate) fn apply(&mut self, change: &Change) -> After {
        match change {
            Change::TaskSubmitted(record) => {
                assert!(record.id.number() == self.next_number, "task numbers have no gaps");
                self.next_number += 1;
                self.insert_record(record);
                let Some(link) = &record.link else { return After::Nothing };
                let (task, parameters) = (record.id, &record.parameters);
                let begun = RunFact::TaskBegun { task, link, parameters };
                self.apply_to_run(link.run, record.facts.begun, begun)
            }
            Change::TaskRequeued(record) => {
                self.insert_record(record);
                After::Nothing
            }
            Change::LeaseGranted { task, progress, fact } => {
                self.advance(*task, change);
                self.apply_grant(*task, progress.epoch, *fact)
            }
            Change::AttemptEnded { task, .. }
            | Change::LossForgiven { task, .. }
            | Change::TaskReleased { task, .. } => {
                self.advance(*task, change);
                After::Nothing
            }
            Change::TaskSettled { task, progress, fact, .. } => {
                let run = self.tasks.get(*task).and_then(|task| task.link()).map(|link| link.run);
                self.advance(*task, change);
                let (Some(run), TaskState::Settled(settlement)) = (run, &progress.state) else {
                    return After::Nothing;
                };
                self.apply_to_run(run, *fact, RunFact::TaskSettled { task: *task, settlement })
            }
        }
    }

    fn apply_grant(&mut self, id: TaskId, epoch: u32, fact: Option<FactNumber>) -> After {
        let task = self.tasks.get_mut(id).expect("held tasks are live");
        let Some(facts) = task.facts_mut() else { return After::Nothing };
        facts.granted = fact;
        let run = task.link().expect("its facts have numbers").run;
        self.apply_to_run(run, fact, RunFact::TaskGranted { task: id, epoch })
    }

    /// Takes a task in: a new one, a requeued one, or one that a restart brings back.
    pub(crate) fn insert_record(&mut self, record: &TaskRecord) {
        assert!(record.id.shard() == self.shard, "a tenant's tasks are its own");
        assert!(record.id.number() < self.next_number, "a task's number was given out");
        let progress = &record.progress;
        assert!(progress.epoch >= progress.attempt, "an attempt is counted at a grant");
        let has_rare = record.concurrency_key.is_some()
            || record.idempotency.is_some()
            || record.run.is_some()
            || record.link.is_some()
            || record.pin.is_some()
            || !record.after.is_empty()
            || !record.ended_attempts.is_empty();
        let rare = has_rare.then(|| {
            Box::new(RareParts {
                concurrency_key: record.concurrency_key.clone(),
                idempotency: record.idempotency.clone(),
                run: record.run.clone(),
                ended_attempts: record.ended_attempts.clone(),
                after: (!record.after.is_empty())
                    .then(|| Box::new(AfterPart { tasks: record.after.clone(), unmet: 0 })),
                link: record
                    .link
                    .as_ref()
                    .map(|link| Box::new(LinkPart { link: Arc::clone(link), facts: record.facts })),
                pin: record.pin.clone(),
            })
        });
        let task = Task {
            id: record.id,
            parameters: record.parameters.clone(),
            created_at: record.created_at,
            progress: record.progress.clone(),
            deadline: None,
            spec: self.placement.add_task(&record.spec),
            rare,
        };
        self.live_bytes += task.live_bytes();
        if let Some(mark) = task.idempotency() {
            let other = self.idempotency.insert(mark.key.clone(), task.id);
            assert!(other.is_none(), "a key names one live task");
        }
        self.add_affinity(&task);
        self.tasks.insert(record.id, task);
        self.link(record.id);
    }

    fn advance(&mut self, id: TaskId, change: &Change) {
        check_step(self.tasks.get(id).expect("only live tasks change"), change);
        self.unlink(id);
        let task = self.tasks.get_mut(id).expect("only live tasks change");
        if let Some(attempt) = change.ended_attempt() {
            task.push_ended_attempt(attempt.clone());
        }
        task.progress = change.progress().clone();
        if matches!(task.progress.state, TaskState::Settled(_)) {
            self.remove_settled(id);
        } else {
            self.link(id);
        }
    }

    /// A waiting task's moment has come. The store need not know: the clock says it as well.
    pub(crate) fn end_wait(&mut self, id: TaskId) {
        self.unlink(id);
        let task = self.tasks.get_mut(id).expect("only live tasks wait");
        let is_waiting = matches!(task.progress.state, TaskState::Waiting { .. });
        assert!(is_waiting, "only a wait ends");
        task.progress.state = TaskState::Ready;
        self.link(id);
    }

    fn remove_settled(&mut self, id: TaskId) {
        let task = self.tasks.remove(id).expect("only live tasks settle");
        if self.loads.remembers() {
            let record = self.record(&task);
            self.loads.remember(record);
        }
        self.live_bytes -= task.live_bytes();
        self.remove_affinity(&task);
        self.placement.remove_task(task.spec);
        if let Some(mark) = task.idempotency() {
            let named = self.idempotency.remove(&mark.key);
            assert!(named == Some(id), "a live task's key names it");
        }
        if let Some(key) = task.concurrency_key() {
            self.rearrange(key);
        }
    }

    /// Enters a task into the indexes of the state that it is in.
    fn link(&mut self, id: TaskId) {
        let task = self.tasks.get(id).expect("linked tasks are live");
        let spec = task.spec;
        match &task.progress.state {
            TaskState::Waiting { until, why } => {
                let (until, why) = (*until, *why);
                if why != WaitReason::After || !self.wait_for_others(id) {
                    self.set_deadline(id, until);
                }
            }
            TaskState::Ready if task.rare.is_none() => self.placement.add_ready(spec, id, None),
            TaskState::Ready if task.concurrency_key().is_some() => self.enter_key(id),
            TaskState::Ready => self.show_ready(id),
            TaskState::Leased(lease) => {
                let (at, holder) = (lease_deadline(lease), lease.holder.clone());
                let rare = task.rare.is_some().then(|| (holder.clone(), lease.granted_at));
                self.set_deadline(id, at);
                self.workers.add_held(holder, id);
                self.hold_key(id);
                if let Some((holder, since)) = rare {
                    self.bind_key_of(id, &holder, since);
                    self.bind_run_of(id, &holder, since);
                }
            }
            TaskState::Settled(_) => panic!("a settled task is in no index"),
        }
        self.count(id, |counts, by| *counts += by);
        let task = self.tasks.get(id).expect("linked tasks are live");
        if let Some(key) = task.concurrency_key().cloned() {
            self.rearrange(&key);
        }
    }

    /// Takes a task out of the indexes of the state that it is in.
    fn unlink(&mut self, id: TaskId) {
        self.clear_deadline(id);
        self.count(id, |counts, by| *counts -= by);
        let task = self.tasks.get(id).expect("unlinked tasks are live");
        let spec = task.spec;
        match &task.progress.state {
            TaskState::Waiting { why: WaitReason::After, .. } => self.stop_waiting_for_others(id),
            TaskState::Waiting { .. } => {}
            TaskState::Ready if task.rare.is_none() => self.placement.remove_ready(spec, id, None),
            TaskState::Ready if task.concurrency_key().is_some() => self.leave_key(id),
            TaskState::Ready => self.hide_ready(id),
            TaskState::Leased(lease) => {
                let holder = lease.holder.clone();
                self.workers.remove_held(&holder, id);
                self.leave_key(id);
                self.offer_freed_room(&holder);
            }
            TaskState::Settled(_) => panic!("a settled task is in no index"),
        }
    }

    /// A lease of a worker ended, perhaps unheard: a request that its slots held back has room now.
    fn offer_freed_room(&mut self, worker: &WorkerId) {
        if self.placement.has_held_back() && self.placement.look_again(self.workers.asking(worker))
        {
            self.placement.serve_lanes_for(worker);
        }
    }

    fn count(&mut self, id: TaskId, change: impl Fn(&mut u64, u64)) {
        let task = self.tasks.get(id).expect("counted tasks are live");
        let queue = &self.placement.spec(task.spec).demand.queue;
        if !self.queues.contains_key(queue) {
            self.queues.insert(queue.clone(), QueueCounts::default());
        }
        let counts = self.queues.get_mut(queue).expect("just made sure of");
        let count = match &task.progress.state {
            TaskState::Waiting {
                why: WaitReason::Scheduled | WaitReason::Delay | WaitReason::Signal,
                ..
            } => &mut counts.scheduled,
            TaskState::Waiting { why: WaitReason::Backoff, .. } => &mut counts.backoff,
            TaskState::Waiting { why: WaitReason::After, .. } => &mut counts.blocked,
            TaskState::Ready => &mut counts.ready,
            TaskState::Leased(_) => &mut counts.leased,
            TaskState::Settled(_) => panic!("a settled task is in no index"),
        };
        change(count, 1);
        if counts.is_empty() {
            self.queues.remove(&queue.clone());
        }
    }

    // ----- deadlines of tasks

    pub(crate) fn set_deadline(&mut self, id: TaskId, at: Timestamp) {
        let task = self.tasks.get_mut(id).expect("live tasks have deadlines");
        assert!(task.deadline.is_none(), "a task has one deadline");
        task.deadline = Some(at);
        self.deadlines.insert(at, Deadline::Task(id));
    }

    pub(crate) fn clear_deadline(&mut self, id: TaskId) {
        let task = self.tasks.get_mut(id).expect("live tasks have deadlines");
        if let Some(at) = task.deadline.take() {
            self.deadlines.remove(at, Deadline::Task(id));
        }
    }

    // ----- concurrency keys: at most one task with a key is visible to placement

    /// A ready task parks; `rearrange` decides whether it steps to the front.
    fn enter_key(&mut self, id: TaskId) {
        let task = self.tasks.get(id).expect("live");
        let key = task.concurrency_key().expect("entered by key").clone();
        let rank = self.rank(task);
        self.keys.entry(key).or_default().parked.insert(rank);
    }

    /// A leased task is at the front, whoever was ready there.
    fn hold_key(&mut self, id: TaskId) {
        let task = self.tasks.get(id).expect("live");
        let Some(key) = task.concurrency_key().cloned() else { return };
        let front = self.keys.entry(key.clone()).or_default().front;
        if let Some(front) = front.filter(|front| *front != id) {
            self.park_front(front);
        }
        self.slot(&key).front = Some(id);
    }

    fn leave_key(&mut self, id: TaskId) {
        let task = self.tasks.get(id).expect("live");
        let Some(key) = task.concurrency_key().cloned() else { return };
        let rank = self.rank(task);
        let was_ready = matches!(task.progress.state, TaskState::Ready);
        let slot = self.slot(&key);
        if slot.front == Some(id) {
            slot.front = None;
            if was_ready {
                self.hide_ready(id);
            }
        } else {
            let was_parked = slot.parked.remove(&rank);
            assert!(was_parked, "a task with a key is at its front, or parked");
        }
    }

    fn park_front(&mut self, front: TaskId) {
        let task = self.tasks.get(front).expect("live");
        let key = task.concurrency_key().expect("at the front of a key").clone();
        let rank = self.rank(task);
        self.hide_ready(front);
        let is_new = self.slot(&key).parked.insert(rank);
        assert!(is_new, "the front of a key is not parked");
    }

    /// Puts the best ready task to the front, unless a leased one is there, and drops a slot that
    /// nobody needs.
    fn rearrange(&mut self, key: &ConcurrencyKey) {
        let Some(slot) = self.keys.get(key) else { return };
        let Some(best) = slot.parked.first().copied() else {
            if slot.front.is_none() {
                self.keys.remove(key);
            }
            return;
        };
        match slot.front {
            Some(front) if !self.is_ready_behind(front, best) => return,
            Some(front) => self.park_front(front),
            None => {}
        }
        let slot = self.slot(key);
        let was_parked = slot.parked.remove(&best);
        assert!(was_parked, "the best of a key was parked");
        slot.front = Some(best.1);
        self.show_ready(best.1);
    }

    fn is_ready_behind(&self, front: TaskId, rank: ReadyRank) -> bool {
        let task = self.tasks.get(front).expect("the front of a key is live");
        matches!(task.progress.state, TaskState::Ready) && rank < self.rank(task)
    }

    fn slot(&mut self, key: &ConcurrencyKey) -> &mut KeySlot {
        self.keys.get_mut(key).expect("a keyed task has its slot")
    }
}

/// What holds between a live task and its next fact, whoever decided it.
fn check_step(task: &Task, change: &Change) {
    let (before, after) = (&task.progress, change.progress());
    let is_grant = matches!(change, Change::LeaseGranted { .. });
    assert!(after.epoch == before.epoch + u32::from(is_grant), "each grant has the next epoch");
    assert!(after.epoch >= after.attempt, "an attempt is counted at a grant");
    let is_settled = matches!(after.state, TaskState::Settled(_));
    let is_end = matches!(change, Change::TaskSettled { .. });
    assert!(is_settled == is_end, "a task settles by one fact");
    match change {
        Change::LeaseGranted { .. } => {
            assert!(matches!(before.state, TaskState::Ready), "only a ready task is granted");
            let TaskState::Leased(lease) = &after.state else { panic!("a grant makes a lease") };
            assert!(after.attempt == before.attempt + 1, "a grant is an attempt");
            assert!(lease.expires_at >= lease.granted_at, "a lease has time");
            let ends_at = lease.attempt_ends_at.unwrap_or(Timestamp::MAX);
            assert!(lease.expires_at <= ends_at, "a lease ends with its attempt");
        }
        Change::AttemptEnded { attempt, .. } => check_ended(task, attempt),
        Change::TaskReleased { .. } => {
            let is_blocked =
                matches!(before.state, TaskState::Waiting { why: WaitReason::After, .. });
            assert!(is_blocked, "only a task that waits for others is released");
        }
        Change::TaskSettled { attempt, .. } => {
            if let Some(attempt) = attempt {
                check_ended(task, attempt);
            }
        }
        Change::LossForgiven { .. } => {
            assert!(after.losses <= before.losses, "forgiveness adds no loss");
        }
        Change::TaskSubmitted(_) | Change::TaskRequeued(_) => panic!("the task is new"),
    }
}

/// An attempt that ends is the one that a lease gave to its worker.
fn check_ended(task: &Task, attempt: &EndedAttempt) {
    let TaskState::Leased(lease) = &task.progress.state else { panic!("only a lease ends") };
    assert!(attempt.epoch == task.progress.epoch, "the newest lease ends");
    assert!(attempt.worker == lease.holder, "an attempt ends for its holder");
}
