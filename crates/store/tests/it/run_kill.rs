//! Runs and their tasks survive the end of the process together, whenever it comes.

use std::path::Path;

use crate::conformance::{linked, node_ended, run_settled, run_started};
use coordinator::NodeWord;
use model::RunId;
use shard::{ClaimedShard, Turn};
use store::{SqliteStore, Store};

use crate::mortal::{Mortal, PIPELINED, open_mortal, own_folder, tell};
use crate::support::{block_on, claim, folder, life, open};

const KILLS: u64 = 8;

/// Turn `number`: a run, the end of one of its nodes and the whole life of its one task. Every
/// other run ends with it.
fn turn(claim: ClaimedShard, number: u64) -> Turn {
    let run = RunId::of(claim.shard, number);
    let mut changes = life(claim, number - 1).into_iter();
    let submit = changes.next().expect("a life begins");
    let mut runs = vec![run_started(run), node_ended(run, 0, 1)];
    if number.is_multiple_of(2) {
        runs.push(run_settled(run));
    }
    Turn {
        changes: [linked(submit, run, 0)].into_iter().chain(changes).collect(),
        runs,
        ..Turn::empty(claim)
    }
}

/// How many turns the store holds; everything of each must be there.
async fn n_turns(store: &SqliteStore, claim: ClaimedShard) -> u64 {
    let restored = store.restore(claim).await.expect("restores");
    let n_turns = restored.next_run - 1;
    assert_eq!(restored.next_number, n_turns, "a run without its task, or the other way round");
    let live: Vec<_> = restored.runs.iter().map(|run| run.record.id.number()).collect();
    let expected: Vec<_> = (1..=n_turns).filter(|number| !number.is_multiple_of(2)).collect();
    assert_eq!(live, expected);
    for run in &restored.runs {
        let [(0, 1, end)] = &run.parts.ended[..] else { panic!("one node ended: {run:?}") };
        assert_eq!((end.word, run.parts.tasks.len()), (NodeWord::Succeeded, 1));
        assert_eq!(run.parts.tasks[0].id.number() + 1, run.record.id.number());
    }
    n_turns
}

/// Not a story of its own: the process that the stories end.
#[test]
fn child() {
    let Some(folder) = own_folder() else { return };
    let store = open_mortal(&folder);
    block_on(async {
        let shard = claim(&store).await;
        let mut number = n_turns(&store, shard).await + 1;
        loop {
            let commits: Vec<_> = (number..number + PIPELINED)
                .map(|number| (number, store.commit(turn(shard, number))))
                .collect();
            for (number, commit) in commits {
                commit.await.expect("kept");
                tell(number);
            }
            number += PIPELINED;
        }
    });
}

fn start(folder: &Path, failpoint: &str) -> Mortal {
    Mortal::start("run_kill::child", folder, failpoint)
}

fn kept(folder: &Path) -> u64 {
    let store = open(folder);
    block_on(async {
        let shard = claim(&store).await;
        n_turns(&store, shard).await
    })
}

#[test]
fn a_killed_process_loses_no_run_that_it_told() {
    let folder = folder();
    for round in 0..KILLS {
        let (told, _) = start(folder.path(), "").last_kept(1 + round * 37);
        let (kept, told) = (kept(folder.path()), told.expect("told something"));
        assert!(kept >= told, "run {told} was answered, but the store ends at {kept}");
    }
}

#[test]
fn an_end_between_commit_and_answer_keeps_runs_that_nobody_heard_of() {
    let folder = folder();
    let child = start(folder.path(), "after_commit_before_answer:3");
    let (told, status) = child.last_kept(u64::MAX);
    assert_eq!(status.code(), Some(137));
    assert!(
        kept(folder.path()) > told.unwrap_or(0),
        "the third commit was kept, and nobody was told"
    );
}

#[test]
fn an_end_before_the_commit_keeps_no_run_of_it() {
    let folder = folder();
    let (told, status) = start(folder.path(), "before_commit:1").last_kept(u64::MAX);
    assert_eq!((told, status.code()), (None, Some(137)));
    assert_eq!(kept(folder.path()), 0);
}
