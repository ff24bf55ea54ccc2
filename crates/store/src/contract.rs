//! What every store owes the coordinator.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use coordinator::{LoadKey, RunParts, RunRecord, RunWord, StateWord, TaskRecord};
use keyspace::{Row, Write};
use model::{
    IdempotencyKey, QueueName, RunId, RunName, ShardId, TaskId, TenantId, Timestamp, TypeName,
    WorkerId,
};
use shard::{ClaimedShard, DocumentKind, Restored, Turn};

/// What an asynchronous call gives.
pub type StoreFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
/// What a question to the store gives.
pub type StoreRead<T> = StoreFuture<Result<T, StoreError>>;
/// What becomes of something that is to be kept under a claim.
pub type StoreWrite<T> = StoreFuture<Result<T, CommitError>>;

/// A durable, fenced memory. Cheap to share; every method may be called from any thread.
pub trait Store: Send + Sync + 'static {
    /// Takes a tenant's shard over: creates it if it is new, and raises its epoch by one, so that
    /// whatever a former owner still commits fails as a whole.
    fn claim(&self, tenant: TenantId) -> StoreRead<ClaimedShard>;

    /// Raises the epoch of a shard that the caller owns; fails like a commit if it does not.
    fn raise_epoch(&self, claim: ClaimedShard) -> StoreWrite<ClaimedShard>;

    /// What a claimed shard holds: live tasks and runs, the numbers that the next new ones get, and
    /// what people set.
    fn restore(&self, shard: ClaimedShard) -> StoreRead<Restored>;

    /// Makes a turn's changes durable, all or none.
    ///
    /// The order of the calls is the order of the commits. The turn is queued before this returns;
    /// the future only waits for it. After one failed turn every later turn of the same claim
    /// fails too, because it builds on facts that were never kept: claim and restore again.
    fn commit(&self, turn: Turn) -> StoreWrite<Committed>;

    /// The same, on the calling thread where that is possible at once: a hand-off to a writer and
    /// back costs more than a small transaction. The thread is blocked for as long as a sync takes.
    fn commit_here(&self, turn: Turn) -> StoreWrite<Committed> {
        self.commit(turn)
    }

    /// The tasks that these keys name, live or settled, as they are durable now.
    fn load(&self, shard: ShardId, keys: Vec<LoadKey>) -> StoreRead<Vec<(LoadKey, TaskRecord)>>;

    /// A run, live or ended, as it is durable now.
    fn run(&self, shard: ShardId, key: RunKey) -> StoreRead<Option<RunRecord>>;

    /// A page of runs, newest first. A page may be short and still have a next one, as with `list`.
    fn runs(&self, shard: ShardId, query: RunQuery) -> StoreRead<RunPage>;

    /// Everything that belongs to a run, as it is durable now; empty for one that is not known.
    fn run_parts(&self, shard: ShardId, run: RunId) -> StoreRead<RunParts>;

    /// The newest version of a document whose body has a row of its own, unless a number says which,
    /// as it is durable now.
    fn document_version(
        &self,
        shard: ShardId,
        kind: DocumentKind,
        key: String,
        version: Option<u64>,
    ) -> StoreRead<Option<DocumentVersion>>;

    /// Every such version of a document, newest first, without bodies.
    fn document_versions(
        &self,
        shard: ShardId,
        kind: DocumentKind,
        key: String,
    ) -> StoreRead<Vec<DocumentVersion>>;

    /// The tenant whose webhook has this digest. It is looked up in the documents themselves, so it
    /// is found exactly as long as the webhook is durable.
    fn tenant_of_hook(&self, digest: String) -> StoreRead<Option<TenantId>>;

    /// A page of tasks, newest first.
    fn list(&self, shard: ShardId, query: PageQuery) -> StoreRead<TaskPage>;

    /// How many tasks of each queue are dead.
    fn count_dead(&self, shard: ShardId) -> StoreRead<Vec<(QueueName, u64)>>;

    /// Every tenant that has a shard or a token, by name.
    fn tenants(&self) -> StoreRead<Vec<TenantId>>;

    /// Keeps a new token, or a token's new state (same `token_id`).
    fn put_token(&self, token: TokenRow) -> StoreRead<()>;

    /// Every token, oldest first.
    fn tokens(&self) -> StoreRead<Vec<TokenRow>>;

    /// Keeps a small document under its name; an empty one is forgotten.
    fn put_note(&self, note: Note) -> StoreRead<()>;

    /// Every document of a kind, of all tenants, by name.
    fn notes(&self, kind: NoteKind) -> StoreRead<Vec<Note>>;

    /// Makes a turn of a shard's keyspace durable, all or none.
    ///
    /// As with `commit`, the turn is queued before this returns, turns are kept in the order of the
    /// calls, and a stale claim keeps nothing. After one failed turn every later one of the same
    /// claim fails too, until [`Store::restore_keys`] or a new claim. The coordinator's turns
    /// have a standing of their own: a failure of either breaks nothing of the other, because
    /// neither builds on what the other wrote.
    fn commit_keys(&self, turn: KeyspaceTurn) -> StoreWrite<Committed>;

    /// Every key of a shard's keyspace, by name, as it is durable now.
    ///
    /// This takes its place among the turns before it returns. Turns from before still share the
    /// fate of a failed one; turns from after it are tried again, so whoever calls this must
    /// throw away what it had in memory and build on the rows.
    fn restore_keys(&self, shard: ShardId) -> StoreRead<Vec<Row>>;

    /// Whether the store can keep something right now: writes and syncs a probe.
    fn probe(&self) -> StoreRead<()>;
}

