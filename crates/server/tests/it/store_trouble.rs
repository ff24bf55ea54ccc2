//! A store that fails: no false success, clear refusals, and the server comes back by itself.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Mutex;

use coordinator::{LoadKey, RunChange, RunParts, RunRecord, TaskRecord};
use keyspace::Row;
use model::{QueueName, RunId, ShardId, TenantId};
use serde_json::json;
use shard::{ClaimedShard, DocumentKind, Restored, Turn};
use store::{
    CommitError, Committed, DocumentVersion, KeyspaceTurn, Note, NoteKind, PageQuery, RunKey,
    RunPage, RunQuery, SqliteStore, Store, StoreError, StoreFuture, TaskPage, TokenRow,
};

use crate::flows::{node, workflow};
use crate::support::TestServer;

/// How the disk is today.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disk {
    Fine,
    /// Nothing can be written.
    Full,
    /// The next commit is written, and then reported as failed.
    LosesTheNextAnswer,
    /// The next turn that starts a run fails.
    LosesTheNextRun,
    /// The next turn that starts a run is written, and then reported as failed.
    LosesTheAnswerOfTheNextRun,
    /// The next commit panics on the task of the shard, as a failed assertion does.
    PanicsNext,
}

/// A real store behind a disk that can be broken.
struct TroubledStore {
    inner: SqliteStore,
    trouble: Arc<Mutex<Trouble>>,
}

pub(crate) struct Trouble {
    disk: Disk,
    /// Claims with a failed turn: later turns build on facts that were never kept.
    broken: BTreeSet<(ShardId, u64)>,
}

fn full<E>(error: fn(String) -> E) -> E {
    error("no space left on device".to_owned())
}

impl TroubledStore {
    fn is_full(&self) -> bool {
        disk(&self.trouble) == Disk::Full
    }
}

impl Store for TroubledStore {
    fn claim(&self, tenant: TenantId) -> StoreFuture<Result<ClaimedShard, StoreError>> {
        if self.is_full() {
            return Box::pin(async { Err(full(StoreError::Unavailable)) });
        }
        self.inner.claim(tenant)
    }

    fn raise_epoch(&self, claim: ClaimedShard) -> StoreFuture<Result<ClaimedShard, CommitError>> {
        self.inner.raise_epoch(claim)
    }

    fn restore(&self, claim: ClaimedShard) -> StoreFuture<Result<Restored, StoreError>> {
        self.inner.restore(claim)
    }

    fn run(
        &self,
        shard: ShardId,
        key: RunKey,
    ) -> StoreFuture<Result<Option<RunRecord>, StoreError>> {
        self.inner.run(shard, key)
    }

    fn runs(&self, shard: ShardId, query: RunQuery) -> StoreFuture<Result<RunPage, StoreError>> {
        self.inner.runs(shard, query)
    }

    fn run_parts(&self, shard: ShardId, run: RunId) -> StoreFuture<Result<RunParts, StoreError>> {
        self.inner.run_parts(shard, run)
    }

    fn document_version(
        &self,
        shard: ShardId,
        kind: DocumentKind,
        key: String,
        version: Option<u64>,
    ) -> StoreFuture<Result<Option<DocumentVersion>, StoreError>> {
        self.inner.document_version(shard, kind, key, version)
    }

    fn document_versions(
        &self,
        shard: ShardId,
        kind: DocumentKind,
        key: String,
    ) -> StoreFuture<Result<Vec<DocumentVersion>, StoreError>> {
        self.inner.document_versions(shard, kind, key)
    }

    fn tenant_of_hook(&self, digest: String) -> StoreFuture<Result<Option<TenantId>, StoreError>> {
        self.inner.tenant_of_hook(digest)
    }

