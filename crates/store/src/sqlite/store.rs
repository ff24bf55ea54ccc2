//! The contract, carried out by a writer thread and a few readers.

use std::future::ready;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use coordinator::{LoadKey, RunRecord, TaskRecord};
use keyspace::Row;
use model::{QueueName, RunId, ShardId, TenantId};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::documents;
use super::keys;
use super::open::Checkpoints;
use super::open::DataFolder;
use super::read::{self, Readers};
use super::restore;
use super::run_read;
use super::specs::SpecRows;
use super::writer::Failpoint;
use super::writer::Writer;
use super::writer::{Job, PendingKeys, PendingNote, PendingTurn, Queue, Reply};
use crate::claims::Claims;
use crate::contract::{
    CommitError, Committed, DocumentVersion, KeyspaceTurn, Note, NoteKind, PageQuery, RunKey,
    RunPage, RunParts, RunQuery, Store, StoreError, StoreFuture, TaskPage, TokenRow,
};
use shard::{ClaimedShard, DocumentKind, Restored, Turn};

const WRITER_GONE: &str = "its writer has ended";

/// A store in a data folder. When it is dropped, everything asked before is done first.
#[derive(Debug)]
pub struct SqliteStore {
    queue: Arc<Queue>,
    readers: Arc<Readers>,
    writer: Arc<Mutex<Writer>>,
    thread: Option<JoinHandle<()>>,
}

impl SqliteStore {
    /// Opens the store in a data folder, and makes both if they are missing.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        Self::open_with(folder, None)
    }

    /// The same, for a process that is to end at a chosen commit: only programs for tests do this.
    pub fn open_with(folder: &Path, failpoint: Option<Failpoint>) -> Result<Self, StoreError> {
        let folder = DataFolder::take(folder)?;
        let queue = Arc::new(Queue::default());
        let connection = folder.open_writer()?;
        let checkpoints = Checkpoints::start(folder.open_checkpointer()?, Arc::clone(&queue))
            .map_err(|error| cannot_start(&error))?;
        let writer = Arc::new(Mutex::new(Writer {
            connection,
            checkpoints,
            claims: Claims::default(),
            specs: SpecRows::default(),
            failpoint,
        }));
        let lock = folder.clone();
        let (own, jobs) = (Arc::clone(&writer), Arc::clone(&queue));
        let thread = thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || {
                Writer::run(&own, jobs);
                // The folder is free only after the last write.
                drop(lock);
            })
            .map_err(|error| cannot_start(&error))?;
        let readers = Arc::new(Readers::new(folder));
        Ok(Self { queue, readers, writer, thread: Some(thread) })
    }

    /// Lets the database grow to so many pages and no further, like a disk that is full.
    #[doc(hidden)]
    pub fn limit_pages(&self, pages: u32) {
        self.queue.push(Job::LimitPages(pages));
    }

    /// Queues a turn at once; the future only waits for its fate.
    fn queue_turn(
        &self,
        job: impl FnOnce(Reply<Result<Committed, CommitError>>) -> Job,
    ) -> StoreFuture<Result<Committed, CommitError>> {
        let (reply, answer) = oneshot::channel();
        self.queue.push(job(reply));
        Box::pin(async move {
            answer.await.unwrap_or_else(|_| Err(CommitError::Unavailable(WRITER_GONE.into())))
        })
    }

    /// Queues a job at once; the future only waits for its answer.
    fn order<T: Send + 'static>(
        &self,
        job: impl FnOnce(Reply<Result<T, StoreError>>) -> Job,
    ) -> StoreFuture<Result<T, StoreError>> {
        let (reply, answer) = oneshot::channel();
        self.queue.push(job(reply));
        Box::pin(async move {
            answer.await.unwrap_or_else(|_| Err(StoreError::Unavailable(WRITER_GONE.into())))
        })
    }
}

/// However a commit ends, others may write again.
struct ReleaseOnDrop<'a>(&'a Queue);

impl Drop for ReleaseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

fn cannot_start(error: &std::io::Error) -> StoreError {
    StoreError::Unavailable(format!("cannot start a thread: {error}"))
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.queue.push(Job::Stop);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the writer of the store panicked");
        }
    }
}

impl Store for SqliteStore {
    fn claim(&self, tenant: TenantId) -> StoreFuture<Result<ClaimedShard, StoreError>> {
        self.order(|reply| Job::Claim(tenant, reply))
    }

    fn raise_epoch(&self, claim: ClaimedShard) -> StoreFuture<Result<ClaimedShard, CommitError>> {
        let (reply, answer) = oneshot::channel();
        self.queue.push(Job::RaiseEpoch(claim, reply));
        Box::pin(async move {
            answer.await.unwrap_or_else(|_| Err(CommitError::Unavailable(WRITER_GONE.into())))
        })
    }

