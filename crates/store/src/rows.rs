//! Folds the changes of many turns into row writes, for every store that speaks SQL.
//!
//! Each change carries the whole mutable part of its task, so the last one wins: all changes of a
//! transaction to one task become one write. A task that is submitted, leased and settled within
//! one transaction is a single insert.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use coordinator::{
    Change, EndedAttempt, Progress, RunChange, TaskFacts, TaskRecord, TaskState, TenantChange,
};
use model::{LeaseId, RunId, ShardId, TaskId};
use shard::{Document, Turn};

/// A change that cannot follow from what the store holds: an error in the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    /// The change is about another shard's task.
    #[error("task {0} belongs to another shard")]
    ForeignTask(TaskId),
    /// A task was submitted twice.
    #[error("task {0} exists")]
    TaskExists(TaskId),
    /// An idempotency key was given to a second task.
    #[error("the idempotency key of task {0} belongs to another task")]
    KeyTaken(TaskId),
    /// The task does not stand where the change starts, or its epoch would fall.
    #[error("task {0} is not in a state that this could follow")]
    OutOfOrder(TaskId),
    /// An attempt ended twice.
    #[error("an attempt of task {0} ended twice")]
    AttemptEndedTwice(TaskId),
    /// The change is about another shard's run.
    #[error("run {0} belongs to another shard")]
    ForeignRun(RunId),
    /// A run was started twice.
    #[error("run {0} exists")]
    RunExists(RunId),
    /// An idempotency key was given to a second run.
    #[error("the idempotency key of run {0} belongs to another run")]
    RunKeyTaken(RunId),
    /// There is no such run, or it has ended.
    #[error("run {0} is not live")]
    RunNotLive(RunId),
    /// A frame was opened twice.
    #[error("frame {1} of run {0} exists")]
    FrameExists(RunId, u32),
    /// There is no such frame, or it was closed.
    #[error("frame {1} of run {0} is not open")]
    FrameNotOpen(RunId, u32),
    /// A node ended twice.
    #[error("node {2} in frame {1} of run {0} ended twice")]
    NodeEndedTwice(RunId, u32, u32),
    /// A list began twice.
    #[error("the list of node {2} in frame {1} of run {0} began twice")]
    ListBegunTwice(RunId, u32, u32),
    /// An element ended twice.
    #[error("an element of node {2} in frame {1} of run {0} ended twice")]
    ItemEndedTwice(RunId, u32, u32),
    /// A call ended twice.
    #[error("a call of {1} in run {0} ended twice")]
    CallEndedTwice(RunId, LeaseId),
    /// A fact about a run has no number, or a number is given to what the store does not hold.
    #[error("a fact of run {0} is not numbered")]
    Unnumbered(RunId),
}

/// What one transaction writes.
#[derive(Debug, Default)]
pub(crate) struct Batch<'a> {
    /// One write per task, in the order in which the tasks were first touched.
    pub tasks: Vec<TaskWrite<'a>>,
    /// Attempts for the history, oldest first.
    pub ended: Vec<EndedWrite<'a>>,
    /// Facts about runs, in order; each is a row of its own.
    pub runs: Vec<&'a RunChange>,
    /// Facts about tenants, in order, each with its shard.
    pub tenants: Vec<(ShardId, &'a TenantChange)>,
    /// Documents, in order, each with its shard.
    pub documents: Vec<(ShardId, &'a Document)>,
    slots: HashMap<TaskId, usize, foldhash::fast::RandomState>,
}

/// The one write to a task's row.
#[derive(Debug)]
pub(crate) struct TaskWrite<'a> {
    pub task: TaskId,
    pub kind: WriteKind<'a>,
    /// Where the task stands after the transaction.
    pub progress: &'a Progress,
    /// The numbers of the facts of the transaction, where the task belongs to a run.
    pub facts: TaskFacts,
}

#[derive(Debug)]
pub(crate) enum WriteKind<'a> {
    /// The task is new.
    Insert(&'a TaskRecord),
    /// The task has a row.
    Update {
        /// Whether the row is a settled one: the first change must be a requeue.
        was_settled: bool,
    },
}

/// An attempt for the history.
#[derive(Debug)]
pub(crate) struct EndedWrite<'a> {
    pub task: TaskId,
    pub attempt: &'a EndedAttempt,
    /// A requeue lists the attempts that the store has, and perhaps the one that settled the task.
    pub may_exist: bool,
}

