//! Short stories, one per promise.

use std::sync::Arc;

use bytes::Bytes;
use coordinator::{Change, Drain, LoadKey, Pause, TenantChange};
use model::{IdempotencyMark, TaskId};

use super::history::Dice;
use super::replay::replay;
use super::sample::{at, granted, settled, submitted, tenant, worker};
use shard::{ClaimedShard, Document, DocumentBody, DocumentKind, Turn};
use store::{CommitError, DocumentVersion, Note, NoteKind, PageQuery, Store};

/// Puts a store through every promise. `open` gives a fresh, empty store each time; `reopen`
/// closes a store and opens it again with what it kept.
pub(crate) async fn exercise(
    open: impl AsyncFn() -> Arc<dyn Store>,
    reopen: impl AsyncFn(Arc<dyn Store>) -> Arc<dyn Store>,
) {
    a_turn_is_kept_whole_or_not_at_all(open().await).await;
    a_stale_claim_keeps_nothing(open().await).await;
    a_stale_claim_hurts_no_other_shard(open().await).await;
    an_owner_raises_its_epoch_and_nobody_else(open().await).await;
    a_commit_on_the_callers_thread_takes_its_place(open().await).await;
    a_failed_turn_fails_the_later_ones_of_its_claim(open().await).await;
    turns_are_kept_in_the_order_of_the_calls(open().await).await;
    a_turn_without_changes_follows_its_claim(open().await).await;
    a_task_of_another_shard_is_refused(open().await).await;
    a_task_settles_once(open().await).await;
    an_epoch_never_falls(open().await).await;
    a_key_belongs_to_one_task(open().await).await;
    a_probe_answers(open().await).await;
    settings_are_kept_with_their_turn_and_fenced_with_it(open().await, &reopen).await;
    a_run_lists_its_tasks(open().await).await;
    notes_are_kept_replaced_and_forgotten(open().await, &reopen).await;
    documents_are_kept_with_their_turn_and_fenced_with_it(open().await, &reopen).await;
    versions_of_documents_stay_until_it_is_removed(open().await, &reopen).await;
    a_webhook_leads_to_its_tenant_as_long_as_it_is_kept(open().await).await;
    for seed in 0..4 {
        let mut dice = Dice::new(seed);
        let choices: Vec<u32> =
            (0..400).map(|_| u32::try_from(dice.roll(1 << 30)).expect("30 bits")).collect();
        replay(open().await, &reopen, &choices).await;
    }
}

async fn claim(store: &Arc<dyn Store>, name: &str) -> ClaimedShard {
    store.claim(tenant(name)).await.expect("claims")
}

async fn commit(
    store: &Arc<dyn Store>,
    claim: ClaimedShard,
    changes: Vec<Change>,
) -> Result<(), CommitError> {
    store.commit(Turn { changes, ..Turn::empty(claim) }).await.map(|_| ())
}

async fn live(store: &Arc<dyn Store>, claim: ClaimedShard) -> Vec<u64> {
    let restored = store.restore(claim).await.expect("restores");
    restored.tasks.iter().map(|task| task.id.number()).collect()
}

fn is_unavailable(outcome: &Result<(), CommitError>) -> bool {
    matches!(outcome, Err(CommitError::Unavailable(_)))
}

async fn a_turn_is_kept_whole_or_not_at_all(store: Arc<dyn Store>) {
    let shard = claim(&store, "acme").await;
    let task = |number| TaskId::of(shard.shard, number);
    let broken = vec![submitted(task(0)), submitted(task(1)), granted(task(99), 1)];
    assert!(is_unavailable(&commit(&store, shard, broken).await));

    let shard = claim(&store, "acme").await;
    let restored = store.restore(shard).await.expect("restores");
    assert_eq!((restored.tasks.len(), restored.next_number), (0, 0));
    commit(&store, shard, vec![submitted(task(0)), submitted(task(1))]).await.expect("kept");
    assert_eq!(live(&store, shard).await, [0, 1]);
}

