//! A store that keeps its word about what is durable, and fails in every way that stores fail.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use coordinator::{Change, LoadKey, TaskRecord, TaskState};
use model::{LeaseId, ShardId, TenantId};
use shard::{ClaimedShard, Restored, Turn};
use store::Tables;

use crate::agenda::Event;
use crate::consequence::Consequence;
use crate::faults::{Fault, FaultSet};
use crate::planted::WorldBug;
use crate::rng::Dice;
use crate::world::World;

/// How a commit ended, as the server hears it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitEnd {
    Durable,
    /// Someone claimed the shard since.
    Fenced,
    /// It failed, and the process may go on.
    Failed,
    /// The sync failed: the process must start anew, for the disk may have forgotten anything.
    SyncFailed,
}

/// What will become of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Fine,
    FailsBefore,
    /// Durable, but reported as failed.
    FailsAfter,
    SyncFails {
        is_kept: bool,
    },
}

/// A commit on its way.
#[derive(Debug)]
pub(crate) struct Commit {
    pub(crate) server: usize,
    pub(crate) turn: Turn,
    fate: Fate,
    end: Option<CommitEnd>,
}

#[derive(Debug)]
pub(crate) struct FakeStore {
    tables: Tables,
    tenant: TenantId,
    current: Option<ClaimedShard>,
    /// One writer for each server; its first commit is under way.
    queues: BTreeMap<usize, VecDeque<u64>>,
    commits: BTreeMap<u64, Commit>,
    broken: BTreeSet<u64>,
    last_commit: u64,
    pub(crate) full_until: u64,
    levels: [(Fault, u64); 5],
    dice: Dice,
    pub(crate) was_ambiguous: bool,
}

impl FakeStore {
    pub(crate) fn new(seed: u64, faults: FaultSet) -> Self {
        let mut dice = Dice::for_purpose(seed, "store");
        let mut level = |fault: Fault, levels: &[u64]| {
            let level = dice.pick(levels).copied().unwrap_or(0);
            (fault, if faults.has(fault) { level } else { 0 })
        };
        let levels = [
            level(Fault::FailBeforeCommit, &[0, 1, 4]),
            level(Fault::CommitThenFail, &[0, 3, 10]),
            level(Fault::SlowCommit, &[0, 10, 40]),
            level(Fault::Serialization, &[0, 1, 4]),
            level(Fault::FsyncError, &[0, 1, 4]),
        ];
        Self {
            tables: Tables::default(),
            tenant: "sim".parse().expect("a tenant's name"),
            current: None,
            queues: BTreeMap::new(),
            commits: BTreeMap::new(),
            broken: BTreeSet::new(),
            last_commit: 0,
            full_until: 0,
            levels,
            dice,
            was_ambiguous: false,
        }
    }

    pub(crate) fn heal(&mut self) {
        self.full_until = 0;
        for (_, permille) in &mut self.levels {
            *permille = 0;
        }
    }

    /// Raises the epoch and reads the shard.
    pub(crate) fn claim(&mut self) -> (ClaimedShard, Restored) {
        let claim = self.tables.claim(&self.tenant);
        self.current = Some(claim);
        (claim, self.tables.restore(claim.shard))
    }

    /// The one shard that there is.
    pub(crate) fn shard(&self) -> ShardId {
        self.current.map_or_else(|| ShardId::new(1).expect("a small number"), |claim| claim.shard)
    }

    pub(crate) fn is_current(&self, claim: ClaimedShard) -> bool {
        self.current == Some(claim)
    }

    pub(crate) fn load(&self, keys: &[LoadKey]) -> Vec<(LoadKey, TaskRecord)> {
        self.current.map_or_else(Vec::new, |claim| self.tables.load(claim.shard, keys))
    }

