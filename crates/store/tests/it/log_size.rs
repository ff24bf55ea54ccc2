//! The write-ahead log stays short, however long the load lasts.

use std::path::Path;
use std::time::Duration;

use shard::Turn;
use store::{PageQuery, Store};

use crate::support::{block_on, claim, folder, life, open, raw};
use crate::waiting::wait_until;

const TASKS_PER_TURN: u64 = 256;
const WRITTEN_MIN: u64 = 192 << 20;
/// The log is copied at 16 MiB; what is written meanwhile comes on top.
const LOG_MAX: u64 = 64 << 20;

fn log_bytes(folder: &Path) -> u64 {
    std::fs::metadata(folder.join("astra.db-wal")).map_or(0, |metadata| metadata.len())
}

#[test]
fn the_log_stays_short_under_load() {
    let folder = folder();
    let store = open(folder.path());
    block_on(async {
        let shard = claim(&store).await;
        let mut largest = 0;
        let mut number = 0;
        let mut n_turns = 0_u64;
        // Each turn writes each page of its rows once; a page holds about 20 rows.
        while n_turns * TASKS_PER_TURN / 20 * 4096 < WRITTEN_MIN {
            let changes =
                (number..number + TASKS_PER_TURN).flat_map(|number| life(shard, number)).collect();
            let commit = store.commit(Turn { changes, ..Turn::empty(shard) });
            let page = store.list(shard.shard, PageQuery { limit: 50, ..PageQuery::default() });
            page.await.expect("reads go on beside the load");
            commit.await.expect("kept");
            number += TASKS_PER_TURN;
            n_turns += 1;
            largest = largest.max(log_bytes(folder.path()));
        }
        assert!(largest < LOG_MAX, "the log grew to {largest} bytes");
    });
}

/// A sync of a file that grows also writes its new length: it takes twice as long.
#[test]
fn commits_do_not_lengthen_the_log() {
    let folder = folder();
    for start in [0, 500] {
        let store = open(folder.path());
        let reserved = log_bytes(folder.path());
        assert!(reserved > 16 << 20, "{reserved} bytes");
        block_on(async {
            let shard = claim(&store).await;
            for number in start..start + 500 {
                let turn = Turn { changes: life(shard, number), ..Turn::empty(shard) };
                store.commit(turn).await.expect("kept");
            }
        });
        assert_eq!(log_bytes(folder.path()), reserved);
    }
}

#[test]
fn an_idle_store_copies_its_log() {
    let folder = folder();
    let store = open(folder.path());
    block_on(async {
        let shard = claim(&store).await;
        store.commit(Turn { changes: life(shard, 0), ..Turn::empty(shard) }).await.expect("kept");
    });
    let all_copied = async || {
        let (written, copied): (i64, i64) = raw(folder.path())
            .query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| Ok((row.get(1)?, row.get(2)?)))
            .expect("an answer");
        if written == copied { Ok(()) } else { Err((written, copied)) }
    };
    block_on(wait_until("a copy of all pages", Duration::from_secs(20), all_copied));
}
