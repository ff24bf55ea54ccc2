//! What was answered survives the end of the process, whenever it comes.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use store::{Store, Turn};

use crate::support::{block_on, claim, folder, life, live, open, submit};

const FOLDER: &str = "ASTRA_TEST_FOLDER";
const KILLS: u64 = 12;
/// Turns that are queued before the first is awaited.
const PIPELINED: u64 = 8;

/// Not a story of its own: the process that the stories end. It commits and tells what was kept.
/// Without a folder it has nothing to do.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let store = open(Path::new(&folder));
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
                    (number, store.commit(Turn { claim: shard, changes, runs: Vec::new() }))
                })
                .collect();
            for (number, commit) in commits {
                commit.await.expect("kept");
                let mut out = std::io::stdout().lock();
                writeln!(out, "\nkept {number}").and_then(|()| out.flush()).expect("tells");
            }
            number += PIPELINED;
        }
    });
}

fn start(folder: &Path, failpoint: &str) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["kill::child", "--exact", "--nocapture"])
        .env(FOLDER, folder)
        .env("ASTRA_FAILPOINT", failpoint)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts")
}

/// Reads what the child kept, kills it once that is `enough`, and gives the last number.
fn last_kept(mut child: Child, enough: u64) -> (Option<u64>, ExitStatus) {
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut last = None;
    let mut n_kept = 0;
    for line in lines {
        let line = line.expect("text");
        if let Some(number) = line.strip_prefix("kept ") {
            last = Some(number.parse().expect("a number"));
            n_kept += 1;
            if n_kept == enough {
                child.kill().expect("kills with signal 9");
            }
        }
    }
    (last, child.wait().expect("ends"))
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
        let (last, _) = last_kept(start(folder.path(), ""), 1 + round * 37);
        check(folder.path(), last.expect("told something"));
    }
}

#[test]
fn an_end_between_commit_and_answer_keeps_what_nobody_heard_of() {
    let folder = folder();
    let child = start(folder.path(), "after_commit_before_answer:3");
    let (last, status) = last_kept(child, u64::MAX);
    assert_eq!(status.code(), Some(137));
    let told = last.map_or(0, |last| last + 1);
    let next_number = check(folder.path(), last.unwrap_or(0));
    assert!(next_number > told, "the third commit was kept, and nobody was told");
}

#[test]
fn an_end_before_the_commit_keeps_nothing_of_it() {
    let folder = folder();
    let (last, status) = last_kept(start(folder.path(), "before_commit:1"), u64::MAX);
    assert_eq!((last, status.code()), (None, Some(137)));
    let store = open(folder.path());
    block_on(async {
        let shard = claim(&store).await;
        assert_eq!(store.restore(shard).await.expect("restores").next_number, 0);
    });
}