    /// The process behind these commits is gone. What had reached the disk may still count.
    pub(crate) fn abandon(&mut self, server: usize) {
        let queue = self.queues.remove(&server).unwrap_or_default();
        for (position, number) in queue.into_iter().enumerate() {
            let reached_the_disk = position == 0 && self.dice.chance(500);
            if !reached_the_disk {
                self.commits.remove(&number);
            }
        }
    }
}

impl World {
    /// Queues a turn behind the earlier ones of the same server.
    pub(crate) fn store_queues(&mut self, server: usize, turn: Turn) {
        let store = &mut self.store;
        store.last_commit += 1;
        let number = store.last_commit;
        let commit = Commit { server, turn, fate: Fate::Fine, end: None };
        store.commits.insert(number, commit);
        let queue = store.queues.entry(server).or_default();
        queue.push_back(number);
        if queue.len() == 1 {
            self.store_begins(number);
        }
    }

    fn store_begins(&mut self, number: u64) {
        let mut latency = self.store.dice.between(1, 6);
        let mut fate = Fate::Fine;
        let is_empty = self.store.commits.get(&number).is_some_and(|one| one.turn.is_empty());
        for (fault, permille) in self.store.levels {
            // Nothing is written for an empty turn, so no write of it can fail.
            if is_empty || permille == 0 || !self.store.dice.chance(permille) {
                continue;
            }
            let is_kept = self.store.dice.chance(500);
            match fault {
                Fault::SlowCommit => latency += self.store.dice.between(100, 3_000),
                Fault::CommitThenFail => fate = Fate::FailsAfter,
                Fault::FsyncError => fate = Fate::SyncFails { is_kept },
                _ => fate = Fate::FailsBefore,
            }
            self.fault(fault, || format!("commit {number}"));
        }
        if self.store.full_until > self.clock.now && !is_empty {
            fate = Fate::FailsBefore;
            self.fault(Fault::DiskFull, || format!("commit {number}"));
        }
        if let Some(commit) = self.store.commits.get_mut(&number) {
            commit.fate = fate;
        }
        self.agenda.plan(self.clock.now + latency, Event::StoreApplies { commit: number });
    }

    /// Whether a commit is kept, and what its server hears.
    fn fate_of(&self, commit: &Commit) -> (bool, CommitEnd) {
        let is_stale = self.store.current != Some(commit.turn.claim);
        let is_broken = self.store.broken.contains(&commit.turn.claim.epoch);
        match commit.fate {
            _ if is_stale && !self.has_bug(WorldBug::StaleLeaderKeepsWriting) => {
                (false, CommitEnd::Fenced)
            }
            _ if is_broken => (false, CommitEnd::Failed),
            Fate::Fine => (true, CommitEnd::Durable),
            Fate::FailsBefore => (false, CommitEnd::Failed),
            Fate::FailsAfter => (true, CommitEnd::Failed),
            // Linux forgets the pages that it could not write, and says "done" the second time.
            Fate::SyncFails { .. } if self.has_bug(WorldBug::FsyncErrorRetried) => {
                (false, CommitEnd::Durable)
            }
            Fate::SyncFails { is_kept } => (is_kept, CommitEnd::SyncFailed),
        }
    }

    /// The point at which a commit is durable or not; the fence is part of it.
    pub(crate) fn store_applies(&mut self, number: u64) {
        let Some(mut commit) = self.store.commits.remove(&number) else { return };
        let (is_kept, end) = self.fate_of(&commit);
        if end == CommitEnd::Fenced {
            self.notes.happened(Consequence::FencedTurn);
        }
        if is_kept {
            self.keep(&commit);
            self.store.was_ambiguous |= end != CommitEnd::Durable && !commit.turn.is_empty();
        }
        if end != CommitEnd::Durable {
            self.store.broken.insert(commit.turn.claim.epoch);
        }
        self.trace.note(self.clock.now, &[1, number, u64::from(is_kept)], || {
            let facts: Vec<String> = commit.turn.changes.iter().map(short).collect();
            let (server, turn) = (commit.server, commit.turn.number);
            format!(
                "store: server {server} turn {turn} {end:?}, kept {is_kept}: {}",
                facts.join(", ")
            )
        });
        commit.end = Some(end);
        self.store.commits.insert(number, commit);
        let latency = self.store.dice.between(0, 2);
        self.agenda.plan(self.clock.now + latency, Event::StoreReplies { commit: number });
    }

