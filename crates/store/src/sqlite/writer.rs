//! The one writer.
//!
//! Its thread takes everything that is queued and commits it in one transaction, then answers. It
//! never waits for more: while it syncs, the next batch gathers by itself. When nothing is queued,
//! a caller may write on its own thread instead.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::mem;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{ShardId, TenantId};
use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, OptionalExtension, params};
use shard::ClaimedShard;

use super::error::WriteError;
use super::open::Checkpoints;
use super::open::checkpoint_all;
use super::part::{Part, Pending};
use super::specs::SpecRows;
use crate::claims::{Claims, TurnKind};
use crate::contract::{CommitError, Note, StoreError, TokenRow};

/// A transaction takes no further turn once it has so many changes, so that whoever waits for its
/// first turn does not wait for a whole backlog.
const CHANGES_PER_TRANSACTION: usize = 4_096;
/// How often a random shard number is drawn until a free one is found.
const SHARD_DRAWS_MAX: u32 = 64;

/// Everything that is needed to write. Whoever has the right to write, from the queue, locks it.
#[derive(Debug)]
pub(super) struct Writer {
    pub connection: Connection,
    pub checkpoints: Checkpoints,
    pub claims: Claims,
    pub specs: SpecRows,
    pub failpoint: Option<Failpoint>,
}