    fn restore(&self, shard: ClaimedShard) -> StoreFuture<Result<Restored, StoreError>> {
        self.readers.ask(move |connection| restore::restore(connection, shard.shard))
    }

    fn commit(&self, turn: Turn) -> StoreFuture<Result<Committed, CommitError>> {
        self.queue_turn(|reply| Job::Commit(PendingTurn { turn, reply }))
    }

    fn commit_here(&self, turn: Turn) -> StoreFuture<Result<Committed, CommitError>> {
        if !self.queue.try_take() {
            return self.commit(turn);
        }
        let _right = ReleaseOnDrop(&self.queue);
        let (reply, mut answer) = oneshot::channel();
        self.writer.lock().commit_one(PendingTurn { turn, reply });
        let gone = |_| Err(CommitError::Unavailable(WRITER_GONE.into()));
        Box::pin(ready(answer.try_recv().unwrap_or_else(gone)))
    }

    fn load(
        &self,
        shard: ShardId,
        keys: Vec<LoadKey>,
    ) -> StoreFuture<Result<Vec<(LoadKey, TaskRecord)>, StoreError>> {
        self.readers.ask(move |connection| read::load(connection, shard, keys))
    }

    fn run(
        &self,
        shard: ShardId,
        key: RunKey,
    ) -> StoreFuture<Result<Option<RunRecord>, StoreError>> {
        self.readers.ask(move |connection| run_read::run(connection, shard, &key))
    }

    fn runs(&self, shard: ShardId, query: RunQuery) -> StoreFuture<Result<RunPage, StoreError>> {
        self.readers.ask(move |connection| run_read::runs(connection, shard, &query))
    }

    fn run_parts(&self, shard: ShardId, run: RunId) -> StoreFuture<Result<RunParts, StoreError>> {
        self.readers.ask(move |connection| run_read::run_parts(connection, shard, run))
    }

    fn document_version(
        &self,
        shard: ShardId,
        kind: DocumentKind,
        key: String,
        version: Option<u64>,
    ) -> StoreFuture<Result<Option<DocumentVersion>, StoreError>> {
        self.readers
            .ask(move |connection| documents::version(connection, (shard, kind, &key), version))
    }

    fn document_versions(
        &self,
        shard: ShardId,
        kind: DocumentKind,
        key: String,
    ) -> StoreFuture<Result<Vec<DocumentVersion>, StoreError>> {
        self.readers.ask(move |connection| documents::versions(connection, (shard, kind, &key)))
    }

    fn tenant_of_hook(&self, digest: String) -> StoreFuture<Result<Option<TenantId>, StoreError>> {
        self.readers.ask(move |connection| documents::tenant_of_hook(connection, &digest))
    }

    fn list(&self, shard: ShardId, query: PageQuery) -> StoreFuture<Result<TaskPage, StoreError>> {
        self.readers.ask(move |connection| read::list(connection, shard, &query))
    }

    fn count_dead(&self, shard: ShardId) -> StoreFuture<Result<Vec<(QueueName, u64)>, StoreError>> {
        self.readers.ask(move |connection| read::count_dead(connection, shard))
    }

    fn tenants(&self) -> StoreFuture<Result<Vec<TenantId>, StoreError>> {
        self.readers.ask(read::tenants)
    }

    fn put_token(&self, token: TokenRow) -> StoreFuture<Result<(), StoreError>> {
        self.order(|reply| Job::PutToken(Box::new(token), reply))
    }

    fn tokens(&self) -> StoreFuture<Result<Vec<TokenRow>, StoreError>> {
        self.readers.ask(read::tokens)
    }

    fn put_note(&self, note: Note) -> StoreFuture<Result<(), StoreError>> {
        self.order(|reply| Job::PutNote(PendingNote { note, reply }))
    }

    fn notes(&self, kind: NoteKind) -> StoreFuture<Result<Vec<Note>, StoreError>> {
        self.readers.ask(move |connection| read::notes(connection, kind))
    }

    fn commit_keys(&self, turn: KeyspaceTurn) -> StoreFuture<Result<Committed, CommitError>> {
        self.queue_turn(|reply| Job::CommitKeys(PendingKeys { turn, reply }))
    }

    fn restore_keys(&self, shard: ShardId) -> StoreFuture<Result<Vec<Row>, StoreError>> {
        let (reply, begun) = oneshot::channel();
        self.queue.push(Job::KeysRestored(shard, reply));
        let readers = Arc::clone(&self.readers);
        Box::pin(async move {
            // Every turn from before has met its fate when the rows are read.
            begun.await.map_err(|_| StoreError::Unavailable(WRITER_GONE.into()))?;
            readers.ask(move |connection| keys::restore(connection, shard)).await
        })
    }

    fn probe(&self) -> StoreFuture<Result<(), StoreError>> {
        self.order(Job::Probe)
    }
}