    fn commit(&self, turn: Turn) -> StoreFuture<Result<Committed, CommitError>> {
        let key = (turn.claim.shard, turn.claim.epoch);
        let mut trouble = self.trouble.lock().expect("not poisoned");
        if trouble.disk == Disk::PanicsNext {
            trouble.disk = Disk::Fine;
            drop(trouble);
            panic!("a rule is broken on purpose");
        }
        let starts_run = turn.runs.iter().any(|one| matches!(one, RunChange::RunStarted(_)));
        let is_lost = match trouble.disk {
            Disk::Full => true,
            Disk::LosesTheNextRun if starts_run => {
                trouble.disk = Disk::Fine;
                true
            }
            _ => trouble.broken.contains(&key),
        };
        if is_lost {
            trouble.broken.insert(key);
            return Box::pin(async { Err(full(CommitError::Unavailable)) });
        }
        let loses_answer = match trouble.disk {
            Disk::LosesTheNextAnswer => !turn.is_empty(),
            Disk::LosesTheAnswerOfTheNextRun => starts_run,
            Disk::Fine | Disk::Full | Disk::LosesTheNextRun | Disk::PanicsNext => false,
        };
        if loses_answer {
            trouble.disk = Disk::Fine;
            trouble.broken.insert(key);
            let committing = self.inner.commit(turn);
            return Box::pin(async move {
                committing.await?;
                Err(CommitError::Unavailable("the answer was lost".to_owned()))
            });
        }
        self.inner.commit(turn)
    }

    fn load(
        &self,
        shard: ShardId,
        keys: Vec<LoadKey>,
    ) -> StoreFuture<Result<Vec<(LoadKey, TaskRecord)>, StoreError>> {
        self.inner.load(shard, keys)
    }

    fn list(&self, shard: ShardId, query: PageQuery) -> StoreFuture<Result<TaskPage, StoreError>> {
        self.inner.list(shard, query)
    }

    fn count_dead(&self, shard: ShardId) -> StoreFuture<Result<Vec<(QueueName, u64)>, StoreError>> {
        self.inner.count_dead(shard)
    }

    fn tenants(&self) -> StoreFuture<Result<Vec<TenantId>, StoreError>> {
        self.inner.tenants()
    }

    fn put_token(&self, token: TokenRow) -> StoreFuture<Result<(), StoreError>> {
        self.inner.put_token(token)
    }

    fn tokens(&self) -> StoreFuture<Result<Vec<TokenRow>, StoreError>> {
        self.inner.tokens()
    }

    fn put_note(&self, note: Note) -> StoreFuture<Result<(), StoreError>> {
        self.inner.put_note(note)
    }

    fn notes(&self, kind: NoteKind) -> StoreFuture<Result<Vec<Note>, StoreError>> {
        self.inner.notes(kind)
    }

    fn commit_keys(&self, turn: KeyspaceTurn) -> StoreFuture<Result<Committed, CommitError>> {
        if self.is_full() {
            return Box::pin(async { Err(full(CommitError::Unavailable)) });
        }
        self.inner.commit_keys(turn)
    }

    fn restore_keys(&self, shard: ShardId) -> StoreFuture<Result<Vec<Row>, StoreError>> {
        self.inner.restore_keys(shard)
    }

    fn probe(&self) -> StoreFuture<Result<(), StoreError>> {
        self.inner.probe()
    }
}

pub(crate) async fn troubled() -> (TestServer, Arc<Mutex<Trouble>>) {
    let trouble = Arc::new(Mutex::new(Trouble { disk: Disk::Fine, broken: BTreeSet::new() }));
    let handle = Arc::clone(&trouble);
    let server = TestServer::dev_on(|data| {
        let inner = SqliteStore::open(data).expect("a store");
        Arc::new(TroubledStore { inner, trouble: handle })
    })
    .await;
    (server, trouble)
}

pub(crate) fn set(trouble: &Mutex<Trouble>, disk: Disk) {
    trouble.lock().expect("not poisoned").disk = disk;
}

