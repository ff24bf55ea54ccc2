//! Which claims are current, and which of them a failed turn has broken.

use std::collections::BTreeMap;

use model::ShardId;

use crate::contract::{ClaimedShard, CommitError};

/// The claims that this process made.
///
/// A turn builds on the turns before it. Once one was not kept, the later ones of the same claim
/// speak of facts that do not exist, so they fail until the shard is claimed anew.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims {
    standing: BTreeMap<ShardId, Standing>,
}

#[derive(Clone, Debug)]
struct Standing {
    epoch: u64,
    broken: Option<CommitError>,
}

impl Claims {
    /// A new claim; it forgets what broke the one before it.
    pub(crate) fn made(&mut self, claim: ClaimedShard) {
        self.standing.insert(claim.shard, Standing { epoch: claim.epoch, broken: None });
    }

    /// Whether a turn of this claim may be tried. The fence in the store has the last word.
    pub(crate) fn check(&self, claim: ClaimedShard) -> Result<(), CommitError> {
        match self.standing.get(&claim.shard) {
            Some(standing) if standing.epoch == claim.epoch => {
                standing.broken.clone().map_or(Ok(()), Err)
            }
            _ => Err(CommitError::Fenced),
        }
    }

    /// A turn of this claim was not kept.
    pub(crate) fn broke(&mut self, claim: ClaimedShard, error: &CommitError) {
        let Some(standing) = self.standing.get_mut(&claim.shard) else { return };
        if standing.epoch == claim.epoch && standing.broken.is_none() {
            standing.broken = Some(match error {
                CommitError::Fenced => CommitError::Fenced,
                CommitError::Unavailable(why) => {
                    CommitError::Unavailable(format!("an earlier turn was not kept: {why}"))
                }
            });
        }
    }
}
