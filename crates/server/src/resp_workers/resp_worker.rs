//! One worker that speaks the Redis protocol, and the jobs that it holds.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use foldhash::fast::RandomState;
use model::{LeaseId, Offer, TaskId, Timestamp};
use shard::sessions::{DEAD_AFTER, Registration};

/// How often a worker should be heard of.
pub(crate) const HEARTBEAT_EVERY: Duration = Duration::from_secs(30);
/// How long its last numbers are shown (seed 004 section 3.4).
pub(crate) const STATS_SHOWN_FOR: Duration = Duration::from_mins(2);
/// Jobs of one worker whose leases are remembered here; those beyond are looked up in the store.
pub(crate) const HELD_REMEMBERED_MAX: usize = 100_000;

/// What a worker said that it can do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Abilities {
    pub(crate) offer: Offer,
    /// Jobs at the same time.
    pub(crate) slots: Option<u32>,
    /// Whether it understands `quiet` and `terminate`.
    pub(crate) wants_signals: bool,
}

/// A job that a worker was given.
#[derive(Clone, Debug)]
pub(crate) struct HeldJob {
    pub(crate) lease: LeaseId,
    pub(crate) attempt: u32,
    /// How often the worker may fail at it.
    pub(crate) retries: u32,
    /// What `SET job:<id>:stdout` and `:stderr` said so far.
    pub(crate) outputs: BTreeMap<&'static str, Bytes>,
}

/// What the door remembers of one worker.
#[derive(Debug, Default)]
pub(crate) struct RespWorker {
    pub(crate) registration: Option<Arc<Registration>>,
    pub(crate) abilities: Abilities,
    pub(crate) last_seen: Timestamp,
    /// How many connections are bound to it.
    pub(crate) connections: usize,
    pub(crate) stats: Option<(Bytes, Timestamp)>,
    /// What `SET worker:<id>:tools` and `:tags` said.
    pub(crate) texts: BTreeMap<&'static str, Bytes>,
    held: HashMap<TaskId, HeldJob, RandomState>,
    names: HashMap<String, TaskId, RandomState>,
    order: VecDeque<(TaskId, Option<String>)>,
}

impl RespWorker {
    /// A worker that registered before the shard was restored.
    pub(crate) fn registered(registration: Arc<Registration>, abilities: Abilities) -> Self {
        Self { registration: Some(registration), abilities, ..Self::default() }
    }

    pub(crate) fn is_alive(&self, now: Timestamp) -> bool {
        now.since(self.last_seen) < DEAD_AFTER
    }

    /// When it was there for certain: after a restart its registration is all that is known.
    pub(crate) fn last_known(&self) -> Timestamp {
        let registered = self.registration.as_ref().map_or(0, |own| own.registered_ms);
        self.last_seen.max(Timestamp::from_millis(registered))
    }

    /// Seconds until silence makes it dead.
    pub(crate) fn alive_for(&self, now: Timestamp) -> Option<Duration> {
        DEAD_AFTER.checked_sub(now.since(self.last_seen)).filter(|left| !left.is_zero())
    }

    pub(crate) fn stats(&self, now: Timestamp) -> Option<(Bytes, Duration)> {
        let (stats, at) = self.stats.as_ref()?;
        let left = STATS_SHOWN_FOR.checked_sub(now.since(*at)).filter(|left| !left.is_zero())?;
        Some((stats.clone(), left))
    }

    /// The worker was given a job.
    pub(crate) fn hold(&mut self, job: HeldJob, name: Option<&str>) {
        let task = job.lease.task;
        if let Some(name) = name {
            self.names.insert(name.to_owned(), task);
        }
        if self.held.insert(task, job).is_none() {
            self.order.push_back((task, name.map(str::to_owned)));
        }
        while self.order.len() > HELD_REMEMBERED_MAX {
            if let Some((oldest, _)) = self.order.front() {
                let oldest = *oldest;
                self.let_go(oldest);
                self.compact();
            }
        }
    }

    /// The job is no longer the worker's.
    pub(crate) fn let_go(&mut self, task: TaskId) -> Option<HeldJob> {
        let job = self.held.remove(&task);
        if self.order.len() > 2 * self.held.len() + 64 {
            self.compact();
        }
        job
    }

    /// Forgets the places of jobs that are gone.
    fn compact(&mut self) {
        let Self { held, names, order, .. } = self;
        order.retain(|(task, name)| {
            let stays = held.contains_key(task);
            if let Some(name) = name
                && !stays
                && names.get(name) == Some(task)
            {
                names.remove(name);
            }
            stays
        });
    }

    pub(crate) fn held_mut(&mut self, job: &str) -> Option<&mut HeldJob> {
        let task = self.task_named(job)?;
        self.held.get_mut(&task)
    }

    pub(crate) fn held(&self, job: &str) -> Option<&HeldJob> {
        self.held.get(&self.task_named(job)?)
    }

    fn task_named(&self, job: &str) -> Option<TaskId> {
        self.names.get(job).copied().or_else(|| job.parse().ok())
    }
}
