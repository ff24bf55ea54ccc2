//! The tables and their indexes.
//!
//! Hard state is what the store keeps: the tasks, changed only by `apply`. Soft state is what a
//! restart may forget: who asks, who watches, when a worker was last heard of, and by how much a
//! heartbeat extended a lease.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use model::{ConcurrencyKey, IdempotencyKey, QueueName, ShardId, TaskId, Timestamp, WorkerId};

use crate::change::{Lease, TaskRecord, TaskState};
use crate::command::Ticket;
use crate::placement::{Placement, ReadyRank};
use crate::run::run_state::Runs;
use crate::schedule::Schedules;
use crate::task::load::{Loads, Watches};
use crate::task::record::Task;
use crate::worker::affinity::Affinities;
use crate::worker::binding::Bindings;
use crate::worker::drain::{Drains, VerifiedTools};
use crate::worker::pin::check_pin;
use crate::worker::presence::Workers;

/// All that a coordinator knows.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) shard: ShardId,
    pub(crate) next_number: u64,
    /// The moment of the call that is carried out.
    pub(crate) now: Timestamp,
    pub(crate) tasks: TaskTable,
    pub(crate) placement: Placement,
    pub(crate) keys: BTreeMap<ConcurrencyKey, KeySlot>,
    pub(crate) idempotency: BTreeMap<IdempotencyKey, TaskId>,
    /// Who waits for a live task; tasks that nobody waits for have no entry.
    pub(crate) dependents: BTreeMap<TaskId, BTreeSet<TaskId>>,
    pub(crate) queues: BTreeMap<QueueName, QueueCounts>,
    /// Ready tasks that would rather go to one worker than to another.
    pub(crate) choosy_ready: u64,
    /// Bytes that live tasks take: their parameters, and what they wait for.
    pub(crate) live_bytes: usize,
    pub(crate) deadlines: Deadlines,
    pub(crate) workers: Workers,
    pub(crate) drains: Drains,
    pub(crate) verified: VerifiedTools,
    pub(crate) schedules: Schedules,
    pub(crate) affinities: Affinities,
    pub(crate) bindings: Bindings,
    pub(crate) watches: Watches<TaskId>,
    pub(crate) runs: Runs,
    pub(crate) loads: Loads,
}

/// One concurrency key: the task that may run, and those that stand behind it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct KeySlot {
    /// Ready or leased; the only task with this key that placement can see.
    pub(crate) front: Option<TaskId>,
    /// Ready, but hidden from placement.
    pub(crate) parked: BTreeSet<ReadyRank>,
}

/// How many tasks of a queue are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueCounts {
    pub(crate) scheduled: u64,
    pub(crate) blocked: u64,
    pub(crate) backoff: u64,
    pub(crate) ready: u64,
    pub(crate) leased: u64,
}

impl QueueCounts {
    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

impl State {
    pub(crate) fn new(shard: ShardId, next_number: u64) -> Self {
        Self {
            shard,
            next_number,
            now: Timestamp::default(),
            tasks: TaskTable::default(),
            placement: Placement::default(),
            keys: BTreeMap::new(),
            idempotency: BTreeMap::new(),
            dependents: BTreeMap::new(),
            queues: BTreeMap::new(),
            choosy_ready: 0,
            live_bytes: 0,
            deadlines: Deadlines::default(),
            workers: Workers::default(),
            drains: Drains::default(),
            verified: VerifiedTools::new(),
            schedules: Schedules::default(),
            affinities: Affinities::default(),
            bindings: Bindings::default(),
            watches: Watches::default(),
            runs: Runs::default(),
            loads: Loads::default(),
        }
    }

    /// Whether the store could know a task that memory does not: its number was given out here.
    pub(crate) fn could_be_settled(&self, task: TaskId) -> bool {
        task.shard() == self.shard
            && task.number() < self.next_number
            && self.tasks.get(task).is_none()
    }

