//! A full disk: nothing is half-kept, nothing is promised, and it passes.

use crate::conformance::{linked, node_ended, run_started, tenant};
use bytes::Bytes;
use coordinator::{Change, RunChange, TaskState};
use model::RunId;
use shard::{ClaimedShard, Document, DocumentBody, DocumentKind, Restored, Turn};
use store::{CommitError, Store};

use crate::support::{block_on, claim, commit, empty, fill, folder, life, live, open, raw, submit};

/// A task whose result takes about so many bytes.
fn bulky(claim: ClaimedShard, number: u64, bytes: usize) -> Vec<Change> {
    let mut changes = life(claim, number);
    if let Some(Change::TaskSettled { progress, .. }) = changes.last_mut()
        && let TaskState::Settled(settlement) = &mut progress.state
    {
        settlement.result = Some(Bytes::from(format!("\"{}\"", "x".repeat(bytes))));
    }
    changes
}

#[test]
fn a_full_disk_keeps_nothing_of_a_turn_and_passes() {
    let folder = folder();
    let store = open(folder.path());
    block_on(async {
        let shard = claim(&store).await;
        commit(&store, shard, vec![submit(shard, 0)]).await.expect("kept");
        fill(folder.path(), &store);

        let mut changes = vec![submit(shard, 1)];
        changes.extend(bulky(shard, 2, 100_000));
        let failed = commit(&store, shard, changes).await;
        assert!(matches!(&failed, Err(CommitError::Unavailable(why)) if why.contains("full")));
        let later = commit(&store, shard, vec![submit(shard, 1)]).await;
        assert!(matches!(&later, Err(CommitError::Unavailable(why)) if why.contains("earlier")));

        // While it lasts, a new claim works as far as there is room, and sees what was kept.
        let shard = claim(&store).await;
        assert_eq!(live(&store, shard).await, [0]);
        assert!(commit(&store, shard, bulky(shard, 1, 100_000)).await.is_err());

        empty(&store);
        let shard = claim(&store).await;
        assert_eq!(store.restore(shard).await.expect("restores").next_number, 1);
        commit(&store, shard, bulky(shard, 1, 100_000)).await.expect("there is room again");
    });
    drop(store);
    let store = open(folder.path());
    block_on(async {
        let shard = claim(&store).await;
        assert_eq!(live(&store, shard).await, [0]);
        assert_eq!(store.restore(shard).await.expect("restores").next_number, 2);
    });
    let check: String = raw(folder.path())
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .expect("an answer");
    assert_eq!(check, "ok");
}

#[test]
fn a_run_that_finds_no_room_takes_its_tasks_with_it() {
    let folder = folder();
    let store = open(folder.path());
    block_on(async {
        let shard = claim(&store).await;
        let run = RunId::of(shard.shard, 1);
        let bytes = Bytes::from(format!("\"{}\"", "x".repeat(100_000)));
        let workflow = Document {
            kind: DocumentKind::Workflow,
            key: "a".into(),
            json: Some("{}".into()),
            body: Some(DocumentBody { version: 1, bytes }),
        };
        let turn = |claim| {
            let mut start = run_started(run);
            if let RunChange::RunStarted(record) = &mut start {
                record.definition = Bytes::from(format!("\"{}\"", "x".repeat(100_000)));
            }
            let changes = vec![linked(submit(claim, 0), run, 0)];
            let runs = vec![start, node_ended(run, 0, 1)];
            Turn { changes, runs, documents: vec![workflow.clone()], ..Turn::empty(claim) }
        };
        fill(folder.path(), &store);
        let failed = store.commit(turn(shard)).await;
        assert!(matches!(&failed, Err(CommitError::Unavailable(why)) if why.contains("full")));

        empty(&store);
        let shard = claim(&store).await;
        let restored = store.restore(shard).await.expect("restores");
        assert_eq!(restored, Restored { next_run: 1, ..Restored::default() });
        store.commit(turn(shard)).await.expect("there is room again");
    });
    drop(store);
    let store = open(folder.path());
    block_on(async {
        let shard = claim(&store).await;
        let restored = store.restore(shard).await.expect("restores");
        let [run] = &restored.runs[..] else { panic!("one run: {:?}", restored.runs.len()) };
        assert_eq!((run.record.definition.len(), run.parts.ended.len()), (100_002, 1));
        assert_eq!((restored.tasks.len(), restored.documents.len()), (1, 1));
    });
}

#[test]
fn a_turn_without_changes_needs_no_room() {
    let folder = folder();
    let store = open(folder.path());
    block_on(async {
        let acme = claim(&store).await;
        let bolt = store.claim(tenant("bolt")).await.expect("claims");
        fill(folder.path(), &store);
        let turn = |claim, changes| store.commit(Turn { changes, ..Turn::empty(claim) });
        let (failed, empty) = (turn(acme, bulky(acme, 0, 100_000)), turn(bolt, vec![]));
        assert!(failed.await.is_err());
        empty.await.expect("another shard's empty turn");
        assert!(commit(&store, acme, vec![]).await.is_err(), "but not one that builds on it");
    });
}

#[test]
fn a_turn_that_cannot_be_kept_takes_no_turn_of_another_tenant_with_it() {
    let folder = folder();
    let store = open(folder.path());
    block_on(async {
        let acme = claim(&store).await;
        let bolt = store.claim(tenant("bolt")).await.expect("claims");
        commit(&store, acme, vec![submit(acme, 0)]).await.expect("kept");
        // While someone else writes, turns gather, and share the next transaction.
        let other = raw(folder.path());
        other.execute_batch("BEGIN IMMEDIATE").expect("begins");
        let turn = |claim, number| {
            store.commit(Turn { changes: vec![submit(claim, number)], ..Turn::empty(claim) })
        };
        let (first, again, fine) = (turn(bolt, 0), turn(acme, 0), turn(bolt, 1));
        other.execute_batch("COMMIT").expect("ends");
        let (first, again, fine) = (first.await, again.await, fine.await);
        first.expect("kept");
        assert!(matches!(&again, Err(CommitError::Unavailable(_))), "{again:?}");
        fine.expect("kept, whatever became of the other tenant's turn");
        assert_eq!(live(&store, bolt).await, [0, 1]);
    });
}

/// The row of a spec goes with the turn that needed it first, and must come back with the next one.
#[test]
fn a_turn_after_one_that_was_not_kept_brings_its_spec() {
    let folder = folder();
    let store = open(folder.path());
    block_on(async {
        let shard = claim(&store).await;
        let stranger = life(shard, 1).split_off(1);
        let changes = [vec![submit(shard, 0)], stranger].concat();
        let failed = commit(&store, shard, changes).await;
        assert!(matches!(&failed, Err(CommitError::Unavailable(_))), "{failed:?}");
        let shard = claim(&store).await;
        commit(&store, shard, vec![submit(shard, 0)]).await.expect("kept");
        assert_eq!(live(&store, shard).await, [0]);
    });
}
