//! Why a task does not run: counts and names, never a shrug.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use model::{
    ConcurrencyKey, Demand, QueueName, RunId, StateWord, TaskId, Timestamp, TypeName, WorkerHealth,
    WorkerId,
};

use super::record::Task;
use crate::change::{TaskState, WaitReason};
use crate::coordinator::Decision;
use crate::effect::Answer;
use crate::placement::{LaneKey, Placement};
use crate::run::signal::wanted_event;
use crate::worker::binding;
use crate::worker::pin;

/// Tasks that a blocked task names; the others are only counted.
const BLOCKERS_NAMED: usize = 5;

/// What keeps a live task where it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Where it stands.
    pub state: StateWord,
    /// Since when it exists.
    pub created_at: Timestamp,
    /// Attempts so far.
    pub attempt: u32,
    /// The reasons, most telling first; a running task says who runs it.
    pub reasons: Vec<Reason>,
}

/// One reason.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// Its queue is paused.
    Paused {
        /// Which queue.
        queue: QueueName,
        /// Who paused it.
        by: String,
        /// Since when.
        since: Timestamp,
    },
    /// A worker holds it.
    HeldBy {
        /// Who.
        worker: WorkerId,
        /// Until when, unless a heartbeat comes.
        expires_at: Timestamp,
    },
    /// Its submitter chose a later moment.
    NotBefore {
        /// The moment.
        until: Timestamp,
    },
    /// Nothing but time is to pass.
    Delayed {
        /// Until then.
        until: Timestamp,
    },
    /// Someone must say a word: an event, or an approval.
    NeedsSignal {
        /// It fails then.
        until: Timestamp,
        /// The event's name; `None` is an approval.
        event: Option<String>,
    },
    /// Other tasks must complete first.
    BlockedBy {
        /// Some of them, oldest first.
        tasks: Vec<TaskId>,
        /// How many there are.
        total: u64,
    },
    /// The last attempt failed; the next is due later.
    Backoff {
        /// When.
        until: Timestamp,
        /// How often it was tried.
        attempt: u32,
        /// How often it may be tried.
        max_attempts: u32,
    },
    /// Another task with the same concurrency key goes first.
    KeyHeld {
        /// The key.
        key: ConcurrencyKey,
        /// Which task has it.
        by: TaskId,
    },
    /// It belongs to a worker that is lost, or was never heard of.
    PinnedAway {
        /// Which one.
        worker: WorkerId,
        /// Why it belongs there, for people.
        because: String,
        /// It fails then.
        until: Option<Timestamp>,
    },
    /// It belongs to a worker that is there, and takes nothing right now.
    PinnedBusy {
        /// Which one.
        worker: WorkerId,
        /// Why it belongs there, for people.
        because: String,
        /// It fails then.
        until: Option<Timestamp>,
    },
    /// No worker was heard of at all.
    NoWorkers,
    /// So many workers lack something that the task demands.
    Lacking {
        /// What they lack.
        what: Lack,
        /// How many workers.
        workers: u64,
    },
    /// So many workers could take it, but are taken for lost.
    Lost {
        /// How many.
        workers: u64,
    },
    /// So many workers could take it, but are drained.
    Drained {
        /// How many.
        workers: u64,
    },
    /// So many workers could take it, but a person keeps its run from them.
    KeptAway {
        /// The run.
        run: RunId,
        /// What the work is called: its package, or its type.
        package: String,
        /// How many.
        workers: u64,
    },
    /// So many workers could take it, and none of them asks for work right now.
    NoneAsking {
        /// How many.
        workers: u64,
    },
    /// Other tasks go first.
    Behind {
        /// How many in its queue with the same demand.
        tasks: u64,
    },
}

/// What a worker lacks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lack {
    /// It does not execute the type.
    Type,
    /// It does not serve the queue.
    Queue,
    /// It has not this tool.
    Tool(String),
    /// It has not this tag, or with another value.
    Tag(String),
    /// It has not this package, or another version.
    Package(String),
}

impl Lack {
    /// The first thing of `demand` that `offer` does not cover.
    pub(crate) fn first(offer: &model::Offer, demand: &Demand) -> Option<Self> {
        let missing =
            demand.package.as_ref().filter(|package| offer.package_for(package).is_none());
        let package = || missing.map(|p| Self::Package(format!("{}@{}", p.name, p.version)));
        if offer.types.as_ref().is_some_and(|types| !types.contains(&demand.task_type)) {
            // A worker without the package does not execute the type either; the package says why.
            return package().or(Some(Self::Type));
        }
        if offer.queues.as_ref().is_some_and(|queues| !queues.contains(&demand.queue)) {
            return Some(Self::Queue);
        }
        if let Some(tool) =
            demand.tools.difference(&offer.tools).next().filter(|_| !offer.all_tools)
        {
            return Some(Self::Tool(tool.to_string()));
        }
        let missing_tag =
            demand.tags.iter().find(|(key, value)| offer.tags.get(*key) != Some(value));
        if let Some((key, value)) = missing_tag {
            return Some(Self::Tag(format!("{key}={value}")));
        }
        package()
    }
}

