//! What the stories share.

use std::path::Path;
use std::sync::Arc;

use crate::conformance::{granted, settled, submitted, tenant};
use coordinator::{Change, RunChange};
use model::TaskId;
use shard::{ClaimedShard, Turn};
use store::{CommitError, SqliteStore, Store};
use tempfile::TempDir;

pub(crate) fn block_on<T>(story: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(story)
}

pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

pub(crate) fn open(folder: &Path) -> SqliteStore {
    SqliteStore::open(folder).expect("opens")
}

pub(crate) async fn claim(store: &dyn Store) -> ClaimedShard {
    store.claim(tenant("acme")).await.expect("claims")
}

pub(crate) async fn commit(
    store: &dyn Store,
    claim: ClaimedShard,
    changes: Vec<Change>,
) -> Result<(), CommitError> {
    store.commit(Turn { changes, ..Turn::empty(claim) }).await.map(|_| ())
}

/// A turn of runs alone.
pub(crate) async fn commit_runs(
    store: &dyn Store,
    claim: ClaimedShard,
    runs: Vec<RunChange>,
) -> Result<(), CommitError> {
    store.commit(Turn { runs, ..Turn::empty(claim) }).await.map(|_| ())
}

pub(crate) fn submit(claim: ClaimedShard, number: u64) -> Change {
    submitted(TaskId::of(claim.shard, number))
}

/// A whole life in one turn.
pub(crate) fn life(claim: ClaimedShard, number: u64) -> Vec<Change> {
    let task = TaskId::of(claim.shard, number);
    vec![submitted(task), granted(task, 1), settled(task, 1)]
}

/// The raw database, as a person with the `sqlite3` shell has it.
pub(crate) fn raw(folder: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(folder.join("astra.db")).expect("opens")
}

pub(crate) async fn live(store: &dyn Store, claim: ClaimedShard) -> Vec<u64> {
    let restored = store.restore(claim).await.expect("restores");
    restored.tasks.iter().map(|task| task.id.number()).collect()
}

/// The disk takes no more pages.
pub(crate) fn fill(folder: &Path, store: &SqliteStore) {
    let n_pages: u32 =
        raw(folder).query_row("PRAGMA page_count", [], |row| row.get(0)).expect("a number");
    store.limit_pages(n_pages);
}

/// The disk has room again.
pub(crate) fn empty(store: &SqliteStore) {
    store.limit_pages(u32::MAX >> 1);
}

/// Keeps its folder as long as it is in use.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: folder() }
    }

    pub(crate) fn open(&self) -> Arc<dyn Store> {
        Arc::new(open(self.folder.path()))
    }
}
