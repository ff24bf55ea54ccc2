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
    /// The tenant's documents, by kind and key.
    pub documents: Vec<Document>,
}

/// A small text that a tenant keeps beside its facts, replaced or removed as a whole.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Document {
    /// What it is.
    pub kind: DocumentKind,
    /// Which one.
    pub key: String,
    /// What it says; `None` removes it.
    pub json: Option<String>,
}

/// What a document is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DocumentKind {
    /// A worker's session, by its instance id.
    Session,
}

impl DocumentKind {
    /// Every kind.
    pub const ALL: [Self; 1] = [Self::Session];

    /// Its name in the store.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
        }
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
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
    /// Documents that are kept, replaced or removed, in order.
    pub documents: Vec<Document>,
}

impl Turn {
    /// A turn of a claim without any fact.
    pub fn empty(claim: ClaimedShard) -> Self {
        Self {
            claim,
            number: 1,
            changes: Vec::new(),
            runs: Vec::new(),
            tenant: Vec::new(),
            documents: Vec::new(),
        }
    }

    /// How many facts there are to keep.
    pub fn n_facts(&self) -> usize {
        self.changes.len() + self.runs.len() + self.tenant.len() + self.documents.len()
    }

    /// Whether there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        self.n_facts() == 0
    }
}
