//! A store that keeps its word about what is durable, and fails in every way that stores fail.
//!
//! Each server process has one writer. It takes all turns that are queued, of every tenant, into
//! one transaction. Trouble with the disk hits all of them; a stale claim, an earlier turn that was
//! lost or a conflict hits the turns of its own tenant.

use std::collections::{BTreeMap, VecDeque};

use coordinator::{Change, LoadKey, TaskRecord, TaskState};
use model::{LeaseId, TenantId};
use shard::{ClaimedShard, Restored, Turn};
use store::{Claims, CommitError, TurnKind};

use crate::agenda::Event;
use crate::consequence::Consequence;
use crate::faults::{Fault, FaultSet};
use crate::rng::Dice;
use crate::server::ShardAt;
use crate::tables::Tables;
use crate::world::{TENANTS, World};

/// Turns that one transaction takes at most, so that several are under way behind each other.
const TURNS_PER_TRANSACTION: usize = 6;

/// What will become of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Fine,
    FailsBefore,
    /// Durable, but reported as failed.
    FailsAfter,
    /// The turns of one tenant cannot be kept; those of the others can.
    Conflict {
        tenant: usize,
    },
    /// Its sync fails: it did not happen, unless the process dies before it writes again. Then the
    /// kernel may have kept what the disk refused.
    SyncFails,
}

/// A turn on its way.
#[derive(Debug)]
pub(crate) struct Commit {
    pub(crate) at: ShardAt,
    pub(crate) turn: Turn,
    /// How it ended, as the server hears it.
    end: Option<Result<(), CommitError>>,
}

/// Turns that are kept together.
#[derive(Debug)]
struct Transaction {
    server: usize,
    commits: Vec<Commit>,
    fate: Fate,
}

/// The writer of one server process.
#[derive(Debug, Default)]
struct Writer {
    claims: Claims,
    queue: VecDeque<Commit>,
    under_way: Option<u64>,
    /// When the server hears of the last transaction that ended: not before the ones before it.
    replied_at: u64,
    /// Turns whose sync failed, since the last write.
    ghosts: Vec<Turn>,
}

#[derive(Debug)]
pub(crate) struct FakeStore {
    tables: Tables,
    current: [Option<ClaimedShard>; TENANTS],
    writers: BTreeMap<usize, Writer>,
    transactions: BTreeMap<u64, Transaction>,
    last_transaction: u64,
    pub(crate) full_until: u64,
    levels: [(Fault, u64); 5],
    dice: Dice,
    pub(crate) was_ambiguous: [bool; TENANTS],
}

/// The name of a tenant.
pub(crate) fn tenant_id(tenant: usize) -> TenantId {
    format!("tenant-{tenant}").parse().expect("a name that fits")
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
            level(Fault::Serialization, &[0, 2, 6]),
            level(Fault::FsyncError, &[0, 2, 6]),
        ];
        Self {
            tables: Tables::default(),
            current: [None; TENANTS],
            writers: BTreeMap::new(),
            transactions: BTreeMap::new(),
            last_transaction: 0,
            full_until: 0,
            levels,
            dice,
            was_ambiguous: [false; TENANTS],
        }
    }

    pub(crate) fn heal(&mut self) {
        self.full_until = 0;
        for (_, permille) in &mut self.levels {
            *permille = 0;
        }
    }

    /// Raises the epoch and reads the shard.
    pub(crate) fn claim(&mut self, at: ShardAt) -> (ClaimedShard, Restored) {
        let claim = self.tables.claim(&tenant_id(at.tenant));
        self.current[at.tenant] = Some(claim);
        let writer = self.writers.entry(at.server).or_default();
        writer.claims.made(claim);
        writer.ghosts.clear();
        (claim, self.tables.restore(claim.shard))
    }

    pub(crate) fn is_current(&self, claim: ClaimedShard) -> bool {
        self.current.contains(&Some(claim))
    }

    pub(crate) fn load(&self, tenant: usize, keys: &[LoadKey]) -> Vec<(LoadKey, TaskRecord)> {
        self.current[tenant].map_or_else(Vec::new, |claim| self.tables.load(claim.shard, keys))
    }

    /// What is durable.
    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// A server dropped the shard of a tenant: what it had queued is forgotten.
    pub(crate) fn forget_queued(&mut self, at: ShardAt) {
        if let Some(writer) = self.writers.get_mut(&at.server) {
            writer.queue.retain(|commit| commit.at != at);
        }
    }

    /// A process is gone. What had reached the disk may still count. Gives the turns of a failed
    /// sync that the kernel kept.
    pub(crate) fn abandon(&mut self, server: usize) -> Vec<Turn> {
        let Some(writer) = self.writers.remove(&server) else { return Vec::new() };
        if let Some(number) = writer.under_way
            && self.dice.chance(500)
        {
            self.transactions.remove(&number);
        }
        if self.dice.chance(500) { writer.ghosts } else { Vec::new() }
    }
}