pub(crate) fn disk(trouble: &Mutex<Trouble>) -> Disk {
    trouble.lock().expect("not poisoned").disk
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_told_and_the_server_comes_back_by_itself() {
    let (server, trouble) = troubled().await;
    let before = server.submit(json!({"type": "before"})).await;
    let lease = server.lease("w1").await;
    set(&trouble, Disk::Full);
    let task = json!({"type": "during", "idempotency_key": "during"});
    server.post("/api/v1/tasks", &task).await.refused(503, "E.STORE.UNAVAILABLE");
    server.get("/readyz").await.refused(503, "E.STORE.UNAVAILABLE");
    server.post("/api/v1/tasks", &task).await.refused(503, "E.STORE.UNAVAILABLE");
    // Reading needs no space.
    let shown = server.get(&format!("/api/v1/tasks/{before}")).await.expect(200);
    assert_eq!(shown["state"], "RUNNING");

    set(&trouble, Disk::Fine);
    server.until_ready().await;
    let page = server.get("/api/v1/tasks").await.expect(200);
    assert_eq!(page["tasks"].as_array().expect("a list").len(), 1, "nothing half-kept: {page}");
    // The lease outlived the trouble.
    let path = format!("/api/v1/leases/{}/complete", lease["lease_id"].as_str().expect("an id"));
    let verdict = server.post(&path, &json!({"worker_id": "w1"})).await.expect(200);
    assert_eq!(verdict["verdict"], "COMMITTED");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_whose_assertion_fails_is_rebuilt_from_the_store() {
    let (server, trouble) = troubled().await;
    server.submit(json!({"type": "before"})).await;
    let lease = server.lease("w1").await;
    set(&trouble, Disk::PanicsNext);
    let lost = json!({"type": "lost"});
    server.post("/api/v1/tasks", &lost).await.refused(503, "E.STORE.UNAVAILABLE");
    server.until_ready().await;
    let page = server.get("/api/v1/tasks").await.expect(200);
    assert_eq!(page["tasks"].as_array().expect("a list").len(), 1, "nothing half-kept: {page}");
    let path = format!("/api/v1/leases/{}/complete", lease["lease_id"].as_str().expect("an id"));
    let verdict = server.post(&path, &json!({"worker_id": "w1"})).await.expect(200);
    assert_eq!(verdict["verdict"], "COMMITTED");
    let metrics = server.get("/metrics").await.text;
    assert!(metrics.contains("assertions_failed_total 1"), "{metrics}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebind_that_is_not_kept_is_not_answered_as_done() {
    let (server, trouble) = troubled().await;
    let run = server.start_run(&workflow(&[node(1, json!({})), node(2, json!({}))], &[])).await;
    server.lease("w1").await;
    let path = format!("/api/v1/scheduler/runs/{run}/rebind");
    set(&trouble, Disk::Full);
    let drain = json!({"mode": "drain"});
    server.post(&path, &drain).await.refused(503, "E.STORE.UNAVAILABLE");
    set(&trouble, Disk::Fine);
    server.until_ready().await;
    server.lease("w1").await; // Nobody was told that the run is kept from it.
    server.post(&path, &drain).await.expect(200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_of_the_store_makes_no_second_task() {
    let (server, trouble) = troubled().await;
    let task = json!({"type": "once", "idempotency_key": "once"});
    set(&trouble, Disk::LosesTheNextAnswer);
    server.post("/api/v1/tasks", &task).await.refused(503, "E.STORE.UNAVAILABLE");
    server.until_ready().await;
    let again = server.post("/api/v1/tasks", &task).await.expect(201);
    assert_eq!(again["tasks"][0]["existed"], true, "{again}");
    let page = server.get("/api/v1/tasks").await.expect(200);
    assert_eq!(page["tasks"].as_array().expect("a list").len(), 1, "{page}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_of_the_store_does_not_change_a_verdict() {
    let (server, trouble) = troubled().await;
    server.submit(json!({"type": "once"})).await;
    let lease = server.lease("w1").await;
    let path = format!("/api/v1/leases/{}/complete", lease["lease_id"].as_str().expect("an id"));
    let report = json!({"worker_id": "w1", "result": 1, "report_id": "r1"});
    set(&trouble, Disk::LosesTheNextAnswer);
    server.post(&path, &report).await.refused(503, "E.STORE.UNAVAILABLE");
    server.until_ready().await;
    let verdict = server.post(&path, &report).await.expect(200);
    assert_eq!(
        (&verdict["verdict"], &verdict["task_state"]),
        (&json!("COMMITTED"), &json!("COMPLETED"))
    );
    let other = json!({"worker_id": "w1", "result": 2, "report_id": "r2"});
    let verdict = server.post(&path, &other).await.expect(200);
    assert_eq!(verdict["reason"], "duplicate_report");
    server.stop().await;
}