    pub(crate) fn rank(&self, task: &Task) -> ReadyRank {
        (Reverse(self.placement.spec(task.spec).priority), task.id)
    }

    /// The whole of a live task, as the store would give it back.
    pub(crate) fn record(&self, task: &Task) -> TaskRecord {
        TaskRecord {
            id: task.id,
            spec: self.placement.spec(task.spec).clone(),
            parameters: task.parameters.clone(),
            created_at: task.created_at,
            concurrency_key: task.concurrency_key().cloned(),
            idempotency: task.idempotency().cloned(),
            run: task.run().cloned(),
            after: task.after().to_vec(),
            link: task.link().cloned(),
            facts: task.facts(),
            pin: task.pin().cloned().map(Box::new),
            progress: task.progress.clone(),
            ended_attempts: task.ended_attempts().to_vec(),
        }
    }

    /// Checks that every index says what the tasks say. Costs a walk over everything: tests and
    /// the simulation call it after each step.
    ///
    /// # Panics
    /// When an index lies.
    pub(crate) fn check_invariants(&self) {
        let mut expected = State::new(self.shard, self.next_number);
        let mut deadlines = 0;
        for task in self.tasks.iter() {
            assert!(task.id.shard() == self.shard && task.id.number() < self.next_number);
            assert!(task.progress.epoch >= task.progress.attempt, "{task:?}");
            self.check_task(task);
            deadlines += usize::from(task.deadline.is_some());
            let record = self.record(task);
            expected.insert_record(&record);
        }
        self.placement.check_invariants();
        assert_eq!(self.keys, expected.keys, "concurrency keys");
        assert_eq!(self.idempotency, expected.idempotency, "idempotency keys");
        assert_eq!(self.dependents, expected.dependents, "who waits for whom");
        assert_eq!(self.queues, expected.queues, "queue counts");
        assert_eq!(self.live_bytes, expected.live_bytes, "live bytes");
        assert_eq!(self.placement.ready_len(), expected.placement.ready_len(), "ready tasks");
        self.check_drains();
        assert!(self.verified.values().all(|tools| !tools.is_empty()), "verified tools");
        self.check_runs();
        self.schedules.check_invariants();
        self.check_affinities();
        self.check_bindings();
        assert_eq!(self.choosy_ready, self.count_choosy(), "choosy tasks");
        assert_eq!(self.workers.asking_len(), self.placement.waiting_len(), "who asks");
        assert_eq!(self.workers.held_len(), expected.workers.held_len(), "leases held");
        deadlines += self.placement.waiting_len() + self.watches.len() + self.workers.len();
        deadlines += self.runs.watches.len() + self.runs.callers.with_deadline();
        assert_eq!(self.deadlines.len(), deadlines, "deadlines");
    }

