//! A store in trouble: nobody hears of a success that is none, and it passes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use keyspace::{Answer, Kind, Row, Write};
use server::handle::AskError;
use server::keyspace::CommitPoint;
use store::Store;
use tokio::sync::RwLock;
use tokio::task::JoinHandle;

use crate::place::{
    PATIENCE, Place, ask, ask_all, execute, list, pop_or_wait, popped, recovered, set_large, text,
    words,
};
use crate::waiting::wait_until;

#[tokio::test]
async fn a_lost_change_is_told_to_all_who_saw_it_and_forgotten() {
    let place = Place::new().await;
    let keyspace = place.keyspace().await;
    ask(&keyspace, "SET k before").await.expect("kept");
    place.fill();
    let (_, all) = execute(&keyspace, &[set_large("large"), words("SET k lost")]).expect("done");
    let (answers, read) = execute(&keyspace, &[words("GET k")]).expect("done");
    assert_eq!(text(&answers[0]), "lost");
    assert_eq!(all.durable().await, Err(AskError::Unavailable));
    assert_eq!(read.durable().await, Err(AskError::Unavailable), "a reader hears it too");
    place.empty();
    recovered(&keyspace).await;

    let (answers, later) = execute(&keyspace, &[words("GET k"), words("GET large")]).expect("done");
    assert_eq!(answers, [Answer::Bulk("before".into()), Answer::Null]);
    assert!(later.is_durable());
    assert_eq!(all.durable().await, Err(AskError::Unavailable), "lost stays lost");
    ask_all(&keyspace, &[set_large("large")]).await.expect("there is room again");
}

#[tokio::test]
async fn a_reader_waits_for_what_the_store_already_has() {
    let place = Place::new().await;
    let keyspace = place.keyspace().await;
    for _ in 0..200 {
        place.fill();
        execute(&keyspace, &[set_large("large")]).expect("done");
        // The store is given the change. On a slow machine it has failed by now, and the keyspace
        // may even be restored.
        tokio::task::yield_now().await;
        if let Ok((answers, read)) = execute(&keyspace, &[words("GET large")])
            && answers != [Answer::Null]
        {
            assert_eq!(read.durable().await, Err(AskError::Unavailable));
            return;
        }
        place.empty();
        recovered(&keyspace).await;
    }
    panic!("never read before the failure was known");
}

/// Changes go on while the disk is full now and then. Whatever was answered with success is there
/// at the end, and nothing that was refused came between them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_success_is_false_while_the_disk_fills_and_empties() {
    const TASKS: usize = 6;
    const ROUNDS: usize = 60;
    let place = Place::new().await;
    let keyspace = place.keyspace().await;
    let (n_kept, n_failed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    // Locked as long as the disk is full.
    let full = Arc::new(RwLock::new(()));
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let keyspace = Arc::clone(&keyspace);
            let (n_kept, n_failed) = (Arc::clone(&n_kept), Arc::clone(&n_failed));
            let full = Arc::clone(&full);
            tokio::spawn(async move {
                let mut kept = BTreeSet::new();
                for round in 0..ROUNDS {
                    let key = format!("k{task}-{round}");
                    if ask_all(&keyspace, &[set_large(&key)]).await.is_ok() {
                        kept.insert(key);
                        n_kept.fetch_add(1, Ordering::Relaxed);
                    } else {
                        n_failed.fetch_add(1, Ordering::Relaxed);
                        // Going on at once would spend all rounds on one full disk.
                        drop(full.read().await);
                    }
                }
                kept
            })
        })
        .collect();
    let more = async |counter: &AtomicUsize| {
        let wanted = counter.load(Ordering::Relaxed) + 1;
        let counted = async || {
            let is_over = tasks.iter().all(JoinHandle::is_finished);
            let seen = counter.load(Ordering::Relaxed);
            if seen >= wanted || is_over { Ok(()) } else { Err(seen) }
        };
        wait_until("one more key", PATIENCE, counted).await;
    };
    for _ in 0..6 {
        more(&n_kept).await;
        let is_full = full.write().await;
        place.fill();
        more(&n_failed).await;
        place.empty();
        recovered(&keyspace).await;
        drop(is_full);
    }
    let mut kept = BTreeSet::new();
    for task in tasks {
        kept.extend(task.await.expect("no task fails"));
    }
    assert!(!kept.is_empty() && kept.len() < TASKS * ROUNDS, "some failed: {}", kept.len());
    let there: BTreeSet<_> = place
        .rows()
        .await
        .into_iter()
        .map(|row| String::from_utf8(row.key.to_vec()).expect("text"))
        .collect();
    assert!(kept.is_subset(&there), "missing: {:?}", kept.difference(&there));
}