    /// Facts become durable.
    fn keep(&mut self, commit: &Commit) {
        let is_stale = self.store.current != Some(commit.turn.claim);
        let has_facts = !commit.turn.is_empty();
        self.notes.demand(!(is_stale && has_facts), "P11", || {
            let (server, epoch) = (commit.server, commit.turn.claim.epoch);
            format!("a turn of server {server} became durable under epoch {epoch}, which is over")
        });
        if let Err(contradiction) =
            self.store.tables.apply_all(&commit.turn.changes, &commit.turn.runs)
        {
            let story = || format!("a turn contradicts the store: {contradiction}");
            self.notes.broken("P2", story);
        }
        self.store.tables.apply_tenant(commit.turn.claim.shard, &commit.turn.tenant);
        for change in &commit.turn.changes {
            self.durable.observe(change, None, &mut self.notes);
            if let Some(lease) = committed_lease(change) {
                self.journal.check_commit(lease, &mut self.notes);
            }
            if let Change::TaskSubmitted(record) = change {
                self.note_made(record);
            }
        }
        self.durable.check_blocked(&commit.turn.changes, &mut self.notes);
    }

    fn note_made(&mut self, record: &TaskRecord) {
        let intent = crate::workload::intent_of(&record.parameters);
        let is_keyed = record.idempotency.is_some();
        self.journal.task_made(intent, is_keyed, record.id, &mut self.notes);
    }

    /// The server hears how its commit ended; the next one begins.
    pub(crate) fn store_replies(&mut self, number: u64) {
        let server = self.store.commits.get(&number).map(|commit| commit.server);
        if let Some(until) = server.and_then(|server| self.paused_until(server)) {
            return self.agenda.plan(until, Event::StoreReplies { commit: number });
        }
        let Some(commit) = self.store.commits.remove(&number) else { return };
        if let Some(queue) = self.store.queues.get_mut(&commit.server)
            && queue.front() == Some(&number)
        {
            queue.pop_front();
            if let Some(next) = queue.front().copied() {
                self.store_begins(next);
            }
        }
        if let Some(end) = commit.end {
            self.turn_ended(&commit, end);
        }
    }
}

/// The lease whose report counts by this fact.
fn committed_lease(change: &Change) -> Option<LeaseId> {
    let progress = change.progress();
    let has_report = match (&progress.state, change.ended_attempt()) {
        (TaskState::Settled(settlement), _) => settlement.report.is_some(),
        (_, Some(attempt)) => matches!(attempt.ending, coordinator::Ending::Failed { .. }),
        (_, None) => false,
    };
    has_report.then_some(LeaseId { task: change.task(), epoch: progress.epoch })
}

/// A fact in few words.
pub(crate) fn short(change: &Change) -> String {
    let (number, progress) = (change.task().number(), change.progress());
    let ending = change.ended_attempt().map(|attempt| format!("{:?}", attempt.ending));
    let ending = ending.unwrap_or_default();
    match change {
        Change::TaskSubmitted(_) => format!("task {number} made"),
        Change::LeaseGranted { .. } => format!("task {number} granted, epoch {}", progress.epoch),
        Change::AttemptEnded { .. } => format!("task {number} epoch {} {ending}", progress.epoch),
        Change::TaskReleased { .. } => format!("task {number} released"),
        Change::LossForgiven { .. } => format!("task {number} is forgiven its losses"),
        Change::TaskSettled { .. } => {
            format!("task {number} {:?} {ending}", progress.state.word())
        }
        Change::TaskRequeued(_) => format!("task {number} requeued"),
    }
}
