//! Keys that keep tasks together on one worker.
//!
//! A grant binds the key of its task to the worker. The binding lasts while tasks with the key are
//! live and for some time after; it ends when the worker is lost, and the next grant binds anew.
//! Nothing of it is stored: a restart finds in the tasks who had them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::{AffinityKey, Pin, TaskId, Timestamp, WorkerId};

use crate::change::{TaskRecord, TaskState};
use crate::coordinator::Decision;
use crate::state::State;
use crate::task::record::Task;

/// Limit: keys without a live task that are kept in mind; beyond that the first to end are
/// forgotten.
const IDLE_KEYS_MAX: usize = 100_000;

/// What is known of all keys.
#[derive(Debug, Default)]
pub(crate) struct Affinities {
    keys: BTreeMap<AffinityKey, KeyEntry>,
    by_worker: BTreeMap<WorkerId, BTreeSet<AffinityKey>>,
    /// Keys without a live task, by when they are forgotten.
    idle: BTreeSet<(Timestamp, AffinityKey)>,
}

#[derive(Debug, Default)]
struct KeyEntry {
    /// Who had the last task with the key, and since when.
    bound: Option<(WorkerId, Timestamp)>,
    /// Live tasks with the key.
    live: u64,
    /// Tasks that placement can see, and that the bound worker alone may have.
    ready: BTreeSet<TaskId>,
    /// When the key is forgotten, while no live task has it.
    idle_until: Option<Timestamp>,
}

impl Affinities {
    pub(crate) fn worker(&self, key: &AffinityKey) -> Option<&WorkerId> {
        self.keys.get(key)?.bound.as_ref().map(|(worker, _)| worker)
    }

    fn add_live(&mut self, key: &AffinityKey, now: Timestamp) {
        while self.idle.first().is_some_and(|(until, _)| *until <= now) {
            self.forget_first_idle();
        }
        let entry = self.keys.entry(key.clone()).or_default();
        entry.live += 1;
        if let Some(until) = entry.idle_until.take() {
            self.idle.remove(&(until, key.clone()));
        }
    }

    fn remove_live(&mut self, key: &AffinityKey, until: Timestamp) {
        let entry = self.keys.get_mut(key).expect("a live task has the key");
        entry.live -= 1;
        if entry.live > 0 {
            return;
        }
        if entry.bound.is_none() {
            self.keys.remove(key);
            return;
        }
        entry.idle_until = Some(until);
        self.idle.insert((until, key.clone()));
        if self.idle.len() > IDLE_KEYS_MAX {
            self.forget_first_idle();
        }
    }

    fn forget_first_idle(&mut self) {
        let Some((_, key)) = self.idle.pop_first() else { return };
        let entry = self.keys.remove(&key).expect("idle keys are known");
        if let Some((worker, _)) = entry.bound {
            self.forget_of_worker(&worker, &key);
        }
    }

    fn forget_of_worker(&mut self, worker: &WorkerId, key: &AffinityKey) {
        let Some(keys) = self.by_worker.get_mut(worker) else { return };
        keys.remove(key);
        if keys.is_empty() {
            self.by_worker.remove(worker);
        }
    }

    fn bind(&mut self, key: &AffinityKey, worker: &WorkerId, at: Timestamp) {
        let entry = self.keys.get_mut(key).expect("a task has the key");
        let former = entry.bound.replace((worker.clone(), at));
        if let Some((former, _)) = former.filter(|(former, _)| former != worker) {
            self.forget_of_worker(&former, key);
        }
        self.by_worker.entry(worker.clone()).or_default().insert(key.clone());
    }

    fn unbind(&mut self, key: &AffinityKey) {
        let Some(entry) = self.keys.get_mut(key) else { return };
        let Some((worker, _)) = entry.bound.take() else { return };
        if let Some(until) = entry.idle_until {
            self.keys.remove(key);
            self.idle.remove(&(until, key.clone()));
        }
        self.forget_of_worker(&worker, key);
    }

    fn ready_of(&self, key: &AffinityKey) -> Vec<TaskId> {
        self.keys.get(key).into_iter().flat_map(|entry| &entry.ready).copied().collect()
    }

    /// # Panics
    /// When what is known of the keys is not what the tasks say.
    pub(crate) fn check(&self, live: &BTreeMap<&AffinityKey, u64>, ready: &BTreeSet<TaskId>) {
        let mut idle = BTreeSet::new();
        let mut by_worker: BTreeMap<WorkerId, BTreeSet<AffinityKey>> = BTreeMap::new();
        for (key, entry) in &self.keys {
            assert_eq!(entry.live, live.get(key).copied().unwrap_or(0), "tasks with key {key}");
            assert_eq!(entry.idle_until.is_some(), entry.live == 0, "idle keys");
            assert!(entry.live > 0 || entry.bound.is_some(), "a key without a use");
            idle.extend(entry.idle_until.map(|until| (until, key.clone())));
            if let Some((worker, _)) = &entry.bound {
                by_worker.entry(worker.clone()).or_default().insert(key.clone());
            }
        }
        assert!(live.keys().all(|key| self.keys.contains_key(*key)), "live keys");
        assert_eq!(self.idle, idle, "idle keys");
        assert_eq!(self.by_worker, by_worker, "keys of a worker");
        let listed: BTreeSet<TaskId> = self.keys.values().flat_map(|e| &e.ready).copied().collect();
        assert_eq!(listed, *ready, "ready tasks with keys");
    }
}