impl World {
    /// Queues a turn behind the earlier ones of the same server.
    pub(crate) fn store_queues(&mut self, at: ShardAt, turn: Turn) {
        let writer = self.store.writers.entry(at.server).or_default();
        writer.queue.push_back(Commit { at, turn, end: None });
        self.store_begins(at.server);
    }

    /// The writer takes what is queued, unless it is busy.
    fn store_begins(&mut self, server: usize) {
        let is_paused = self.paused_until(server).is_some();
        let Some(writer) = self.store.writers.get_mut(&server) else { return };
        if is_paused || writer.under_way.is_some() || writer.queue.is_empty() {
            return;
        }
        let count = writer.queue.len().min(TURNS_PER_TRANSACTION);
        let commits: Vec<Commit> = writer.queue.drain(..count).collect();
        self.store.last_transaction += 1;
        let number = self.store.last_transaction;
        writer.under_way = Some(number);
        let is_shared = commits.iter().any(|one| one.at != commits[0].at);
        if is_shared {
            self.notes.happened(Consequence::TenantsShareTransaction);
        }
        let is_empty = commits.iter().all(|commit| commit.turn.is_empty());
        let (fate, latency) = self.draw_fate(number, is_empty);
        self.store.transactions.insert(number, Transaction { server, commits, fate });
        let event = Event::StoreApplies { transaction: number };
        self.agenda.plan(self.clock.now + latency, event);
    }

    fn draw_fate(&mut self, number: u64, is_empty: bool) -> (Fate, u64) {
        let mut latency = self.store.dice.between(1, 6);
        let mut fate = Fate::Fine;
        for (fault, permille) in self.store.levels {
            // Nothing is written for empty turns, so no write of them can fail.
            if is_empty || permille == 0 || !self.store.dice.chance(permille) {
                continue;
            }
            match fault {
                Fault::SlowCommit => latency += self.store.dice.between(100, 3_000),
                Fault::CommitThenFail => fate = Fate::FailsAfter,
                Fault::FsyncError => fate = Fate::SyncFails,
                Fault::Serialization => {
                    fate = Fate::Conflict { tenant: self.store.dice.index(TENANTS) };
                }
                _ => fate = Fate::FailsBefore,
            }
            self.fault(fault, || format!("transaction {number}"));
        }
        if self.store.full_until > self.clock.now && !is_empty {
            fate = Fate::FailsBefore;
            self.fault(Fault::DiskFull, || format!("transaction {number}"));
        }
        (fate, latency)
    }

    /// The point at which turns are durable or not; the fence is part of it.
    pub(crate) fn store_applies(&mut self, number: u64) {
        let Some(mut transaction) = self.store.transactions.remove(&number) else { return };
        let (server, fate) = (transaction.server, transaction.fate);
        if let Some(writer) = self.store.writers.get_mut(&server) {
            writer.ghosts.clear();
        }
        let mut n_kept = 0;
        for commit in &mut transaction.commits {
            let end = self.apply_turn(fate, commit);
            n_kept += usize::from(end.is_ok());
            commit.end = Some(end);
        }
        if n_kept > 0 && n_kept < transaction.commits.len() {
            self.notes.happened(Consequence::TurnsFailedApart);
        }
        self.store.transactions.insert(number, transaction);
        let mut heard_at = self.clock.now + self.store.dice.between(0, 2);
        if let Some(writer) = self.store.writers.get_mut(&server) {
            heard_at = heard_at.max(writer.replied_at);
            writer.replied_at = heard_at;
            writer.under_way = None;
        }
        self.agenda.plan(heard_at, Event::StoreReplies { transaction: number });
        // The writer goes on, whether or not anyone has heard of this transaction yet.
        self.store_begins(server);
    }

