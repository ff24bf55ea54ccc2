//! What one commit makes durable, and what comes back after a restart.

use bytes::Bytes;
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
    /// What it says; `None` removes it, with every body that it had.
    pub json: Option<String>,
    /// A body that is too long for the row, or of which every version stays. A restore leaves it in
    /// the store.
    pub body: Option<DocumentBody>,
}

/// What one version of a document says at length. It is kept until the document is removed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DocumentBody {
    /// Of which version.
    pub version: u64,
    /// JSON, as it was given.
    pub bytes: Bytes,
}

/// What a document is. The order is that of the names, so that it is that of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DocumentKind {
    /// The jobs that were made of a plan together, by the name of their run.
    Action,
    /// A webhook, by the digest of the secret in its path.
    Hook,
    /// What a worker without a session registered, by its name.
    Member,
    /// A plan, by its name.
    Plan,
    /// A worker's session, by its instance id.
    Session,
    /// A workflow that someone saved, by its id.
    Workflow,
}

impl DocumentKind {
    /// Every kind.
    pub const ALL: [Self; 6] =
        [Self::Action, Self::Hook, Self::Member, Self::Plan, Self::Session, Self::Workflow];

    /// Its name in the store.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Action => "action",
            Self::Hook => "hook",
            Self::Member => "member",
            Self::Plan => "plan",
            Self::Session => "session",
            Self::Workflow => "workflow",
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
