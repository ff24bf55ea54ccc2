//! What one commit makes durable, and what comes back after a restart.

use coordinator::{Change, RestoredRun, RunChange, TaskRecord, TenantChange, TenantSettings};
use model::ShardId;

/// The right to commit to one shard, until someone claims it anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimedShard {
    /// The claimed shard.
    pub shard: ShardId,
    /// Fences coordinators, as a lease's epoch fences workers.
    pub epoch: u64,
}

/// What a claimed shard holds.
#[derive(Debug, Default, PartialEq)]
pub struct Restored {
    /// Live tasks, oldest first.
    pub tasks: Vec<TaskRecord>,
    /// The number that the next new task gets.
    pub next_number: u64,
    /// Live runs, oldest first.
    pub runs: Vec<RestoredRun>,
    /// The number that the next new run gets; the first is 1.
    pub next_run: u64,
    /// What people said about queues and workers.
    pub settings: TenantSettings,
}

/// What one turn of a shard made true.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The claim under which it is committed.
    pub claim: ClaimedShard,
    /// Rises by one with each turn of a claim.
    pub number: u64,
    /// The facts about tasks, in order.
    pub changes: Vec<Change>,
    /// The facts about runs, in order.
    pub runs: Vec<RunChange>,
    /// The facts about the tenant as a whole, in order.
    pub tenant: Vec<TenantChange>,
}

impl Turn {
    /// A turn of a claim without any fact.
    pub fn empty(claim: ClaimedShard) -> Self {
        Self { claim, number: 1, changes: Vec::new(), runs: Vec::new(), tenant: Vec::new() }
    }

    /// Whether there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.runs.is_empty() && self.tenant.is_empty()
    }
}
