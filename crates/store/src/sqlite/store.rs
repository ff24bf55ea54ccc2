//! The contract, carried out by a writer thread and a few readers.

use std::error::Error;
use std::future::ready;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use coordinator::{LoadKey, RunParts, RunRecord, TaskRecord};
use keyspace::Row;
use model::{QueueName, RunId, ShardId, TenantId};
use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::documents;
use super::error::WriteError;
use super::keys;
use super::open::{Checkpoints, DataFolder};
use super::part::{Pending, PendingTurn};
use super::read::{self, Readers};
use super::restore;
use super::run_read;
use super::specs::SpecRows;
use super::writer::{self, Failpoint, Job, Queue, Writer};
use crate::claims::Claims;
use crate::contract::{
    CommitError, Committed, DocumentVersion, KeyspaceTurn, Note, NoteKind, PageQuery, RunKey,
    RunPage, RunQuery, Store, StoreError, StoreRead, StoreWrite, TaskPage, TokenRow,
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
        self.queue.push(Job::Alone(Box::new(move |writer| {
            let set = writer.connection.pragma_update(None, "max_page_count", pages);
            set.expect("a test's own setting");
        })));
    }

    /// Queues a turn at once; the future only waits for its fate.
    fn queue_turn(&self, turn: PendingTurn) -> StoreWrite<Committed> {
        let (reply, answer) = oneshot::channel();
        self.queue.push(Job::Commit(Pending { turn, reply }));
        Box::pin(async move { answer.await.unwrap_or_else(writer_gone_from_turn) })
    }

    /// Queues work for the writer at once; the future only waits for its answer.
    fn order<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (reply, answer) = oneshot::channel();
        // Whoever asked may have gone; the work is done all the same.
        self.queue.push(Job::Alone(Box::new(move |writer| drop(reply.send(work(writer))))));
        answer
    }

    /// Keeps something in a transaction of its own.
    fn keep(
        &self,
        work: impl FnOnce(&Connection) -> Result<(), WriteError> + Send + 'static,
    ) -> StoreRead<()> {
        let answer = self.order(|writer| writer.keep(work));
        Box::pin(async { answer.await.unwrap_or_else(writer_gone) })
    }
}

fn writer_gone<T>(_: impl Error) -> Result<T, StoreError> {
    Err(StoreError::Unavailable(WRITER_GONE.into()))
}

fn writer_gone_from_turn<T>(_: impl Error) -> Result<T, CommitError> {
    Err(CommitError::Unavailable(WRITER_GONE.into()))
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
    fn claim(&self, tenant: TenantId) -> StoreRead<ClaimedShard> {
        let answer = self.order(move |writer| writer.claim(&tenant));
        Box::pin(async { answer.await.unwrap_or_else(writer_gone) })
    }

    fn raise_epoch(&self, claim: ClaimedShard) -> StoreWrite<ClaimedShard> {
        let answer = self.order(move |writer| writer.raise_epoch(claim));
        Box::pin(async { answer.await.unwrap_or_else(writer_gone_from_turn) })
    }

    fn restore(&self, shard: ClaimedShard) -> StoreRead<Restored> {
        self.readers.ask(move |connection| restore::restore(connection, shard.shard))
    }

    fn commit(&self, turn: Turn) -> StoreWrite<Committed> {
        self.queue_turn(PendingTurn::Tasks(turn))
    }

    fn commit_here(&self, turn: Turn) -> StoreWrite<Committed> {
        if !self.queue.try_take() {
            return self.commit(turn);
        }
        let _right = ReleaseOnDrop(&self.queue);
        let (reply, mut answer) = oneshot::channel();
        let turn = PendingTurn::Tasks(turn);
        self.writer.lock().commit(vec![Pending { turn, reply }]);
        Box::pin(ready(answer.try_recv().unwrap_or_else(writer_gone_from_turn)))
    }

    fn load(&self, shard: ShardId, keys: Vec<LoadKey>) -> StoreRead<Vec<(LoadKey, TaskRecord)>> {
        self.readers.ask(move |connection| read::load(connection, shard, keys))
    }

    fn run(&self, shard: ShardId, key: RunKey) -> StoreRead<Option<RunRecord>> {
        self.readers.ask(move |connection| run_read::run(connection, shard, &key))
    }

    fn runs(&self, shard: ShardId, query: RunQuery) -> StoreRead<RunPage> {
        self.readers.ask(move |connection| run_read::runs(connection, shard, &query))
    }

    fn run_parts(&self, shard: ShardId, run: RunId) -> StoreRead<RunParts> {
        self.readers.ask(move |connection| run_read::run_parts(connection, shard, run))
    }

    fn document_version(
        &self,
        shard: ShardId,
        kind: DocumentKind,
        key: String,
        version: Option<u64>,
    ) -> StoreRead<Option<DocumentVersion>> {
        self.readers
            .ask(move |connection| documents::version(connection, (shard, kind, &key), version))
    }

    fn document_versions(
        &self,
        shard: ShardId,
        kind: DocumentKind,
        key: String,
    ) -> StoreRead<Vec<DocumentVersion>> {
        self.readers.ask(move |connection| documents::versions(connection, (shard, kind, &key)))
    }

    fn tenant_of_hook(&self, digest: String) -> StoreRead<Option<TenantId>> {
        self.readers.ask(move |connection| documents::tenant_of_hook(connection, &digest))
    }

    fn list(&self, shard: ShardId, query: PageQuery) -> StoreRead<TaskPage> {
        self.readers.ask(move |connection| read::list(connection, shard, &query))
    }

    fn count_dead(&self, shard: ShardId) -> StoreRead<Vec<(QueueName, u64)>> {
        self.readers.ask(move |connection| read::count_dead(connection, shard))
    }

    fn tenants(&self) -> StoreRead<Vec<TenantId>> {
        self.readers.ask(read::tenants)
    }

    fn put_token(&self, token: TokenRow) -> StoreRead<()> {
        self.keep(move |connection| writer::put_token(connection, &token))
    }

    fn tokens(&self) -> StoreRead<Vec<TokenRow>> {
        self.readers.ask(read::tokens)
    }

    fn put_note(&self, note: Note) -> StoreRead<()> {
        self.keep(move |connection| writer::put_note(connection, &note))
    }

    fn notes(&self, kind: NoteKind) -> StoreRead<Vec<Note>> {
        self.readers.ask(move |connection| read::notes(connection, kind))
    }

    fn commit_keys(&self, turn: KeyspaceTurn) -> StoreWrite<Committed> {
        self.queue_turn(PendingTurn::Keys(turn))
    }

    fn restore_keys(&self, shard: ShardId) -> StoreRead<Vec<Row>> {
        let begun = self.order(move |writer| writer.claims.keys_restored(shard));
        let readers = Arc::clone(&self.readers);
        Box::pin(async move {
            // Every turn from before has met its fate when the rows are read.
            begun.await.or_else(writer_gone)?;
            readers.ask(move |connection| keys::restore(connection, shard)).await
        })
    }

    fn probe(&self) -> StoreRead<()> {
        self.keep(writer::probe)
    }
}
