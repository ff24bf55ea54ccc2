//! What was answered survives the end of the process, whenever it comes.

use std::path::Path;

use shard::Turn;
use store::Store;

use crate::mortal::{Mortal, PIPELINED, open_mortal, own_folder, tell};
use crate::support::{block_on, claim, folder, life, live, open, submit};

const KILLS: u64 = 12;
/// A log of 300 KB is full long before this.
const COMMITS_TO_REFUSAL_MAX: u64 = 2_000;

/// Not a story of its own: the process that the stories end. It commits and tells what was kept.
/// Without a folder it has nothing to do.
#[test]
fn child() {
    let Some(folder) = own_folder() else { return };
    let store = open_mortal(&folder);
    block_on(async {
        let shard = claim(&store).await;
        let mut number = store.restore(shard).await.expect("restores").next_number;
        loop {
            let commits: Vec<_> = (number..number + PIPELINED)
                .map(|number| {
                    // Every other task stays live, so that both kinds are looked for.
                    let changes = if number % 2 == 0 {
                        vec![submit(shard, number)]
                    } else {
                        life(shard, number)
                    };
                    (number, store.commit(Turn { changes, ..Turn::empty(shard) }))
                })
                .collect();
            for (number, commit) in commits {
                commit.await.expect("kept");
                tell(number);
            }
            number += PIPELINED;
        }
    });
}

/// Not a story of its own: commits until the system refuses to write, and goes on after that.
#[test]
fn refused_child() {
    let Some(folder) = own_folder() else { return };
    let store = open(&folder);
    block_on(async {
        let mut shard = claim(&store).await;
        let mut number = 0;
        let mut n_refused = 0;
        while n_refused < 3 && number < COMMITS_TO_REFUSAL_MAX {
            let changes = vec![submit(shard, number)];
            if store.commit(Turn { changes, ..Turn::empty(shard) }).await.is_ok() {
                tell(number);
                number += 1;
                continue;
            }
            n_refused += 1;
            let Ok(claimed) = store.claim(crate::conformance::tenant("acme")).await else { return };
            shard = claimed;
        }
        assert!(n_refused > 0, "the limit was never reached");
    });
}

#[test]
fn a_commit_that_the_system_refuses_to_write_is_not_answered_as_kept() {
    let folder = folder();
    let child = Mortal::start_limited("kill::refused_child", folder.path(), 600);
    let (last, status) = child.last_kept(u64::MAX);
    assert!(status.success(), "it was refused, and lived: {status}");
    let last = last.expect("some were kept before the limit");
    let store = open(folder.path());
    block_on(async {
        let shard = claim(&store).await;
        let next_number = store.restore(shard).await.expect("restores").next_number;
        // A turn that was refused may be there all the same; one that was answered must be.
        assert!(next_number > last, "task {last} was answered, the store ends at {next_number}");
        assert_eq!(live(&store, shard).await, (0..next_number).collect::<Vec<_>>());
    });
}

fn start(folder: &Path, failpoint: &str) -> Mortal {
    Mortal::start("kill::child", folder, failpoint)
}

fn check(folder: &Path, last: u64) -> u64 {
    let store = open(folder);
    block_on(async {
        let shard = claim(&store).await;
        let next_number = store.restore(shard).await.expect("restores").next_number;
        assert!(
            next_number > last,
            "task {last} was answered, but the store ends at {next_number}"
        );
        let expected: Vec<_> = (0..next_number).filter(|number| number % 2 == 0).collect();
        assert_eq!(live(&store, shard).await, expected);
        next_number
    })
}

#[test]
fn a_killed_process_loses_nothing_that_it_told() {
    let folder = folder();
    for round in 0..KILLS {
        let (last, _) = start(folder.path(), "").last_kept(1 + round * 37);
        check(folder.path(), last.expect("told something"));
    }
}

#[test]
fn an_end_between_commit_and_answer_keeps_what_nobody_heard_of() {
    let folder = folder();
    let child = start(folder.path(), "after_commit_before_answer:3");
    let (last, status) = child.last_kept(u64::MAX);
    assert_eq!(status.code(), Some(137));
    let told = last.map_or(0, |last| last + 1);
    let next_number = check(folder.path(), last.unwrap_or(0));
    assert!(next_number > told, "the third commit was kept, and nobody was told");
}

#[test]
fn an_end_before_the_commit_keeps_nothing_of_it() {
    let folder = folder();
    let (last, status) = start(folder.path(), "before_commit:1").last_kept(u64::MAX);
    assert_eq!((last, status.code()), (None, Some(137)));
    let store = open(folder.path());
    block_on(async {
        let shard = claim(&store).await;
        assert_eq!(store.restore(shard).await.expect("restores").next_number, 0);
    });
}