    /// Keeps one turn of a transaction, if the claim that it builds on stands.
    fn apply_turn(&mut self, fate: Fate, commit: &Commit) -> Result<(), CommitError> {
        let Commit { at, turn, .. } = commit;
        let claims = self.store.writers.get(&at.server).map(|writer| writer.claims.clone());
        let known = claims.map_or(Ok(()), |claims| claims.check(turn.claim, TurnKind::Tasks));
        let failed = |why: &str| Err(CommitError::Unavailable(why.to_owned()));
        let end = match fate {
            _ if known.is_err() => known,
            // Nothing of an empty turn is written, but it is fenced like any other.
            _ if turn.is_empty() => self.keep(*at, turn),
            Fate::FailsBefore => failed("told to fail"),
            Fate::Conflict { tenant } if tenant == at.tenant => failed("conflict"),
            Fate::Fine | Fate::Conflict { .. } => self.keep(*at, turn),
            Fate::FailsAfter => self.keep(*at, turn).and_then(|()| {
                self.store.was_ambiguous[at.tenant] = true;
                failed("committed, but told to fail")
            }),
            Fate::SyncFails => {
                if let Some(writer) = self.store.writers.get_mut(&at.server) {
                    writer.ghosts.push(turn.clone());
                }
                failed("the sync failed")
            }
        };
        if let Err(error) = &end
            && let Some(writer) = self.store.writers.get_mut(&at.server)
        {
            writer.claims.broke(turn.claim, TurnKind::Tasks, error);
        }
        if end == Err(CommitError::Fenced) {
            self.notes.happened(Consequence::FencedTurn);
        }
        self.trace.note(
            self.clock.now,
            &[1, at.server as u64, at.tenant as u64, u64::from(end.is_ok())],
            || {
                let facts: Vec<String> = turn.changes.iter().map(short).collect();
                let (number, facts) = (turn.number, facts.join(", "));
                format!("store: {at} turn {number} {fate:?} {end:?}: {facts}")
            },
        );
        end
    }

    /// Turns whose sync had failed are on the disk after all, and their process is gone.
    pub(crate) fn ghosts_appear(&mut self, turns: Vec<Turn>) {
        for turn in turns {
            let tenant = self.store.current.iter().position(|claim| *claim == Some(turn.claim));
            let Some(tenant) = tenant else { return };
            let at = ShardAt { server: usize::MAX, tenant };
            if self.keep(at, &turn).is_ok() {
                self.store.was_ambiguous[tenant] = true;
            }
        }
    }

    /// Facts become durable, if the fence lets them.
    fn keep(&mut self, at: ShardAt, turn: &Turn) -> Result<(), CommitError> {
        let is_stale = !self.store.is_current(turn.claim);
        match self.store.tables.commit(turn) {
            Ok(()) => {}
            Err(CommitError::Unavailable(why)) => {
                self.notes.broken("P2", || format!("a turn contradicts the store: {why}"));
                return Err(CommitError::Unavailable(why));
            }
            Err(CommitError::Fenced) => return Err(CommitError::Fenced),
        }
        self.notes.demand(!is_stale, "P11", || {
            format!("a turn of {at} became durable under epoch {}, which is over", turn.claim.epoch)
        });
        let (tenant, notes) = (&mut self.tenants[at.tenant], &mut self.notes);
        for change in &turn.changes {
            tenant.durable.observe(change, None, notes);
            if let Some(lease) = committed_lease(change) {
                tenant.journal.check_commit(lease, notes);
            }
            if let Change::TaskSubmitted(record) = change
                && record.link.is_none()
            {
                let intent = crate::workload::intent_of(&record.parameters);
                let is_keyed = record.idempotency.is_some();
                tenant.journal.task_made(intent, is_keyed, record.id, notes);
            }
        }
        tenant.durable.check_blocked(&turn.changes, notes);
        self.runs.take(turn, notes);
        self.schedules.take(turn, &self.runs, notes);
        Ok(())
    }

    /// The server hears how its turns ended; the next transaction begins.
    pub(crate) fn store_replies(&mut self, number: u64) {
        let Some(server) = self.store.transactions.get(&number).map(|one| one.server) else {
            return;
        };
        if let Some(until) = self.paused_until(server) {
            return self.agenda.plan(until, Event::StoreReplies { transaction: number });
        }
        let Some(transaction) = self.store.transactions.remove(&number) else { return };
        for Commit { at, turn, end } in transaction.commits {
            if let Some(end) = end {
                self.turn_ended(at, &turn, end);
            }
        }
        self.store_begins(server);
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
