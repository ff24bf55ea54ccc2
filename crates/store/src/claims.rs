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
    broken: Option<CommitError>,
    /// The keyspace builds on its own turns alone, so it breaks alone.
    keys_broken: Option<CommitError>,
}

impl Claims {
    /// A new claim; it forgets what broke the one before it.
    pub fn made(&mut self, claim: ClaimedShard) {
        let standing = Standing { epoch: claim.epoch, broken: None, keys_broken: None };
        self.standing.insert(claim.shard, standing);
    }

    /// Whether a turn of this claim may be tried. The fence in the store has the last word.
    pub fn check(&self, claim: ClaimedShard) -> Result<(), CommitError> {
        self.current(claim)?.broken.clone().map_or(Ok(()), Err)
    }

    /// Whether a turn of this claim's keyspace may be tried.
    pub fn check_keys(&self, claim: ClaimedShard) -> Result<(), CommitError> {
        self.current(claim)?.keys_broken.clone().map_or(Ok(()), Err)
    }

    /// A turn of this claim was not kept.
    pub fn broke(&mut self, claim: ClaimedShard, error: &CommitError) {
        if let Some(standing) = self.current_mut(claim) {
            standing.broken.get_or_insert_with(|| earlier(error));
        }
    }

    /// A turn of this claim's keyspace was not kept.
    pub fn broke_keys(&mut self, claim: ClaimedShard, error: &CommitError) {
        if let Some(standing) = self.current_mut(claim) {
            standing.keys_broken.get_or_insert_with(|| earlier(error));
        }
    }

    /// Whoever keeps this shard's keyspace begins anew from what is durable.
    pub fn keys_restored(&mut self, shard: ShardId) {
        if let Some(standing) = self.standing.get_mut(&shard) {
            standing.keys_broken = None;
        }
    }

    fn current(&self, claim: ClaimedShard) -> Result<&Standing, CommitError> {
        let standing = self.standing.get(&claim.shard);
        standing.filter(|standing| standing.epoch == claim.epoch).ok_or(CommitError::Fenced)
    }

    fn current_mut(&mut self, claim: ClaimedShard) -> Option<&mut Standing> {
        let standing = self.standing.get_mut(&claim.shard);
        standing.filter(|standing| standing.epoch == claim.epoch)
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
