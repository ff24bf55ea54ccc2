//! The reference tables as a store without a thread, for tests whose clock only jumps.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use coordinator::{LoadKey, RunParts, RunRecord, TaskRecord};
use keyspace::Row;
use model::{QueueName, RunId, ShardId, TenantId};
use parking_lot::Mutex;

use shard::{ClaimedShard, DocumentKind, Restored, Turn};
use store::{
    Claims, CommitError, Committed, DocumentVersion, KeyspaceTurn, Note, NoteKind, PageQuery,
    RunKey, RunPage, RunQuery, Store, StoreError, StoreFuture, TaskPage, TokenRow, TurnKind,
};

use crate::tables::Tables;

/// [`Tables`] behind the contract. Clones share what they hold.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    tables: Tables,
    claims: Claims,
    is_unavailable: bool,
}

const TOLD_TO_FAIL: &str = "it was told to fail";

fn no_lists() -> StoreError {
    StoreError::Unavailable("the reference tables keep no lists".into())
}

impl MemoryStore {
    /// Whether it can read and write from here on; a test's switch for a disk in trouble.
    pub fn set_available(&self, is_available: bool) {
        self.inner.lock().is_unavailable = !is_available;
    }

    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Inner) -> T,
    ) -> StoreFuture<Result<T, StoreError>> {
        let mut inner = self.inner.lock();
        let answer = if inner.is_unavailable {
            Err(StoreError::Unavailable(TOLD_TO_FAIL.into()))
        } else {
            Ok(question(&mut inner))
        };
        Box::pin(ready(answer))
    }
}

impl Inner {
    fn raise_epoch(&mut self, claim: ClaimedShard) -> Result<ClaimedShard, CommitError> {
        self.claims.check(claim, TurnKind::Tasks)?;
        if self.is_unavailable {
            return Err(CommitError::Unavailable(TOLD_TO_FAIL.into()));
        }
        let raised = self.tables.raise_epoch(claim)?;
        self.claims.made(raised);
        Ok(raised)
    }

    fn commit(&mut self, turn: &Turn) -> Result<Committed, CommitError> {
        self.claims.check(turn.claim, TurnKind::Tasks)?;
        let kept = if turn.is_empty() {
            Ok(())
        } else if self.is_unavailable {
            Err(CommitError::Unavailable(TOLD_TO_FAIL.into()))
        } else {
            self.tables.commit(turn)
        };
        kept.inspect_err(|error| self.claims.broke(turn.claim, TurnKind::Tasks, error))?;
        Ok(Committed { took: Duration::ZERO })
    }

    fn commit_keys(&mut self, turn: &KeyspaceTurn) -> Result<Committed, CommitError> {
        self.claims.check(turn.claim, TurnKind::Keys)?;
        let kept = if turn.writes.is_empty() {
            Ok(())
        } else if self.is_unavailable {
            Err(CommitError::Unavailable(TOLD_TO_FAIL.into()))
        } else {
            self.tables.commit_keys(turn.claim, &turn.writes)
        };
        kept.inspect_err(|error| self.claims.broke(turn.claim, TurnKind::Keys, error))?;
        Ok(Committed { took: Duration::ZERO })
    }
}

impl Store for MemoryStore {
    fn claim(&self, tenant: TenantId) -> StoreFuture<Result<ClaimedShard, StoreError>> {
        self.ask(|inner| {
            let claim = inner.tables.claim(&tenant);
            inner.claims.made(claim);
            claim
        })
    }

    fn raise_epoch(&self, claim: ClaimedShard) -> StoreFuture<Result<ClaimedShard, CommitError>> {
        Box::pin(ready(self.inner.lock().raise_epoch(claim)))
    }

    fn restore(&self, shard: ClaimedShard) -> StoreFuture<Result<Restored, StoreError>> {
        self.ask(|inner| inner.tables.restore(shard.shard))
    }

    fn commit(&self, turn: Turn) -> StoreFuture<Result<Committed, CommitError>> {
        Box::pin(ready(self.inner.lock().commit(&turn)))
    }

    fn load(
        &self,
        shard: ShardId,
        keys: Vec<LoadKey>,
    ) -> StoreFuture<Result<Vec<(LoadKey, TaskRecord)>, StoreError>> {
        self.ask(|inner| inner.tables.load(shard, &keys))
    }

    fn run(
        &self,
        shard: ShardId,
        key: RunKey,
    ) -> StoreFuture<Result<Option<RunRecord>, StoreError>> {
        self.ask(|inner| inner.tables.run(shard, &key))
    }

    fn runs(&self, shard: ShardId, query: RunQuery) -> StoreFuture<Result<RunPage, StoreError>> {
        let _ = (shard, query);
        Box::pin(ready(Err(no_lists())))
    }

    fn run_parts(&self, shard: ShardId, run: RunId) -> StoreFuture<Result<RunParts, StoreError>> {
        self.ask(|inner| inner.tables.run_parts(shard, run))
    }

    fn document_version(
        &self,
        shard: ShardId,
        kind: DocumentKind,
        key: String,
        version: Option<u64>,
    ) -> StoreFuture<Result<Option<DocumentVersion>, StoreError>> {
        self.ask(|inner| inner.tables.document_version(&(shard, kind, key), version))
    }

    fn document_versions(
        &self,
        shard: ShardId,
        kind: DocumentKind,
        key: String,
    ) -> StoreFuture<Result<Vec<DocumentVersion>, StoreError>> {
        self.ask(|inner| inner.tables.document_versions(&(shard, kind, key)))
    }

    fn tenant_of_hook(&self, digest: String) -> StoreFuture<Result<Option<TenantId>, StoreError>> {
        self.ask(|inner| inner.tables.tenant_of_hook(&digest))
    }

    fn list(&self, shard: ShardId, query: PageQuery) -> StoreFuture<Result<TaskPage, StoreError>> {
        let _ = (shard, query);
        Box::pin(ready(Err(no_lists())))
    }

    fn count_dead(&self, shard: ShardId) -> StoreFuture<Result<Vec<(QueueName, u64)>, StoreError>> {
        self.ask(|inner| inner.tables.count_dead(shard))
    }

    fn tenants(&self) -> StoreFuture<Result<Vec<TenantId>, StoreError>> {
        self.ask(|inner| inner.tables.tenants())
    }

    fn put_token(&self, token: TokenRow) -> StoreFuture<Result<(), StoreError>> {
        self.ask(|inner| inner.tables.put_token(token))
    }

    fn tokens(&self) -> StoreFuture<Result<Vec<TokenRow>, StoreError>> {
        self.ask(|inner| inner.tables.tokens())
    }

    fn put_note(&self, note: Note) -> StoreFuture<Result<(), StoreError>> {
        self.ask(|inner| inner.tables.put_note(note))
    }

    fn notes(&self, kind: NoteKind) -> StoreFuture<Result<Vec<Note>, StoreError>> {
        self.ask(|inner| inner.tables.notes(kind))
    }

    fn commit_keys(&self, turn: KeyspaceTurn) -> StoreFuture<Result<Committed, CommitError>> {
        Box::pin(ready(self.inner.lock().commit_keys(&turn)))
    }

    fn restore_keys(&self, shard: ShardId) -> StoreFuture<Result<Vec<Row>, StoreError>> {
        self.ask(|inner| {
            inner.claims.keys_restored(shard);
            inner.tables.restore_keys(shard)
        })
    }

    fn probe(&self) -> StoreFuture<Result<(), StoreError>> {
        self.ask(|_| ())
    }
}
