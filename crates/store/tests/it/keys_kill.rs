//! What was answered about keys survives the end of the process, in order and in whole turns.

use std::path::Path;

use keyspace::{Kind, Row, Write};
use shard::{ClaimedShard, Turn};
use store::{KeyspaceTurn, SqliteStore, Store};

use crate::conformance::string;
use crate::mortal::{Mortal, PIPELINED, open_mortal, own_folder, tell};
use crate::support::{block_on, claim, folder, open, submit};

const KILLS: u64 = 10;
/// Turn `number`: two strings and a list that always agree, and a key that is there in every
/// second turn.
fn turn(number: u64) -> Vec<Write> {
    let mut writes = vec![string("first", format!("{number}"))];
    writes.extend(expected(number).into_iter().map(Write::Put));
    if number % 2 == 1 {
        writes.push(Write::Delete(EVEN.into()));
    }
    writes
}

const EVEN: &str = "even";

/// The keyspace after turn `number`.
fn expected(number: u64) -> Vec<Row> {
    let row = |key: &'static str, kind| Row {
        key: key.into(),
        kind,
        expires_at: None,
        value: number.to_string().into(),
    };
    let mut rows =
        vec![row("first", Kind::String), row("last", Kind::String), row("list", Kind::List)];
    if number.is_multiple_of(2) {
        rows.insert(0, row(EVEN, Kind::String));
    }
    rows
}

/// The last turn that the store holds; every row must be as that turn left it.
async fn last_turn(store: &SqliteStore, claim: ClaimedShard) -> Option<u64> {
    let rows = store.restore_keys(claim.shard).await.expect("restores");
    let first = rows.first()?;
    let number = str::from_utf8(&first.value).expect("text").parse().expect("a number");
    assert_eq!(rows, expected(number), "no torn turn");
    Some(number)
}

/// Not a story of its own: the process that the stories end. Every turn of keys goes beside a turn
/// of tasks, so that both are in one transaction.
#[test]
fn child() {
    let Some(folder) = own_folder() else { return };
    let store = open_mortal(&folder);
    block_on(async {
        let shard = claim(&store).await;
        let mut number = last_turn(&store, shard).await.map_or(0, |last| last + 1);
        let mut task = store.restore(shard).await.expect("restores").next_number;
        loop {
            let commits: Vec<_> = (number..number + PIPELINED)
                .map(|number| {
                    let tasks = Turn { changes: vec![submit(shard, task)], ..Turn::empty(shard) };
                    task += 1;
                    let keys = KeyspaceTurn { claim: shard, writes: turn(number) };
                    // Keys first: whatever a transaction ends with, no turn was told before its keys.
                    let keys = store.commit_keys(keys);
                    (number, store.commit(tasks), keys)
                })
                .collect();
            for (number, tasks, keys) in commits {
                keys.await.expect("kept");
                tasks.await.expect("kept");
                tell(number);
            }
            number += PIPELINED;
        }
    });
}

fn start(folder: &Path, failpoint: &str) -> Mortal {
    Mortal::start("keys_kill::child", folder, failpoint)
}

fn kept(folder: &Path) -> Option<u64> {
    let store = open(folder);
    block_on(async {
        let shard = claim(&store).await;
        last_turn(&store, shard).await
    })
}

#[test]
fn a_killed_process_loses_no_key_that_it_told() {
    let folder = folder();
    for round in 0..KILLS {
        let (told, _) = start(folder.path(), "").last_kept(1 + round * 37);
        let kept = kept(folder.path());
        assert!(kept >= told, "turn {told:?} was answered, but the store ends at {kept:?}");
    }
}

#[test]
fn an_end_between_commit_and_answer_keeps_keys_that_nobody_heard_of() {
    let folder = folder();
    let child = start(folder.path(), "after_commit_before_answer:3");
    let (told, status) = child.last_kept(u64::MAX);
    assert_eq!(status.code(), Some(137));
    assert!(kept(folder.path()) > told, "the third commit was kept, and nobody was told");
}

#[test]
fn an_end_before_the_commit_keeps_no_key_of_it() {
    let folder = folder();
    let (told, status) = start(folder.path(), "before_commit:1").last_kept(u64::MAX);
    assert_eq!((told, status.code()), (None, Some(137)));
    assert_eq!(kept(folder.path()), None);
}