/// What became true in a keyspace.
#[derive(Clone, Debug)]
pub struct KeyspaceTurn {
    /// Whose turn; the claim is the one of the shard's coordinator.
    pub claim: ClaimedShard,
    /// The changes to its rows, in order.
    pub writes: Vec<Write>,
}

/// A turn is durable.
#[derive(Clone, Copy, Debug)]
pub struct Committed {
    /// How long its transaction took, sync included.
    pub took: Duration,
}

/// A turn is not durable; nothing of it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// Someone claimed the shard since.
    #[error("the shard has a new owner")]
    Fenced,
    /// The store could not write or sync it, or could not write what it builds on.
    #[error("the store cannot keep it: {0}")]
    Unavailable(String),
}

/// The store could not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It cannot read or write right now.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// What it read is not what was once written.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// Another process has it open.
    #[error("{0}")]
    InUse(String),
}

/// What a run is looked up by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunKey {
    /// By its name.
    Id(RunId),
    /// By its starter's key.
    Idempotency(IdempotencyKey),
}

/// Which runs a page shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunQuery {
    /// Only runs that ended so (`Some`), or that are live (`None`); empty means all.
    pub ends: Vec<Option<RunWord>>,
    /// Of the live ones only those of which a node began, or none has.
    pub begun: Option<bool>,
    /// Only runs of this browser or program.
    pub client_id: Option<String>,
    /// Only runs of this workflow.
    pub workflow_id: Option<String>,
    /// Only runs older than this one.
    pub before: Option<RunId>,
    /// At most so many.
    pub limit: u32,
}

/// A page of runs.
#[derive(Debug, Default, PartialEq)]
pub struct RunPage {
    /// Newest first; what may be long is left out: definition, inputs, outputs and the details of
    /// a failure.
    pub runs: Vec<RunRecord>,
    /// Where to go on.
    pub next_before: Option<RunId>,
}

/// A version of a document whose body has a row of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentVersion {
    /// The document's row, as it is now.
    pub newest: String,
    /// The document's row, as it was in this version.
    pub json: String,
    /// The body; empty in lists.
    pub body: Bytes,
}

/// Which tasks a page shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageQuery {
    /// Only these states; empty means all.
    pub states: Vec<StateWord>,
    /// Only these types; empty means all.
    pub task_types: Vec<TypeName>,
    /// Only this queue.
    pub queue: Option<QueueName>,
    /// Only this run.
    pub run: Option<RunName>,
    /// Only tasks that this worker holds, or settled.
    pub holder: Option<WorkerId>,
    /// Only tasks in whose id, holder or parameters each of these occurs.
    pub words: Vec<String>,
    /// Only tasks submitted before this one.
    pub before: Option<TaskId>,
    /// Leaves out so many of the newest that would be shown.
    pub skip: usize,
    /// At most so many.
    pub limit: u32,
    /// How much of each task the page carries.
    pub detail: Detail,
}