/// However the thread ends, nobody waits for it any longer.
struct CloseOnDrop(Arc<Queue>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Writer {
    /// Works until it is told to stop.
    pub(super) fn run(shared: &Mutex<Self>, queue: Arc<Queue>) {
        let closer = CloseOnDrop(queue);
        let mut jobs = Vec::new();
        let mut is_stopping = false;
        while !is_stopping {
            let patience = shared.lock().checkpoints.idle_patience();
            closer.0.take_all(&mut jobs, patience);
            let mut writer = shared.lock();
            if jobs.is_empty() {
                writer.checkpoints.on_idle();
            }
            is_stopping = writer.work_off(&mut jobs);
            drop(writer);
            if !is_stopping {
                closer.0.release();
            }
        }
        let mut writer = shared.lock();
        writer.checkpoints.stop();
        if let Err(error) = checkpoint_all(&writer.connection, "TRUNCATE") {
            // The log stays and is read at the next start.
            tracing::warn!(%error, "the store cannot copy its log at the end");
        }
    }

    /// Does the jobs in order; `true` when one of them is to stop.
    fn work_off(&mut self, jobs: &mut Vec<Job>) -> bool {
        let mut gathered = Vec::new();
        let mut n_changes = 0;
        for job in jobs.drain(..) {
            match job {
                Job::Commit(pending) => {
                    n_changes += pending.n_changes();
                    gathered.push(pending);
                    if n_changes < CHANGES_PER_TRANSACTION {
                        continue;
                    }
                    self.commit(mem::take(&mut gathered));
                }
                Job::Alone(work) => {
                    self.commit(mem::take(&mut gathered));
                    work(self);
                }
                Job::Stop => {
                    self.commit(gathered);
                    return true;
                }
            }
            n_changes = 0;
        }
        self.commit(gathered);
        false
    }

    /// Commits turns, in one transaction if it can be, and answers each of them.
    pub(super) fn commit(&mut self, turns: Vec<Pending>) {
        if turns.is_empty() {
            return;
        }
        let began = Instant::now();
        let mut parts = vec![Part::new(turns, &self.claims)];
        if self.transact(&mut parts[0]).is_err() {
            parts = parts.into_iter().flat_map(Part::split).collect();
            for part in &mut parts {
                if let Err(error) = self.transact(part) {
                    part.fail(&error);
                }
            }
        }
        let took = began.elapsed();
        for part in parts {
            part.settle(&mut self.claims, took);
        }
        self.checkpoints.after_commit(&self.connection);
    }

    /// Writes all of it, or nothing.
    fn transact(&mut self, part: &mut Part) -> Result<(), WriteError> {
        if !part.needs_transaction() {
            return Ok(());
        }
        // Rows of specs are known only while every transaction that may have written them was kept.
        let mut specs = mem::take(&mut self.specs);
        let Self { connection, failpoint, .. } = self;
        in_transaction(connection, || {
            part.write(connection, &mut specs)?;
            if let Some(failpoint) = failpoint {
                failpoint.reach(Place::BeforeCommit);
            }
            Ok(())
        })?;
        self.specs = specs;
        if let Some(failpoint) = &mut self.failpoint {
            failpoint.reach(Place::AfterCommitBeforeAnswer);
        }
        Ok(())
    }

    pub(super) fn claim(&mut self, tenant: &TenantId) -> Result<ClaimedShard, StoreError> {
        let claim = self.keep(|connection| claim_shard(connection, tenant))?;
        self.claims.made(claim);
        Ok(claim)
    }

    pub(super) fn raise_epoch(&mut self, claim: ClaimedShard) -> Result<ClaimedShard, CommitError> {
        self.claims.check(claim, TurnKind::Tasks)?;
        let unavailable = |error: StoreError| CommitError::Unavailable(error.to_string());
        let raised = self.keep(|connection| raise_epoch(connection, claim)).map_err(unavailable)?;
        let raised = raised.ok_or(CommitError::Fenced)?;
        self.claims.made(raised);
        Ok(raised)
    }

    /// Does `work` in a transaction of its own.
    pub(super) fn keep<T>(
        &mut self,
        work: impl FnOnce(&Connection) -> Result<T, WriteError>,
    ) -> Result<T, StoreError> {
        let kept = in_transaction(&self.connection, || work(&self.connection))?;
        self.checkpoints.after_commit(&self.connection);
        Ok(kept)
    }
}

/// All of `work`, durable, or nothing of it.
///
/// After a failure the same connection goes on. A failed sync may leave pages of the log in the
/// kernel's memory that are not on the disk and that the kernel takes for written. This connection
/// knows that the transaction did not happen, so the next one writes those pages again. A new
/// connection would read them from the kernel, take them for committed and build on them.
fn in_transaction<T>(
    connection: &Connection,
    work: impl FnOnce() -> Result<T, WriteError>,
) -> Result<T, WriteError> {
    // A roll-back that failed is tried again, before anything else is.
    roll_back(connection)?;
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let done = work().and_then(|value| {
        connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(value)
    });
    if done.is_err()
        && let Err(error) = roll_back(connection)
    {
        tracing::error!(%error, "the store cannot roll back; it refuses work until it can");
    }
    done
}

/// Ends the transaction, unless an error has ended it already.
fn roll_back(connection: &Connection) -> Result<(), rusqlite::Error> {
    if connection.is_autocommit() { Ok(()) } else { connection.execute_batch("ROLLBACK") }
}

fn claim_shard(connection: &Connection, tenant: &TenantId) -> Result<ClaimedShard, WriteError> {
    let raised = connection
        .prepare_cached(
            "UPDATE shards SET epoch = epoch + 1 WHERE tenant = ?1 RETURNING id, epoch",
        )?
        .query_row([tenant.as_str()], |row| Ok((row.get::<_, u32>(0)?, row.get::<_, i64>(1)?)))
        .optional()?;
    if let Some((id, epoch)) = raised {
        let shard = ShardId::new(id).ok_or(WriteError::ShardsFull)?;
        return Ok(ClaimedShard { shard, epoch: epoch.cast_unsigned() });
    }
    let shard = draw_shard(connection)?;
    connection.execute(
        "INSERT INTO shards (id, tenant, epoch) VALUES (?1, ?2, 1)",
        params![shard.get(), tenant.as_str()],
    )?;
    Ok(ClaimedShard { shard, epoch: 1 })
}

/// The raised claim; none when the shard has another owner.
fn raise_epoch(
    connection: &Connection,
    claim: ClaimedShard,
) -> Result<Option<ClaimedShard>, WriteError> {
    let raised = connection
        .prepare_cached("UPDATE shards SET epoch = epoch + 1 WHERE id = ?1 AND epoch = ?2")?
        .execute(params![claim.shard.get(), claim.epoch.cast_signed()])?;
    Ok((raised == 1).then_some(ClaimedShard { epoch: claim.epoch + 1, ..claim }))
}

/// A number that no shard has. Random, so that task ids of one installation name nothing in another.
fn draw_shard(connection: &Connection) -> Result<ShardId, WriteError> {
    let mut is_taken = connection.prepare("SELECT 1 FROM shards WHERE id = ?1")?;
    for draw in 0..SHARD_DRAWS_MAX {
        // The standard library's hash keys are the randomness at hand.
        let bits = RandomState::new().hash_one(draw) & u64::from(ShardId::MAX);
        let shard = u32::try_from(bits).ok().and_then(ShardId::new).expect("masked to 23 bits");
        if !is_taken.exists([shard.get()])? {
            return Ok(shard);
        }
    }
    Err(WriteError::ShardsFull)
}

pub(super) fn put_token(connection: &Connection, token: &TokenRow) -> Result<(), WriteError> {
    let mut statement = connection.prepare_cached(include_str!("queries/put_token.sql"))?;
    statement.execute(params![
        token.token_id,
        token.tenant.as_str(),
        token.role,
        token.digest,
        token.name,
        token.created_at.to_integer(),
        token.expires_at.map(model::Timestamp::to_integer),
        token.revoked_at.map(model::Timestamp::to_integer),
        token.worker.as_ref().map(model::WorkerId::as_str),
    ])?;
    Ok(())
}

pub(super) fn put_note(connection: &Connection, note: &Note) -> Result<(), WriteError> {
    let Note { kind, tenant, key, json } = note;
    match json {
        Some(json) => connection
            .prepare_cached(include_str!("queries/put_note.sql"))?
            .execute(params![kind.name(), tenant, key, json])?,
        None => connection
            .prepare_cached("DELETE FROM notes WHERE kind = ?1 AND tenant = ?2 AND key = ?3")?
            .execute(params![kind.name(), tenant, key])?,
    };
    Ok(())
}

pub(super) fn probe(connection: &Connection) -> Result<(), WriteError> {
    connection.prepare_cached("UPDATE probe SET written = written + 1")?.execute([])?;
    Ok(())
}

/// One thing to do.
pub(super) enum Job {
    /// Keep a turn, with others that are queued.
    Commit(Pending),
    /// Do what shares no transaction.
    Alone(Box<dyn FnOnce(&mut Writer) + Send>),
    /// Do what was asked before this, then end.
    Stop,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Job")
    }
}