impl<'a> Batch<'a> {
    /// Folds turns, in order.
    pub(crate) fn fold(turns: impl Iterator<Item = &'a Turn>) -> Result<Self, Contradiction> {
        let mut batch = Self::default();
        for turn in turns {
            batch.slots.reserve(turn.changes.len());
            batch.tasks.reserve(turn.changes.len());
            for change in &turn.changes {
                let task = change.task();
                if task.shard() != turn.claim.shard {
                    return Err(Contradiction::ForeignTask(task));
                }
                batch.add(task, change)?;
            }
            check_runs_are_own(turn)?;
            batch.runs.extend(&turn.runs);
            let shard = turn.claim.shard;
            batch.tenants.extend(turn.tenant.iter().map(|change| (shard, change)));
            batch.documents.extend(turn.documents.iter().map(|document| (shard, document)));
        }
        Ok(batch)
    }

    fn add(&mut self, task: TaskId, change: &'a Change) -> Result<(), Contradiction> {
        let next_slot = self.tasks.len();
        match self.slots.entry(task) {
            Entry::Vacant(slot) => {
                slot.insert(next_slot);
                self.tasks.push(TaskWrite::first(task, change));
            }
            Entry::Occupied(slot) => self.tasks[*slot.get()].follow(change)?,
        }
        if let Change::TaskSubmitted(record) | Change::TaskRequeued(record) = change {
            self.ended.extend(record.ended_attempts.iter().map(|attempt| EndedWrite {
                task,
                attempt,
                may_exist: true,
            }));
        }
        if let Some(attempt) = change.ended_attempt() {
            self.ended.push(EndedWrite { task, attempt, may_exist: false });
        }
        Ok(())
    }
}

impl<'a> TaskWrite<'a> {
    fn first(task: TaskId, change: &'a Change) -> Self {
        let kind = match change {
            Change::TaskSubmitted(record) => WriteKind::Insert(record),
            Change::TaskRequeued(_) => WriteKind::Update { was_settled: true },
            Change::LeaseGranted { .. }
            | Change::AttemptEnded { .. }
            | Change::LossForgiven { .. }
            | Change::TaskReleased { .. }
            | Change::TaskSettled { .. } => WriteKind::Update { was_settled: false },
        };
        let mut facts = TaskFacts::default();
        add_facts(&mut facts, change);
        Self { task, kind, progress: change.progress(), facts }
    }

    fn follow(&mut self, change: &'a Change) -> Result<(), Contradiction> {
        check_order(Some(self.progress), change)?;
        self.progress = change.progress();
        add_facts(&mut self.facts, change);
        Ok(())
    }
}

/// Adds the numbers that a change gives to facts of its task.
pub fn add_facts(facts: &mut TaskFacts, change: &Change) {
    match change {
        Change::TaskSubmitted(record) => *facts = record.facts,
        Change::LeaseGranted { fact, .. } => facts.granted = fact.or(facts.granted),
        Change::TaskSettled { fact, .. } => facts.settled = *fact,
        Change::TaskRequeued(_) => facts.settled = None,
        _ => {}
    }
}

/// Whether all facts about runs are about runs of the turn's own shard.
pub fn check_runs_are_own(turn: &Turn) -> Result<(), Contradiction> {
    let foreign = turn.runs.iter().map(RunChange::run).find(|run| run.shard() != turn.claim.shard);
    foreign.map_or(Ok(()), |run| Err(Contradiction::ForeignRun(run)))
}

/// Whether `change` may follow when the task stands at `before`; `None` when there is no task.
pub fn check_order(before: Option<&Progress>, change: &Change) -> Result<(), Contradiction> {
    let task = change.task();
    let Some(before) = before else {
        let is_new = matches!(change, Change::TaskSubmitted(_));
        return if is_new { Ok(()) } else { Err(Contradiction::OutOfOrder(task)) };
    };
    if matches!(change, Change::TaskSubmitted(_)) {
        return Err(Contradiction::TaskExists(task));
    }
    let starts_settled = matches!(change, Change::TaskRequeued(_));
    let stands_settled = matches!(before.state, TaskState::Settled(_));
    if starts_settled != stands_settled || change.progress().epoch < before.epoch {
        return Err(Contradiction::OutOfOrder(task));
    }
    Ok(())
}
