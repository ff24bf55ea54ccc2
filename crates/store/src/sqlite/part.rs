//! The parts of a transaction: turns of coordinators, and turns of keyspaces.
//!
//! All of them share a transaction, so that they share its sync. When it fails, the turns of each
//! claim are tried alone: what one tenant ran into must not break the claims of another.

use std::collections::BTreeMap;
use std::time::Duration;

use model::ShardId;
use rusqlite::{Connection, OptionalExtension};
use shard::{ClaimedShard, Turn};
use tokio::sync::oneshot;

use super::commit;
use super::error::WriteError;
use super::keys;
use super::specs::SpecRows;
use crate::claims::{Claims, TurnKind};
use crate::contract::{CommitError, Committed, KeyspaceTurn, last_writes};
use crate::rows::Batch;

/// A turn, and who waits for it.
#[derive(Debug)]
pub(super) struct Pending {
    pub turn: PendingTurn,
    /// Whoever asked may have gone; then nobody hears the answer.
    pub reply: oneshot::Sender<Result<Committed, CommitError>>,
}

#[derive(Debug)]
pub(super) enum PendingTurn {
    Tasks(Turn),
    Keys(KeyspaceTurn),
}

/// One claim's turns of one kind.
type Key = (TurnKind, ShardId, u64);

impl Pending {
    fn key(&self) -> Key {
        let (kind, claim) = match &self.turn {
            PendingTurn::Tasks(turn) => (TurnKind::Tasks, turn.claim),
            PendingTurn::Keys(turn) => (TurnKind::Keys, turn.claim),
        };
        (kind, claim.shard, claim.epoch)
    }

    /// How many changes a transaction gets by it.
    pub(super) fn n_changes(&self) -> usize {
        match &self.turn {
            PendingTurn::Tasks(turn) => turn.changes.len() + turn.runs.len(),
            PendingTurn::Keys(turn) => turn.writes.len(),
        }
    }

    fn writes(&self) -> bool {
        match &self.turn {
            PendingTurn::Tasks(turn) => !turn.is_empty(),
            PendingTurn::Keys(turn) => !turn.writes.is_empty(),
        }
    }
}

/// What becomes of one claim's turns in a transaction.
#[derive(Debug)]
struct Fate {
    writes: bool,
    kept: Result<(), CommitError>,
}

/// Turns in order, and what becomes of them.
#[derive(Debug, Default)]
pub(super) struct Part {
    turns: Vec<Pending>,
    fates: BTreeMap<Key, Fate>,
}

impl Part {
    /// Turns, with what is known of their claims before the store is asked.
    pub(super) fn new(turns: Vec<Pending>, claims: &Claims) -> Self {
        let mut fates = BTreeMap::new();
        for pending in &turns {
            let key @ (kind, shard, epoch) = pending.key();
            let known =
                || Fate { writes: false, kept: claims.check(ClaimedShard { shard, epoch }, kind) };
            fates.entry(key).or_insert_with(known).writes |= pending.writes();
        }
        Self { turns, fates }
    }

    /// The turns of each claim apart.
    pub(super) fn split(self) -> impl Iterator<Item = Self> {
        let alone =
            |(key, fate)| (key, Self { turns: Vec::new(), fates: BTreeMap::from([(key, fate)]) });
        let mut parts: BTreeMap<Key, Self> = self.fates.into_iter().map(alone).collect();
        for pending in self.turns {
            parts.get_mut(&pending.key()).expect("every turn has a fate").turns.push(pending);
        }
        parts.into_values()
    }

    /// Whether there is something to write for a claim that may.
    pub(super) fn needs_transaction(&self) -> bool {
        self.fates.values().any(|fate| fate.writes && fate.kept.is_ok())
    }

    /// Its share of the transaction that is open.
    pub(super) fn write(
        &mut self,
        connection: &Connection,
        specs: &mut SpecRows,
    ) -> Result<(), WriteError> {
        self.fence(connection)?;
        let is_kept = |pending: &&Pending| self.fates[&pending.key()].kept.is_ok();
        let kept = || self.turns.iter().filter(is_kept).map(|pending| &pending.turn);
        let batch = Batch::fold(kept().filter_map(|turn| match turn {
            PendingTurn::Tasks(turn) => Some(turn),
            PendingTurn::Keys(_) => None,
        }))?;
        commit::write(connection, &batch, specs)?;
        let writes = last_writes(kept().filter_map(|turn| match turn {
            PendingTurn::Tasks(_) => None,
            PendingTurn::Keys(turn) => Some(turn),
        }));
        keys::write(connection, &writes)
    }

    /// Compares each claim with the store, inside the transaction: a stale one writes nothing.
    fn fence(&mut self, connection: &Connection) -> Result<(), WriteError> {
        let mut select = connection.prepare_cached("SELECT epoch FROM shards WHERE id = ?1")?;
        for (&(_, shard, epoch), fate) in &mut self.fates {
            if !fate.writes || fate.kept.is_err() {
                continue;
            }
            let current = select.query_row([shard.get()], |row| row.get::<_, i64>(0)).optional()?;
            if current.map(i64::cast_unsigned) != Some(epoch) {
                fate.kept = Err(CommitError::Fenced);
            }
        }
        Ok(())
    }

    /// Nothing of it was kept.
    pub(super) fn fail(&mut self, error: &WriteError) {
        let error = CommitError::Unavailable(error.to_string());
        for fate in self.fates.values_mut().filter(|fate| fate.writes && fate.kept.is_ok()) {
            fate.kept = Err(error.clone());
        }
    }

    /// Remembers which claims are broken, and answers each turn.
    pub(super) fn settle(self, claims: &mut Claims, took: Duration) {
        for (&(kind, shard, epoch), fate) in &self.fates {
            if let Err(error) = &fate.kept {
                claims.broke(ClaimedShard { shard, epoch }, kind, error);
            }
        }
        for pending in self.turns {
            let kept = self.fates[&pending.key()].kept.clone();
            drop(pending.reply.send(kept.map(|()| Committed { took })));
        }
    }
}