async fn a_stale_claim_keeps_nothing(store: Arc<dyn Store>) {
    let old = claim(&store, "acme").await;
    commit(&store, old, vec![submitted(TaskId::of(old.shard, 0))]).await.expect("kept");
    let new = claim(&store, "acme").await;
    assert_eq!(new, ClaimedShard { shard: old.shard, epoch: old.epoch + 1 });

    for _ in 0..2 {
        let late = commit(&store, old, vec![submitted(TaskId::of(old.shard, 1))]).await;
        assert_eq!(late, Err(CommitError::Fenced));
    }
    let from_the_future = ClaimedShard { epoch: new.epoch + 1, ..new };
    let early = commit(&store, from_the_future, vec![submitted(TaskId::of(old.shard, 1))]).await;
    assert_eq!(early, Err(CommitError::Fenced));
    assert_eq!(live(&store, new).await, [0]);
    commit(&store, new, vec![submitted(TaskId::of(old.shard, 1))]).await.expect("kept");
}

async fn a_stale_claim_hurts_no_other_shard(store: Arc<dyn Store>) {
    let stale = claim(&store, "acme").await;
    let other = claim(&store, "bolt").await;
    let current = claim(&store, "acme").await;
    let submit = |claim: ClaimedShard, number| {
        let changes = vec![submitted(TaskId::of(claim.shard, number))];
        store.commit(Turn { changes, ..Turn::empty(claim) })
    };
    // All three are queued before the first is awaited, so that they may share a transaction.
    let commits = (submit(stale, 0), submit(other, 0), submit(current, 1));
    assert!(matches!(commits.0.await, Err(CommitError::Fenced)));
    commits.1.await.expect("another shard's turn");
    commits.2.await.expect("the new owner's turn");
    assert_eq!(live(&store, current).await, [1]);
    assert_eq!(live(&store, other).await, [0]);
}

async fn an_owner_raises_its_epoch_and_nobody_else(store: Arc<dyn Store>) {
    let first = claim(&store, "acme").await;
    let raised = store.raise_epoch(first).await.expect("it is the owner");
    assert_eq!(raised, ClaimedShard { epoch: first.epoch + 1, ..first });
    assert_eq!(store.raise_epoch(first).await, Err(CommitError::Fenced));
    let late = commit(&store, first, vec![submitted(TaskId::of(first.shard, 0))]).await;
    assert_eq!(late, Err(CommitError::Fenced));
    commit(&store, raised, vec![submitted(TaskId::of(first.shard, 0))]).await.expect("kept");
    let next = claim(&store, "acme").await;
    assert_eq!(next.epoch, raised.epoch + 1);
}

/// Turns that are queued come first, and a turn that fails on the caller's thread breaks its claim
/// like any other.
async fn a_commit_on_the_callers_thread_takes_its_place(store: Arc<dyn Store>) {
    let shard = claim(&store, "acme").await;
    let turn = |changes| Turn { changes, ..Turn::empty(shard) };
    let task = |number| TaskId::of(shard.shard, number);
    store.commit_here(turn(vec![submitted(task(0))])).await.expect("kept");
    let queued: Vec<_> =
        (1..50).map(|number| store.commit(turn(vec![submitted(task(number))]))).collect();
    let here = store.commit_here(turn(vec![granted(task(49), 1)]));
    for commit in queued {
        commit.await.expect("kept");
    }
    here.await.expect("it follows the turns before it");
    store.commit_here(turn(vec![submitted(task(0))])).await.expect_err("it exists");
    let later = store.commit_here(turn(vec![submitted(task(50))])).await;
    assert!(matches!(later, Err(CommitError::Unavailable(_))), "{later:?}");
    assert_eq!(live(&store, shard).await.len(), 50);
}