impl Decision<'_> {
    pub(crate) fn on_explain(&self, id: TaskId) -> Answer {
        let Some(task) = self.state.tasks.get(id) else { return Answer::NotLive };
        Answer::Explained(Box::new(Explanation {
            state: task.progress.state.word(),
            created_at: task.created_at,
            attempt: task.progress.attempt,
            reasons: self.reasons(task),
        }))
    }

    fn reasons(&self, task: &Task) -> Vec<Reason> {
        if let TaskState::Leased(lease) = &task.progress.state {
            let (worker, expires_at) = (lease.holder.clone(), lease.expires_at);
            return vec![Reason::HeldBy { worker, expires_at }];
        }
        // A pause comes first: whatever else holds the task, nothing happens before it ends.
        let mut reasons: Vec<Reason> = self.reason_of_pause(task).into_iter().collect();
        match &task.progress.state {
            TaskState::Waiting { until, why: WaitReason::Scheduled } => {
                reasons.push(Reason::NotBefore { until: *until });
            }
            TaskState::Waiting { until, why: WaitReason::Delay } => {
                reasons.push(Reason::Delayed { until: *until });
            }
            TaskState::Waiting { until, why: WaitReason::Signal } => {
                let event = wanted_event(&task.parameters);
                reasons.push(Reason::NeedsSignal { until: *until, event });
            }
            TaskState::Waiting { until, why: WaitReason::Backoff } => {
                reasons.push(Reason::Backoff {
                    until: *until,
                    attempt: task.progress.attempt,
                    max_attempts: self.state.placement.spec(task.spec).retry.max_attempts,
                });
            }
            TaskState::Waiting { until, why: WaitReason::After } => {
                reasons.extend(self.reasons_of_after(task, *until));
            }
            TaskState::Ready => reasons.extend(self.reasons_of_ready(task)),
            TaskState::Leased(_) | TaskState::Settled(_) => {}
        }
        reasons
    }

    fn reasons_of_after(&self, task: &Task, until: Timestamp) -> Vec<Reason> {
        let mut reasons = Vec::new();
        let total = task.unmet() as u64;
        if total > 0 {
            let tasks = self.state.live_dependencies(task).take(BLOCKERS_NAMED).collect();
            reasons.push(Reason::BlockedBy { tasks, total });
        }
        if until > self.now() || total == 0 {
            reasons.push(Reason::NotBefore { until });
        }
        reasons
    }

    fn reason_of_pause(&self, task: &Task) -> Option<Reason> {
        let queue = &self.state.placement.spec(task.spec).demand.queue;
        let pause = self.state.placement.pause(queue)?;
        Some(Reason::Paused { queue: queue.clone(), by: pause.by.clone(), since: pause.at })
    }

    fn reasons_of_ready(&self, task: &Task) -> Vec<Reason> {
        if let Some(key) = task.concurrency_key()
            && let Some(by) = self.state.keys.get(key).and_then(|slot| slot.front)
            && by != task.id
        {
            return vec![Reason::KeyHeld { key: key.clone(), by }];
        }
        let lane = self.state.lane_of(task);
        let mut reasons = match &lane {
            Some(LaneKey::Worker(worker)) => self.reasons_of_pin(task, worker),
            Some(LaneKey::Run(_)) | None => self.reasons_of_workers(task),
        };
        let ahead = self.state.placement.tasks_ahead(task.spec, task.id, lane.as_ref());
        if ahead > 0 {
            reasons.push(Reason::Behind { tasks: ahead as u64 });
        }
        reasons
    }

    /// Why the one worker that may have it does not.
    fn reasons_of_pin(&self, task: &Task, worker: &WorkerId) -> Vec<Reason> {
        let (worker, until) = (worker.clone(), pin::until(task));
        let because = pin::why(task);
        if self.state.workers.is_away(&worker, self.now()) {
            return vec![Reason::PinnedAway { worker, because, until }];
        }
        let demand = &self.state.placement.spec(task.spec).demand;
        let offer = self.state.workers.offer(&worker);
        let offer = offer.map(|offer| self.state.placement.offer(offer));
        let mut reasons = Vec::new();
        if let Some(what) = offer.and_then(|offer| Lack::first(offer, demand)) {
            reasons.push(Reason::Lacking { what, workers: 1 });
        }
        if self.state.drains.is_drained(&worker) {
            reasons.push(Reason::Drained { workers: 1 });
        }
        reasons.push(Reason::PinnedBusy { worker, because, until });
        reasons
    }

    fn reasons_of_workers(&self, task: &Task) -> Vec<Reason> {
        let demand = &self.state.placement.spec(task.spec).demand;
        let mut lacking: BTreeMap<Lack, u64> = BTreeMap::new();
        let kept_from = task.link().and_then(|link| self.state.placement.run_kept_from(link.run));
        let (mut lost, mut drained, mut kept_away, mut able, mut asking) = (0, 0, 0, 0, 0);
        for (worker, health, offer, is_asking) in self.state.workers.offers() {
            let offer = offer.map(|offer| self.state.placement.offer(offer));
            let lack = offer.and_then(|offer| Lack::first(offer, demand));
            match (lack, health) {
                (Some(lack), _) => *lacking.entry(lack).or_default() += 1,
                (None, WorkerHealth::Lost) => lost += 1,
                (None, _) if self.state.drains.is_drained(worker) => drained += 1,
                (None, _) if kept_from.is_some_and(|kept| kept.contains(worker)) => kept_away += 1,
                (None, WorkerHealth::Healthy | WorkerHealth::Warn | WorkerHealth::Degraded) => {
                    able += 1;
                    asking += u64::from(is_asking);
                }
            }
        }
        let mut reasons = Vec::new();
        if self.state.workers.len() == 0 {
            reasons.push(Reason::NoWorkers);
        }
        if able > 0 && asking == 0 {
            reasons.push(Reason::NoneAsking { workers: able });
        }
        let lack = |(what, workers)| Reason::Lacking { what, workers };
        reasons.extend(lacking.into_iter().map(lack));
        if drained > 0 {
            reasons.push(Reason::Drained { workers: drained });
        }
        if let Some(link) = task.link().filter(|_| kept_away > 0) {
            let package = binding::name_of(demand).to_owned();
            reasons.push(Reason::KeptAway { run: link.run, package, workers: kept_away });
        }
        if lost > 0 {
            reasons.push(Reason::Lost { workers: lost });
        }
        reasons
    }
}