/// How much of a task a page carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// All of it.
    #[default]
    Whole,
    /// What a list shows: large payloads are not read. Parameters end after
    /// [`SUMMARY_PARAMETERS_BYTES`]; results and details of failures of more than
    /// [`SUMMARY_RESULT_BYTES_MAX`] are left out.
    Summary,
}

/// Parameters of a [`Detail::Summary`]; the names that a job is known by stand before that.
pub const SUMMARY_PARAMETERS_BYTES: usize = 512;
/// Limit: a result, or details of a failure, in a list of jobs; longer ones are left out.
pub const SUMMARY_RESULT_BYTES_MAX: usize = 4 * 1024;

/// A page of tasks.
#[derive(Debug, Default, PartialEq)]
pub struct TaskPage {
    /// Newest first.
    pub tasks: Vec<TaskRecord>,
    /// Where to go on. A page may be short and still have one: one call looks at a bounded number
    /// of rows, so that a rare state cannot make the store read everything.
    pub next_before: Option<TaskId>,
    /// How many of the tasks to be left out were left out on this page.
    pub skipped: usize,
}

/// What kind of small document it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoteKind {
    /// A key that signs session tokens, by its id; these belong to no tenant.
    SessionKey,
    /// How far the ids of events had gone before a shard's epoch numbered them, by the tenant's
    /// name. Read, and never written.
    EventFloor,
}

impl NoteKind {
    /// Its name in the store.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SessionKey => "session_key",
            Self::EventFloor => "event_floor",
        }
    }
}

/// A small document beside the tasks, which no coordinator decides about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// What it is.
    pub kind: NoteKind,
    /// Whose; empty for what belongs to the server.
    pub tenant: String,
    /// Its name.
    pub key: String,
    /// JSON; `None` forgets it.
    pub json: Option<String>,
}

/// A token, as it is kept: its secret only as a digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRow {
    /// Names it.
    pub token_id: String,
    /// Whose.
    pub tenant: TenantId,
    /// What its bearer may do; a word of the `protocol` crate.
    pub role: String,
    /// The one worker that its bearer may speak for; `None` is any.
    pub worker: Option<WorkerId>,
    /// SHA-256 of the secret.
    pub digest: [u8; 32],
    /// A note for people.
    pub name: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// The last write to each key of these turns, in the order of the keys, so that each page is looked
/// up once. A key that is set in a hundred turns of one transaction is written once.
pub(crate) fn last_writes<'a>(
    turns: impl Iterator<Item = &'a KeyspaceTurn>,
) -> BTreeMap<(ShardId, &'a [u8]), &'a Write> {
    let writes = turns.flat_map(|turn| turn.writes.iter().map(|write| (turn.claim.shard, write)));
    writes.map(|(shard, write)| ((shard, &write.key()[..]), write)).collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use keyspace::{Kind, Row};
    use shard::ClaimedShard;

    use super::*;

    const KEY: Bytes = Bytes::from_static(b"k");

    fn put(value: &'static str) -> Write {
        Write::Put(Row { key: KEY, kind: Kind::String, expires_at: None, value: value.into() })
    }

    fn check(turns: &[&[Write]], expected: &Write) {
        let claim = ClaimedShard { shard: ShardId::new(1).expect("valid"), epoch: 1 };
        let turns: Vec<_> =
            turns.iter().map(|writes| KeyspaceTurn { claim, writes: writes.to_vec() }).collect();
        let writes: Vec<_> = last_writes(turns.iter()).into_values().collect();
        assert_eq!(writes, [expected]);
    }

    #[test]
    fn the_last_write_to_a_key_wins() {
        check(&[&[put("1"), put("2")], &[put("3")]], &put("3"));
        check(&[&[put("1")], &[Write::Delete(KEY)]], &Write::Delete(KEY));
        check(&[&[Write::Delete(KEY), put("2")]], &put("2"));
    }
}