async fn a_failed_turn_fails_the_later_ones_of_its_claim(store: Arc<dyn Store>) {
    let shard = claim(&store, "acme").await;
    let task = |number| TaskId::of(shard.shard, number);
    let turn = |changes| store.commit(Turn { changes, ..Turn::empty(shard) });
    let kept = turn(vec![submitted(task(0))]);
    kept.await.expect("kept");

    // The second is queued before the first is known to fail.
    let (failed, pipelined) = (turn(vec![granted(task(7), 1)]), turn(vec![submitted(task(1))]));
    assert!(is_unavailable(&failed.await.map(|_| ())));
    assert!(is_unavailable(&pipelined.await.map(|_| ())));
    assert!(is_unavailable(&commit(&store, shard, vec![submitted(task(2))]).await));
    assert!(is_unavailable(&commit(&store, shard, vec![]).await));

    let shard = claim(&store, "acme").await;
    assert_eq!(live(&store, shard).await, [0]);
    commit(&store, shard, vec![submitted(task(1))]).await.expect("a new claim goes on");
}

async fn turns_are_kept_in_the_order_of_the_calls(store: Arc<dyn Store>) {
    let shard = claim(&store, "acme").await;
    let task = TaskId::of(shard.shard, 0);
    let mut turns = vec![vec![submitted(task)]];
    turns.extend((1..200).map(|epoch| vec![granted(task, epoch)]));
    let commits: Vec<_> = turns
        .into_iter()
        .map(|changes| store.commit(Turn { changes, ..Turn::empty(shard) }))
        .collect();
    for commit in commits {
        commit.await.expect("kept");
    }
    let restored = store.restore(shard).await.expect("restores");
    assert_eq!(restored.tasks[0].progress.epoch, 199);
}

async fn a_turn_without_changes_follows_its_claim(store: Arc<dyn Store>) {
    let old = claim(&store, "acme").await;
    commit(&store, old, vec![]).await.expect("nothing to keep");
    let new = claim(&store, "acme").await;
    assert_eq!(commit(&store, old, vec![]).await, Err(CommitError::Fenced));
    commit(&store, new, vec![]).await.expect("nothing to keep");
}

async fn a_task_of_another_shard_is_refused(store: Arc<dyn Store>) {
    let acme = claim(&store, "acme").await;
    let bolt = claim(&store, "bolt").await;
    assert_ne!(acme.shard, bolt.shard);
    let theirs = TaskId::of(bolt.shard, 0);
    commit(&store, bolt, vec![submitted(theirs)]).await.expect("kept");
    assert!(is_unavailable(&commit(&store, acme, vec![granted(theirs, 1)]).await));

    let keys = vec![LoadKey::Task(theirs)];
    assert_eq!(store.load(acme.shard, keys.clone()).await.expect("loads"), []);
    let found = store.load(bolt.shard, keys).await.expect("loads");
    assert_eq!(found[0].1.progress.epoch, 0, "nothing of the refused turn is kept");
}

async fn a_task_settles_once(store: Arc<dyn Store>) {
    let shard = claim(&store, "acme").await;
    let task = TaskId::of(shard.shard, 0);
    let life = vec![submitted(task), granted(task, 1), settled(task, 1)];
    commit(&store, shard, life).await.expect("a whole life in one turn");
    assert!(is_unavailable(&commit(&store, shard, vec![settled(task, 1)]).await));
    let shard = claim(&store, "acme").await;
    assert!(is_unavailable(&commit(&store, shard, vec![granted(task, 2)]).await));
    let shard = claim(&store, "acme").await;
    assert!(is_unavailable(&commit(&store, shard, vec![submitted(task)]).await));
    assert_eq!(live(&store, shard).await, [0_u64; 0]);
}

async fn an_epoch_never_falls(store: Arc<dyn Store>) {
    let shard = claim(&store, "acme").await;
    let task = TaskId::of(shard.shard, 0);
    commit(&store, shard, vec![submitted(task), granted(task, 5)]).await.expect("kept");
    assert!(is_unavailable(&commit(&store, shard, vec![granted(task, 4)]).await));
}