/// Filled from any thread, emptied by the writer.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    jobs: Vec<Job>,
    is_closed: bool,
    /// Whether someone writes: the writer thread, or a caller that commits on its own thread.
    is_busy: bool,
}

impl Queue {
    /// A job for a closed queue is dropped, and its asker hears that the writer is gone.
    pub(super) fn push(&self, job: Job) {
        let mut waiting = self.waiting.lock();
        if waiting.is_closed {
            return;
        }
        waiting.jobs.push(job);
        // Whoever made the queue non-empty wakes the writer; it takes everything at once.
        if waiting.jobs.len() == 1 {
            drop(waiting);
            self.arrived.notify_one();
        }
    }

    /// Takes everything that waits, and the right to write until [`Queue::release`]. Sleeps until
    /// there is something, at most for `patience`; an empty answer means that nothing came.
    pub(super) fn take_all(&self, into: &mut Vec<Job>, patience: Option<Duration>) {
        let mut waiting = self.waiting.lock();
        let mut is_patient = true;
        while waiting.is_busy || waiting.jobs.is_empty() && is_patient {
            match patience {
                None => self.arrived.wait(&mut waiting),
                Some(patience) => {
                    is_patient &= !self.arrived.wait_for(&mut waiting, patience).timed_out();
                }
            }
        }
        waiting.is_busy = true;
        mem::swap(&mut waiting.jobs, into);
    }

    /// Takes the right to write for a caller, if nobody writes and nothing waits.
    pub(super) fn try_take(&self) -> bool {
        let mut waiting = self.waiting.lock();
        let is_free = !waiting.is_busy && waiting.jobs.is_empty() && !waiting.is_closed;
        waiting.is_busy |= is_free;
        is_free
    }

    /// Gives the right to write back; what came in the meantime wakes the writer.
    pub(super) fn release(&self) {
        let mut waiting = self.waiting.lock();
        waiting.is_busy = false;
        if !waiting.jobs.is_empty() {
            drop(waiting);
            self.arrived.notify_one();
        }
    }

    /// Nobody takes jobs any more: those that wait are dropped.
    pub(super) fn close(&self) {
        let mut waiting = self.waiting.lock();
        waiting.is_closed = true;
        waiting.jobs.clear();
    }
}

/// What a shell shows for a process that was killed by signal 9.
const EXIT_CODE: i32 = 137;

/// Where the process may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    BeforeCommit,
    AfterCommitBeforeAnswer,
}

/// A commit at which the process ends. As text `before_commit:3`, just before the third commit, or
/// `after_commit_before_answer:3`, just after it, before anyone hears of it.
#[derive(Clone, Debug)]
pub struct Failpoint {
    place: Place,
    commits_left: u64,
}

impl Failpoint {
    /// Called at each place of each commit.
    pub(super) fn reach(&mut self, place: Place) {
        if self.place != place {
            return;
        }
        self.commits_left = self.commits_left.saturating_sub(1);
        if self.commits_left == 0 {
            std::process::exit(EXIT_CODE);
        }
    }
}

impl FromStr for Failpoint {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, count) = text.split_once(':').ok_or("expected PLACE:COMMITS")?;
        let place = match name {
            "before_commit" => Place::BeforeCommit,
            "after_commit_before_answer" => Place::AfterCommitBeforeAnswer,
            _ => return Err("the place is before_commit or after_commit_before_answer"),
        };
        let commits_left = count.parse().map_err(|_| "the number of commits is a whole number")?;
        Ok(Self { place, commits_left })
    }
}
