//! Which claims are current, and which of them a failed turn has broken.

use std::collections::BTreeMap;

use model::ShardId;

use crate::contract::CommitError;
use shard::ClaimedShard;

/// The claims that this process made.
///
/// A turn builds on the turns before it. Once one was not kept, the later ones of the same claim
/// speak of facts that do not exist, so they fail until the shard is claimed anew.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    standing: BTreeMap<ShardId, Standing>,
}

#[derive(Clone, Debug)]
struct Standing {
    epoch: u64,
    /// Of each kind of turn: each builds on its own turns alone, so it breaks alone.
    broken: [Option<CommitError>; 2],
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TurnKind {
    /// A turn of the coordinator.
    Tasks,
    /// A turn of the keyspace.
    Keys,
}

impl Claims {
    /// A new claim; it forgets what broke the one before it.
    pub fn made(&mut self, claim: ClaimedShard) {
        let standing = Standing { epoch: claim.epoch, broken: [None, None] };
        self.standing.insert(claim.shard, standing);
    }

    /// Whether a turn of this claim may be tried. The fence in the store has the last word.
    pub fn check(&self, claim: ClaimedShard, kind: TurnKind) -> Result<(), CommitError> {
        self.current(claim)?.broken[kind as usize].clone().map_or(Ok(()), Err)
    }

    /// A turn of this claim was not kept.
    pub fn broke(&mut self, claim: ClaimedShard, kind: TurnKind, error: &CommitError) {
        let standing = self.standing.get_mut(&claim.shard);
        if let Some(standing) = standing.filter(|standing| standing.epoch == claim.epoch) {
            standing.broken[kind as usize].get_or_insert_with(|| earlier(error));
        }
    }

    /// Whoever keeps this shard's keyspace begins anew from what is durable.
    pub fn keys_restored(&mut self, shard: ShardId) {
        if let Some(standing) = self.standing.get_mut(&shard) {
            standing.broken[TurnKind::Keys as usize] = None;
        }
    }

    fn current(&self, claim: ClaimedShard) -> Result<&Standing, CommitError> {
        let standing = self.standing.get(&claim.shard);
        standing.filter(|standing| standing.epoch == claim.epoch).ok_or(CommitError::Fenced)
    }
}

/// What the turns after a failed one hear.
fn earlier(error: &CommitError) -> CommitError {
    match error {
        CommitError::Fenced => CommitError::Fenced,
        CommitError::Unavailable(why) => {
            CommitError::Unavailable(format!("an earlier turn was not kept: {why}"))
        }
    }
}