async fn a_key_belongs_to_one_task(store: Arc<dyn Store>) {
    let shard = claim(&store, "acme").await;
    let marked = |number| {
        let mut change = submitted(TaskId::of(shard.shard, number));
        if let Change::TaskSubmitted(record) = &mut change {
            let key = "order 66".parse().expect("valid");
            record.idempotency = Some(IdempotencyMark { key, fingerprint: number });
        }
        change
    };
    commit(&store, shard, vec![marked(0)]).await.expect("kept");
    assert!(is_unavailable(&commit(&store, shard, vec![marked(1)]).await));
    let other = claim(&store, "bolt").await;
    let mut change = submitted(TaskId::of(other.shard, 0));
    if let (Change::TaskSubmitted(record), Change::TaskSubmitted(first)) = (&mut change, marked(0))
    {
        record.idempotency = first.idempotency;
    }
    commit(&store, other, vec![change]).await.expect("another tenant's keys are its own");
}

async fn a_run_lists_its_tasks(store: Arc<dyn Store>) {
    let shard = claim(&store, "acme").await;
    let of_run = |number: u64, run: Option<&str>| {
        let mut change = submitted(TaskId::of(shard.shard, number));
        if let Change::TaskSubmitted(record) = &mut change {
            record.run = run.map(|run| run.parse().expect("valid"));
        }
        change
    };
    let tasks = vec![of_run(0, Some("a")), of_run(1, None), of_run(2, Some("b"))];
    commit(&store, shard, tasks).await.expect("kept");
    commit(&store, shard, vec![of_run(3, Some("a"))]).await.expect("kept");
    let query =
        PageQuery { run: Some("a".parse().expect("valid")), limit: 10, ..PageQuery::default() };
    let page = store.list(shard.shard, query).await.expect("lists");
    let numbers: Vec<_> = page.tasks.iter().map(|task| task.id.number()).collect();
    assert_eq!((numbers, page.next_before), (vec![3, 0], None));
}

async fn notes_are_kept_replaced_and_forgotten(
    store: Arc<dyn Store>,
    reopen: &impl AsyncFn(Arc<dyn Store>) -> Arc<dyn Store>,
) {
    let note = |kind, tenant: &str, key: &str, json: Option<&str>| Note {
        kind,
        tenant: tenant.into(),
        key: key.into(),
        json: json.map(Into::into),
    };
    let floor = |key: &str, json| note(NoteKind::EventFloor, "acme", key, json);
    for kept in [
        floor("w1", Some("{\"n\":1}")),
        floor("w2", Some("{}")),
        floor("w1", Some("{\"n\":2}")),
        floor("w2", None),
        floor("never", None),
        note(NoteKind::SessionKey, "acme", "w1", Some("{}")),
        note(NoteKind::EventFloor, "bolt", "w1", Some("{}")),
    ] {
        store.put_note(kept).await.expect("kept");
    }
    let store = reopen(store).await;
    let expected =
        [floor("w1", Some("{\"n\":2}")), note(NoteKind::EventFloor, "bolt", "w1", Some("{}"))];
    assert_eq!(store.notes(NoteKind::EventFloor).await.expect("reads"), expected);
    let other = [note(NoteKind::SessionKey, "acme", "w1", Some("{}"))];
    assert_eq!(store.notes(NoteKind::SessionKey).await.expect("reads"), other);
}

async fn documents_are_kept_with_their_turn_and_fenced_with_it(
    store: Arc<dyn Store>,
    reopen: &impl AsyncFn(Arc<dyn Store>) -> Arc<dyn Store>,
) {
    let (old, other) = (claim(&store, "acme").await, claim(&store, "bolt").await);
    let document = |key: &str, json: Option<&str>| Document {
        kind: DocumentKind::Session,
        key: key.into(),
        json: json.map(Into::into),
        body: None,
    };
    let turn = |claim, documents| store.commit(Turn { documents, ..Turn::empty(claim) });
    let first = vec![
        document("w1", Some("{\"n\":1}")),
        document("w2", Some("{}")),
        document("w1", Some("{\"n\":2}")),
        document("never", None),
    ];
    turn(old, first).await.expect("kept");
    turn(other, vec![document("w1", Some("{}"))]).await.expect("kept");
    turn(old, vec![document("w2", None), document("w3", Some("{}"))]).await.expect("kept");

    // A turn whose tasks contradict the store keeps no document either, nor does a stale claim.
    let changes = vec![granted(TaskId::of(old.shard, 9), 1)];
    let documents = vec![document("w1", None)];
    let broken = Turn { changes, documents: documents.clone(), ..Turn::empty(old) };
    assert!(is_unavailable(&store.commit(broken).await.map(|_| ())));
    let new = claim(&store, "acme").await;
    let late = turn(old, documents).await.map(|_| ());
    assert_eq!(late, Err(CommitError::Fenced));

    let store = reopen(store).await;
    let kept = store.restore(new).await.expect("restores").documents;
    assert_eq!(kept, [document("w1", Some("{\"n\":2}")), document("w3", Some("{}"))]);
    let theirs = store.restore(other).await.expect("restores").documents;
    assert_eq!(theirs, [document("w1", Some("{}"))], "another tenant's");
}