    fn check_task(&self, task: &Task) {
        let lane = self.lane_of(task);
        let is_ready = self.placement.is_ready(task.spec, task.id, lane.as_ref());
        match &task.progress.state {
            TaskState::Waiting { until, .. } => {
                let is_blocked = self.live_dependencies(task).next().is_some();
                assert_eq!(task.deadline, (!is_blocked).then_some(*until), "{task:?}");
                assert_eq!(task.unmet(), self.live_dependencies(task).count(), "{task:?}");
            }
            TaskState::Ready => {
                assert_eq!(is_ready, self.is_visible(task), "ready and visible: {task:?}");
                check_pin(task, is_ready);
            }
            TaskState::Leased(lease) => {
                assert!(!is_ready, "leased and ready: {task:?}");
                let at = task.deadline.expect("a lease ends");
                assert!(at <= lease_deadline(lease), "a deadline may be early, never late");
                assert!(self.deadlines.contains(at, Deadline::Task(task.id)));
                assert!(self.workers.holds(&lease.holder, task.id));
            }
            TaskState::Settled(_) => panic!("a settled task left memory: {task:?}"),
        }
    }
}

/// The moment at which a lease must be looked at.
pub(crate) fn lease_deadline(lease: &Lease) -> Timestamp {
    lease.confirm_by.map_or(lease.expires_at, |confirm_by| confirm_by.min(lease.expires_at))
}

const PAGE_BITS: u32 = 6;
const PAGE_SLOTS: usize = 1 << PAGE_BITS;

/// An ordered map from task ids to live tasks.
#[derive(Debug, Default)]
pub(crate) struct TaskTable {
    pages: BTreeMap<u64, Page>,
    len: usize,
}

#[derive(Debug)]
struct Page {
    slots: Box<[Option<Task>]>,
    used: usize,
}

impl Page {
    fn new() -> Self {
        Self { slots: std::iter::repeat_with(|| None).take(PAGE_SLOTS).collect(), used: 0 }
    }
}

fn place(task: TaskId) -> (u64, usize) {
    let number = task.number();
    let slot = usize::try_from(number).expect("40 bits") % PAGE_SLOTS;
    (number >> PAGE_BITS, slot)
}

impl TaskTable {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, task: TaskId) -> Option<&Task> {
        let (page, slot) = place(task);
        let found = self.pages.get(&page)?.slots[slot].as_ref();
        found.filter(|found| found.id == task) // Another shard's task may have the same number.
    }

    pub(crate) fn get_mut(&mut self, task: TaskId) -> Option<&mut Task> {
        let (page, slot) = place(task);
        let found = self.pages.get_mut(&page)?.slots[slot].as_mut();
        found.filter(|found| found.id == task)
    }

    /// A task is inserted once: a second one under the same id is a bug.
    pub(crate) fn insert(&mut self, id: TaskId, task: Task) {
        let (page, slot) = place(id);
        let page = self.pages.entry(page).or_insert_with(Page::new);
        let before = page.slots[slot].replace(task);
        assert!(before.is_none(), "task {id} is already live");
        page.used += 1;
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, id: TaskId) -> Option<Task> {
        let (number, slot) = place(id);
        let page = self.pages.get_mut(&number)?;
        let task = page.slots[slot].take()?;
        page.used -= 1;
        self.len -= 1;
        if page.used == 0 {
            self.pages.remove(&number);
        }
        Some(task)
    }

    /// Every live task, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Task> {
        self.pages.values().flat_map(|page| page.slots.iter().flatten())
    }
}

/// What is due.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Deadline {
    /// A waiting task may start, a leased task's lease ends, or a ready one has waited long enough
    /// for its worker; its state says which.
    Task(TaskId),
    /// A worker's request for leases has waited long enough.
    Request(Ticket),
    /// Someone has watched a task or a run long enough.
    Watch(Ticket),
    /// A middleware has waited for the next in line long enough.
    Call(Ticket),
    /// A worker was silent for another heartbeat.
    Worker(WorkerId),
}

/// Everything that is due, earliest first. Each subject stands in it at most once.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Deadlines {
    table: BTreeSet<(Timestamp, Deadline)>,
}

impl Deadlines {
    pub(crate) fn first(&self) -> Option<Timestamp> {
        self.table.first().map(|(at, _)| *at)
    }

    pub(crate) fn insert(&mut self, at: Timestamp, deadline: Deadline) {
        let is_new = self.table.insert((at, deadline));
        assert!(is_new, "a deadline is set once");
    }

    pub(crate) fn remove(&mut self, at: Timestamp, deadline: Deadline) {
        let was_set = self.table.remove(&(at, deadline));
        assert!(was_set, "a deadline is removed as it was set");
    }

    /// Takes the earliest one that is due at `now`.
    pub(crate) fn pop_due(&mut self, now: Timestamp) -> Option<(Timestamp, Deadline)> {
        if self.first()? > now {
            return None;
        }
        self.table.pop_first()
    }

    pub(crate) fn contains(&self, at: Timestamp, deadline: Deadline) -> bool {
        self.table.contains(&(at, deadline))
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }
}
