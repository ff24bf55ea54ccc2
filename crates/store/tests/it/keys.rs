//! Keyspaces on a disk in trouble.

use keyspace::Write;
use shard::{ClaimedShard, Turn};
use store::{CommitError, Committed, KeyspaceTurn, SqliteStore, Store};

use crate::conformance::string;
use crate::support::{block_on, claim, commit, empty, fill, folder, live, open, raw, submit};

const LARGE: usize = 200_000;

async fn commit_keys(
    store: &SqliteStore,
    claim: ClaimedShard,
    writes: Vec<Write>,
) -> Result<Committed, CommitError> {
    store.commit_keys(KeyspaceTurn { claim, writes }).await
}

/// Every key, and the length of its value.
async fn keys(store: &SqliteStore, claim: ClaimedShard) -> Vec<(String, usize)> {
    let rows = store.restore_keys(claim.shard).await.expect("restores");
    rows.iter().map(|row| (row.key.escape_ascii().to_string(), row.value.len())).collect()
}

fn failed(outcome: &Result<Committed, CommitError>, word: &str) -> bool {
    matches!(outcome, Err(CommitError::Unavailable(why)) if why.contains(word))
}

#[test]
fn a_failed_turn_fails_the_later_ones_until_the_keys_are_restored() {
    let folder = folder();
    let store = open(folder.path());
    block_on(async {
        let shard = claim(&store).await;
        commit_keys(&store, shard, vec![string("a", "1")]).await.expect("kept");
        fill(folder.path(), &store);
        let turn = |writes| store.commit_keys(KeyspaceTurn { claim: shard, writes });
        // The small key comes before the large one in the same turn: all or none.
        let first = turn(vec![string("b", "1"), string("c", vec![0; LARGE])]);
        let second = turn(vec![string("d", "1")]);
        assert!(failed(&first.await, "full"));
        assert!(failed(&second.await, ""), "it was queued behind the failed one");
        empty(&store);
        assert!(failed(&commit_keys(&store, shard, vec![string("e", "1")]).await, "earlier"));
        assert!(failed(&commit_keys(&store, shard, vec![]).await, "earlier"));

        // A turn that was queued before the restore is one of the lost ones.
        let late = turn(vec![string("f", "1")]);
        let restored = store.restore_keys(shard.shard);
        let next = turn(vec![string("g", "1")]);
        assert!(failed(&late.await, "earlier"));
        next.await.expect("kept: it comes after the restore");
        assert_eq!(restored.await.expect("restores")[0].key, "a");
        assert_eq!(keys(&store, shard).await, [("a".into(), 1), ("g".into(), 1)]);
    });
}

#[test]
fn keys_that_find_no_room_break_no_task() {
    let folder = folder();
    let store = open(folder.path());
    block_on(async {
        let shard = claim(&store).await;
        commit(&store, shard, vec![submit(shard, 0)]).await.expect("kept");
        fill(folder.path(), &store);
        let large = KeyspaceTurn { claim: shard, writes: vec![string("a", vec![0; LARGE])] };
        // Queued together, so that they may share a transaction.
        let keys = store.commit_keys(large);
        let task = store.commit(Turn { changes: vec![submit(shard, 1)], ..Turn::empty(shard) });
        assert!(failed(&keys.await, "full"));
        task.await.expect("a task needs no new page");
        commit(&store, shard, vec![submit(shard, 2)]).await.expect("its claim is not broken");
        assert_eq!(live(&store, shard).await, [0, 1, 2]);
    });
}

#[test]
fn a_key_of_an_unknown_kind_is_damage() {
    let folder = folder();
    let store = open(folder.path());
    block_on(async {
        let shard = claim(&store).await;
        commit_keys(&store, shard, vec![string("a", "1")]).await.expect("kept");
        let raw = raw(folder.path());
        let changed = raw.execute("UPDATE keyspace SET kind = 'stream'", []);
        assert!(changed.expect_err("refused").to_string().contains("CHECK"));
        let changed = raw.execute("UPDATE keyspace SET kind = 'list', value = x''", []);
        assert!(changed.expect_err("a list has elements").to_string().contains("CHECK"));
        raw.pragma_update(None, "ignore_check_constraints", true).expect("set");
        raw.execute("UPDATE keyspace SET kind = 'stream'", []).expect("changed");
        let damaged = store.restore_keys(shard.shard).await.expect_err("cannot be read");
        assert!(damaged.to_string().contains("the key a has the unknown kind \"stream\""));
    });
}