/// Version `version` of a workflow.
fn workflow(key: &str, version: u64, body: &'static str) -> Document {
    Document {
        kind: DocumentKind::Workflow,
        key: key.into(),
        json: Some(format!("{{\"version\":{version}}}")),
        body: Some(DocumentBody { version, bytes: Bytes::from_static(body.as_bytes()) }),
    }
}

async fn versions_of_documents_stay_until_it_is_removed(
    store: Arc<dyn Store>,
    reopen: &impl AsyncFn(Arc<dyn Store>) -> Arc<dyn Store>,
) {
    let (acme, other) = (claim(&store, "acme").await, claim(&store, "bolt").await);
    let keep = async |store: &Arc<dyn Store>, claim, documents| {
        store.commit(Turn { documents, ..Turn::empty(claim) }).await.map(|_| ())
    };
    let hidden =
        Document { json: Some("{\"hidden\":1}".into()), body: None, ..workflow("a", 0, "") };
    let first = vec![workflow("a", 1, "[ 1 ]\n"), workflow("a", 2, "{\t}"), workflow("b", 1, "1")];
    keep(&store, acme, first).await.expect("kept");
    keep(&store, other, vec![workflow("a", 1, "theirs")]).await.expect("kept");
    keep(&store, acme, vec![hidden]).await.expect("kept");

    let store = reopen(store).await;
    let get = async |store: &Arc<dyn Store>, shard, key: &str, version| {
        let kind = DocumentKind::Workflow;
        store.document_version(shard, kind, key.into(), version).await.expect("reads")
    };
    let found = |version, body: &'static str| DocumentVersion {
        newest: "{\"hidden\":1}".into(),
        json: format!("{{\"version\":{version}}}"),
        body: Bytes::from_static(body.as_bytes()),
    };
    assert_eq!(get(&store, acme.shard, "a", None).await, Some(found(2, "{\t}")));
    assert_eq!(get(&store, acme.shard, "a", Some(1)).await, Some(found(1, "[ 1 ]\n")));
    assert_eq!(get(&store, acme.shard, "a", Some(3)).await, None);
    assert_eq!(get(&store, acme.shard, "c", None).await, None);
    let versions = async |store: &Arc<dyn Store>, key: &str| {
        let kind = DocumentKind::Workflow;
        store.document_versions(acme.shard, kind, key.into()).await.expect("lists")
    };
    assert_eq!(versions(&store, "a").await, [found(2, ""), found(1, "")]);
    let restored = store.restore(acme).await.expect("restores").documents;
    assert_eq!(restored.len(), 2);
    assert!(restored.iter().all(|one| one.body.is_none()), "bodies stay in the store");

    let acme = claim(&store, "acme").await;
    let gone = Document { json: None, body: None, ..workflow("a", 0, "") };
    keep(&store, acme, vec![gone]).await.expect("kept");
    assert_eq!(versions(&store, "a").await, []);
    assert_eq!(get(&store, acme.shard, "a", Some(1)).await, None);
    assert!(get(&store, acme.shard, "b", None).await.is_some());
    let theirs = get(&store, other.shard, "a", None).await.map(|version| version.body);
    assert_eq!(theirs.as_deref(), Some(&b"theirs"[..]), "another tenant's");
}