#[tokio::test]
async fn a_fenced_keyspace_is_dropped_and_comes_back_for_who_asks() {
    let place = Place::new().await;
    let keyspace = place.keyspace().await;
    ask(&keyspace, "SET k 1").await.expect("kept");
    // Another owner takes the shard and changes a key.
    let claim = place.store.claim("acme".parse().expect("a name")).await.expect("claims");
    let (key, value) = (Bytes::from_static(b"k"), Bytes::from_static(b"2"));
    let row = Row { key, kind: Kind::String, expires_at: None, value };
    let writes = vec![Write::Put(row)];
    let theirs = place.store.commit_keys(store::KeyspaceTurn { claim, writes });
    theirs.await.expect("kept");

    let waiting = tokio::spawn({
        let keyspace = Arc::clone(&keyspace);
        async move { pop_or_wait(&keyspace, &words("BLPOP q 0")).await }
    });
    while keyspace.load().waiters == 0 {
        tokio::task::yield_now().await;
    }
    let refused = ask(&keyspace, "SET k 3").await.expect_err("the claim is stale");
    assert_eq!(refused, AskError::Unavailable);
    // The shard is idle, and hears from its keyspace that it should look.
    let told = tokio::time::timeout(PATIENCE, waiting).await.expect("who waits is told");
    assert_eq!(told.expect("ends"), Err(AskError::Unavailable));
    assert_eq!(ask(&keyspace, "GET k").await, Err(AskError::Unavailable));
    let is_current = store::KeyspaceTurn { claim, writes: Vec::new() };
    place.store.commit_keys(is_current).await.expect("nobody claimed it back");

    let keyspace = place.keyspace().await;
    let answers = ask(&keyspace, "GET k").await.expect("read");
    assert_eq!(text(&answers[0]), "2", "what the other owner wrote");
    ask(&keyspace, "SET k 4").await.expect("kept");
    assert_eq!(place.rows().await[0].value, "4");
}

#[tokio::test]
async fn who_waits_for_a_list_waits_on_while_the_keyspace_is_restored() {
    let place = Place::new().await;
    let keyspace = place.keyspace().await;
    ask(&keyspace, "RPUSH held a").await.expect("kept");
    let waiting = tokio::spawn({
        let keyspace = Arc::clone(&keyspace);
        async move { pop_or_wait(&keyspace, &words("BLPOP q 0")).await }
    });
    while keyspace.load().waiters == 0 {
        tokio::task::yield_now().await;
    }
    place.fill();
    // This push and the pop that it allows are lost together, so the waiter hears of it.
    let refused = ask_all(&keyspace, &[set_large("large"), words("RPUSH q lost")]).await;
    assert_eq!(refused, Err(AskError::Unavailable));
    assert_eq!(waiting.await.expect("ends"), Err(AskError::Unavailable));

    let waiting = {
        let keyspace = Arc::clone(&keyspace);
        place.empty();
        recovered(&keyspace).await;
        tokio::spawn(async move { pop_or_wait(&keyspace, &words("BLPOP q 0")).await })
    };
    while keyspace.load().waiters == 0 {
        tokio::task::yield_now().await;
    }
    place.fill();
    assert_eq!(ask_all(&keyspace, &[set_large("large")]).await, Err(AskError::Unavailable));
    place.empty();
    recovered(&keyspace).await;
    assert_eq!(keyspace.load().waiters, 1, "it lost nothing, so it waits on");
    ask(&keyspace, "RPUSH q found").await.expect("kept");
    assert_eq!(waiting.await.expect("ends"), Ok(popped("q", "found")));
    assert_eq!(list(&keyspace, "held").await, ["a"]);
    CommitPoint::default().durable().await.expect("nothing to wait for");
}

#[tokio::test]
async fn a_lost_pop_leaves_its_element_to_who_waits() {
    let place = Place::new().await;
    let keyspace = place.keyspace().await;
    ask(&keyspace, "RPUSH q 1").await.expect("kept");
    place.fill();
    let (answers, point) =
        execute(&keyspace, &[set_large("large"), words("LPOP q")]).expect("done");
    assert_eq!(text(&answers[1]), "1");
    let command = words("BLPOP q 0");
    let mut waiting = std::pin::pin!(pop_or_wait(&keyspace, &command));
    tokio::select! {
        biased;
        _ = &mut waiting => panic!("the list is empty"),
        lost = point.durable() => assert_eq!(lost, Err(AskError::Unavailable)),
    }
    place.empty();
    let found = tokio::time::timeout(PATIENCE, waiting).await.expect("it comes back");
    assert_eq!(found, Ok(popped("q", "1")));
}