/// Limit: how far one look at the ready tasks reaches.
pub const PEEK_MAX: usize = 10_000;

/// Which ready tasks are asked for.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// Empty means all.
    pub(crate) queues: BTreeSet<QueueName>,
    pub(crate) types: Option<BTreeSet<TypeName>>,
}

impl Wanted {
    fn has(&self, demand: &Demand) -> bool {
        (self.queues.is_empty() || self.queues.contains(&demand.queue))
            && self.types.as_ref().is_none_or(|types| types.contains(&demand.task_type))
    }
}

impl Decision<'_> {
    pub(crate) fn on_peek(&self, wanted: &Wanted, skip: u32, limit: u32) -> Answer {
        let (skip, limit) = (skip as usize, limit as usize);
        let reach = skip.saturating_add(limit).min(PEEK_MAX);
        let (mut tasks, total) = self.state.placement.peek(wanted, reach);
        tasks.drain(..skip.min(tasks.len()));
        Answer::Peeked { tasks, total }
    }
}

impl Placement {
    /// The first `reach` of the wanted tasks that no worker holds and no key holds back, in the
    /// order in which they would be granted, and how many there are in all. Those of a paused
    /// queue count: they are granted when it goes on.
    ///
    /// Each kind of demand has its tasks in order, so this merges as many lists as there are kinds.
    fn peek(&self, wanted: &Wanted, reach: usize) -> (Vec<TaskId>, u64) {
        let mut total = 0;
        let mut lists = Vec::new();
        for (demand, n_ready, list) in self.ready_lists() {
            if n_ready > 0 && wanted.has(demand) {
                total += n_ready;
                lists.push(list);
            }
        }
        let mut heads: BinaryHeap<_> = lists
            .iter_mut()
            .enumerate()
            .filter_map(|(number, list)| Some(Reverse((list.next()?, number))))
            .collect();
        let mut tasks = Vec::with_capacity(reach.min(usize::try_from(total).unwrap_or(reach)));
        while tasks.len() < reach
            && let Some(Reverse(((_, task), number))) = heads.pop()
        {
            tasks.push(task);
            heads.extend(lists[number].next().map(|next| Reverse((next, number))));
        }
        (tasks, total)
    }
}