async fn a_webhook_leads_to_its_tenant_as_long_as_it_is_kept(store: Arc<dyn Store>) {
    let (acme, bolt) = (claim(&store, "acme").await, claim(&store, "bolt").await);
    let document = |kind, key: &str, json: Option<&str>| Document {
        kind,
        key: key.into(),
        json: json.map(Into::into),
        body: None,
    };
    let hook = |key, json| document(DocumentKind::Hook, key, json);
    let keep = async |claim, document| {
        let turn = Turn { documents: vec![document], ..Turn::empty(claim) };
        store.commit(turn).await.map(|_| ())
    };
    let owner = async |digest: &str| store.tenant_of_hook(digest.into()).await.expect("reads");
    keep(acme, hook("d1", Some("{}"))).await.expect("kept");
    keep(bolt, hook("d2", Some("{}"))).await.expect("kept");
    keep(bolt, document(DocumentKind::Plan, "d3", Some("{}"))).await.expect("kept");
    let (acmes, bolts) = (Some(tenant("acme")), Some(tenant("bolt")));
    assert_eq!((owner("d1").await, owner("d2").await), (acmes, bolts.clone()));
    assert_eq!((owner("d3").await, owner("").await), (None, None), "nobody's webhooks");
    keep(acme, hook("d1", None)).await.expect("kept");
    assert_eq!((owner("d1").await, owner("d2").await), (None, bolts));
    // A stale claim adds none.
    claim(&store, "acme").await;
    assert_eq!(keep(acme, hook("d4", Some("{}"))).await, Err(CommitError::Fenced));
    assert_eq!(owner("d4").await, None);
}

async fn settings_are_kept_with_their_turn_and_fenced_with_it(
    store: Arc<dyn Store>,
    reopen: &impl AsyncFn(Arc<dyn Store>) -> Arc<dyn Store>,
) {
    let (old, other) = (claim(&store, "acme").await, claim(&store, "bolt").await);
    let queue = || "nightly".parse().expect("valid");
    let pause = |by: &str| Pause { by: by.into(), at: at(1) };
    let paused = |by: &str| TenantChange::QueuePaused { queue: queue(), pause: pause(by) };
    let drain = Drain { by: "ada".into(), at: at(1), gone_by: Some(at(60)), reason: None };
    let drained = TenantChange::WorkerDrained { worker: worker(1), drain: drain.clone() };
    let turn = |claim, tenant| store.commit(Turn { tenant, ..Turn::empty(claim) });
    turn(old, vec![paused("ada"), drained, paused("bob")]).await.expect("kept");

    // A turn whose tasks contradict the store keeps no setting either, nor does a stale claim.
    let resumed = TenantChange::QueueResumed { queue: queue() };
    let changes = vec![granted(TaskId::of(old.shard, 9), 1)];
    let broken = Turn { changes, tenant: vec![resumed.clone()], ..Turn::empty(old) };
    assert!(is_unavailable(&store.commit(broken).await.map(|_| ())));
    let new = claim(&store, "acme").await;
    let late = turn(old, vec![resumed.clone()]).await.map(|_| ());
    assert_eq!(late, Err(CommitError::Fenced));

    let store = reopen(store).await;
    let settings = store.restore(new).await.expect("restores").settings;
    assert_eq!(settings.pauses, [(queue(), pause("bob"))].into());
    assert_eq!(settings.drains, [(worker(1), drain)].into());
    let theirs = store.restore(other).await.expect("restores").settings;
    assert!(theirs.pauses.is_empty() && theirs.drains.is_empty(), "another tenant's");
    let new = claim(&store, "acme").await;
    let undrained = TenantChange::WorkerUndrained { worker: worker(1) };
    let last = Turn { tenant: vec![resumed, undrained], ..Turn::empty(new) };
    store.commit(last).await.expect("kept");
    let settings = store.restore(new).await.expect("restores").settings;
    assert!(settings.pauses.is_empty() && settings.drains.is_empty());
}

async fn a_probe_answers(store: Arc<dyn Store>) {
    store.probe().await.expect("a healthy store");
}