impl Task {
    fn affinity(&self) -> Option<(&AffinityKey, bool, Duration)> {
        match self.pin()? {
            Pin::Key { key, is_hard, ttl } => Some((key, *is_hard, *ttl)),
            Pin::Worker { .. } => None,
        }
    }

    /// The key that keeps it from all workers but one.
    pub(crate) fn sticky_key(&self) -> Option<&AffinityKey> {
        self.affinity().filter(|(_, is_hard, _)| *is_hard).map(|(key, ..)| key)
    }
}

impl State {
    /// A task came into memory.
    pub(crate) fn add_affinity(&mut self, task: &Task) {
        if let Some((key, ..)) = task.affinity() {
            self.affinities.add_live(key, self.now);
        }
    }

    /// A task left memory.
    pub(crate) fn remove_affinity(&mut self, task: &Task) {
        if let Some((key, _, ttl)) = task.affinity() {
            self.affinities.remove_live(key, self.now.after(ttl));
        }
    }

    /// A task with a sticky key can be seen by placement, or no longer.
    pub(crate) fn list_sticky(&mut self, id: TaskId, is_ready: bool) {
        let task = self.tasks.get(id).expect("ready tasks are live");
        let Some(key) = task.sticky_key() else { return };
        let entry = self.affinities.keys.get_mut(key).expect("a live task has the key");
        if is_ready {
            entry.ready.insert(id)
        } else {
            entry.ready.remove(&id)
        };
    }

    /// A worker has a task since then: its key, if it has one, is bound to that worker.
    pub(crate) fn bind_key_of(&mut self, id: TaskId, worker: &WorkerId, at: Timestamp) {
        let task = self.tasks.get(id).expect("held tasks are live");
        if let Some((key, ..)) = task.affinity() {
            self.bind_key(&key.clone(), worker, at);
        }
    }

    fn bind_key(&mut self, key: &AffinityKey, worker: &WorkerId, at: Timestamp) {
        let entry = self.affinities.keys.get(key);
        let bound = entry.and_then(|entry| entry.bound.as_ref());
        if bound.is_some_and(|(_, since)| *since > at) {
            return;
        }
        if bound.is_some_and(|(bound, _)| bound == worker) {
            return self.affinities.bind(key, worker, at);
        }
        self.move_ready(key, |affinities| affinities.bind(key, worker, at));
    }

    /// A worker is lost: whoever is granted the next task with one of its keys has the key.
    pub(crate) fn unbind_worker(&mut self, worker: &WorkerId) {
        let Some(keys) = self.affinities.by_worker.get(worker) else { return };
        for key in keys.clone() {
            self.move_ready(&key, |affinities| affinities.unbind(&key));
        }
    }

    /// Changes whom a key is bound to; its ready tasks go to where they belong after that.
    fn move_ready(&mut self, key: &AffinityKey, change: impl FnOnce(&mut Affinities)) {
        let ready = self.affinities.ready_of(key);
        for task in &ready {
            self.move_out(*task);
        }
        change(&mut self.affinities);
        for task in &ready {
            self.move_in(*task);
        }
    }

    pub(crate) fn check_affinities(&self) {
        let mut live: BTreeMap<&AffinityKey, u64> = BTreeMap::new();
        let mut ready = BTreeSet::new();
        for task in self.tasks.iter() {
            let Some((key, is_hard, _)) = task.affinity() else { continue };
            *live.entry(key).or_default() += 1;
            if is_hard && self.is_visible(task) {
                ready.insert(task.id);
            }
        }
        self.affinities.check(&live, &ready);
        let bound = self.affinities.by_worker.keys();
        bound.for_each(|worker| assert!(self.workers.is_known(worker), "bound to {worker}"));
    }
}

impl Decision<'_> {
    /// A restart brings a task back: whoever had it last is remembered, and for a while taken to
    /// be alive, so that it can come back to what belongs to it.
    pub(crate) fn remember_holder(&mut self, record: &TaskRecord) {
        let Some(Pin::Key { key, ttl, .. }) = record.pin.as_deref() else { return };
        let last = || record.ended_attempts.last().map(|ended| (&ended.worker, ended.at));
        let held = match &record.progress.state {
            TaskState::Leased(_) => None, // It was bound when the task came in.
            TaskState::Settled(end) => end.holder.as_ref().map(|worker| (worker, end.at)),
            TaskState::Waiting { .. } | TaskState::Ready => last(),
        };
        let Some((worker, at)) = held else { return };
        let is_live = self.state.affinities.keys.get(key).is_some_and(|entry| entry.live > 0);
        if !is_live && at.after(*ttl) <= self.now() || !self.touch_worker(worker) {
            return;
        }
        if !is_live {
            self.state.affinities.add_live(key, self.state.now);
        }
        self.state.bind_key(key, worker, at);
        if !is_live {
            self.state.affinities.remove_live(key, at.after(*ttl));
        }
    }
}
