//! The parts of a transaction: turns of coordinators, and turns of keyspaces.
//!
//! All of them share a transaction, so that they share its sync. When it fails, the turns of each
//! claim are tried alone: what one tenant ran into must not break the claims of another.

use std::collections::BTreeMap;
use std::time::Duration;

use model::ShardId;
use rusqlite::{Connection, OptionalExtension};

use super::commit;
use super::error::WriteError;
use super::keys;
use super::specs::SpecRows;
use super::writer::{PendingKeys, PendingTurn, Reply};
use crate::claims::Claims;
use crate::contract::last_writes;
use crate::contract::{CommitError, Committed};
use crate::rows::Batch;
use shard::ClaimedShard;

/// What becomes of one claim's turns in a transaction.
#[derive(Debug)]
struct Fate {
    writes: bool,
    kept: Result<(), CommitError>,
}

/// Turns of one sort, in order, and what becomes of them.
#[derive(Debug)]
pub(super) struct Part {
    turns: Turns,
    fates: BTreeMap<(ShardId, u64), Fate>,
}

#[derive(Debug)]
enum Turns {
    Tasks(Vec<PendingTurn>),
    Keys(Vec<PendingKeys>),
}

impl Part {
    /// Turns of coordinators, with what is known of their claims before the store is asked.
    pub(super) fn of_tasks(pending: Vec<PendingTurn>, claims: &Claims) -> Self {
        let mut part = Self { turns: Turns::Tasks(Vec::new()), fates: BTreeMap::new() };
        for PendingTurn { turn, .. } in &pending {
            part.expect(turn.claim, !turn.is_empty(), || claims.check(turn.claim));
        }
        part.turns = Turns::Tasks(pending);
        part
    }

    /// Turns of keyspaces.
    pub(super) fn of_keys(pending: Vec<PendingKeys>, claims: &Claims) -> Self {
        let mut part = Self { turns: Turns::Keys(Vec::new()), fates: BTreeMap::new() };
        for PendingKeys { turn, .. } in &pending {
            part.expect(turn.claim, !turn.writes.is_empty(), || claims.check_keys(turn.claim));
        }
        part.turns = Turns::Keys(pending);
        part
    }

    fn expect(
        &mut self,
        claim: ClaimedShard,
        writes: bool,
        known: impl FnOnce() -> Result<(), CommitError>,
    ) {
        let fate = self.fates.entry(key(claim));
        fate.or_insert_with(|| Fate { writes: false, kept: known() }).writes |= writes;
    }

    /// The turns of each claim apart.
    pub(super) fn split(self) -> Vec<Self> {
        let Self { turns, fates } = self;
        let mut parts: BTreeMap<_, _> = fates
            .into_iter()
            .map(|(key, fate)| {
                let turns = match &turns {
                    Turns::Tasks(_) => Turns::Tasks(Vec::new()),
                    Turns::Keys(_) => Turns::Keys(Vec::new()),
                };
                (key, Self { turns, fates: BTreeMap::from([(key, fate)]) })
            })
            .collect();
        let no_fate = "every turn has a fate";
        match turns {
            Turns::Tasks(pending) => {
                for one in pending {
                    let part = parts.get_mut(&key(one.turn.claim)).expect(no_fate);
                    if let Turns::Tasks(own) = &mut part.turns {
                        own.push(one);
                    }
                }
            }
            Turns::Keys(pending) => {
                for one in pending {
                    let part = parts.get_mut(&key(one.turn.claim)).expect(no_fate);
                    if let Turns::Keys(own) = &mut part.turns {
                        own.push(one);
                    }
                }
            }
        }
        parts.into_values().collect()
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
        let is_kept = |claim| self.fates[&key(claim)].kept.is_ok();
        match &self.turns {
            Turns::Tasks(pending) => {
                let turns = pending.iter().map(|pending| &pending.turn);
                let batch = Batch::fold(turns.filter(|turn| is_kept(turn.claim)))?;
                commit::write(connection, &batch, specs)
            }
            Turns::Keys(pending) => {
                let turns = pending.iter().map(|pending| &pending.turn);
                let turns = turns.filter(|turn| is_kept(turn.claim));
                keys::write(connection, &last_writes(turns))
            }
        }
    }

    /// Compares each claim with the store, inside the transaction: a stale one writes nothing.
    fn fence(&mut self, connection: &Connection) -> Result<(), WriteError> {
        let mut select = connection.prepare_cached("SELECT epoch FROM shards WHERE id = ?1")?;
        for (&(shard, epoch), fate) in &mut self.fates {
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
        for (&(shard, epoch), fate) in &self.fates {
            if let Err(error) = &fate.kept {
                let claim = ClaimedShard { shard, epoch };
                match self.turns {
                    Turns::Tasks(_) => claims.broke(claim, error),
                    Turns::Keys(_) => claims.broke_keys(claim, error),
                }
            }
        }
        let answer = |claim, reply: Reply<_>| {
            let kept = self.fates[&key(claim)].kept.clone();
            // Whoever asked may have gone.
            drop(reply.send(kept.map(|()| Committed { took })));
        };
        match self.turns {
            Turns::Tasks(pending) => {
                for PendingTurn { turn, reply } in pending {
                    answer(turn.claim, reply);
                }
            }
            Turns::Keys(pending) => {
                for PendingKeys { turn, reply } in pending {
                    answer(turn.claim, reply);
                }
            }
        }
    }
}

fn key(claim: ClaimedShard) -> (ShardId, u64) {
    (claim.shard, claim.epoch)
}
