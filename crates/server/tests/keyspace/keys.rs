//! What is answered is durable, for many at a time and across restarts.

use std::sync::Arc;

use keyspace::Answer;
use server::handle::AskError;

use crate::place::{PATIENCE, Place, ask, ask_all, execute, list, text, words};

#[tokio::test]
async fn an_answer_is_true_only_when_what_it_saw_is_durable() {
    let place = Place::new().await;
    let keyspace = place.keyspace().await;
    // Nothing else runs between these, so the store has not been given anything yet.
    let (_, set) = execute(&keyspace, &[words("SET k v")]).expect("carried out");
    let (answers, get) = execute(&keyspace, &[words("GET k"), words("GET other")]).expect("same");
    assert_eq!(text(&answers[0]), "v", "a reader sees what is not durable yet");
    assert!(!set.is_durable());
    assert!(!get.is_durable(), "so the reader has to wait as well");
    get.durable().await.expect("durable");
    assert!(set.is_durable(), "what came before it is too");
    assert_eq!(place.rows().await[0].value, "v");
    let (_, later) = execute(&keyspace, &[words("GET k")]).expect("carried out");
    assert!(later.is_durable(), "there is nothing to wait for");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn everyone_sees_its_own_writes_and_all_come_back() {
    const TASKS: usize = 8;
    const ROUNDS: usize = 40;
    let place = Place::new().await;
    let keyspace = place.keyspace().await;
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let keyspace = Arc::clone(&keyspace);
            tokio::spawn(async move {
                for round in 0..ROUNDS {
                    let commands = format!("SET k{task} {round}; INCR sum; RPUSH l{task} {round}");
                    ask(&keyspace, &commands).await.expect("kept");
                    let own = ask(&keyspace, &format!("GET k{task}")).await.expect("read");
                    assert_eq!(text(&own[0]), round.to_string());
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no task fails");
    }
    let place = place.restart().await;
    let keyspace = place.keyspace().await;
    let sum = ask(&keyspace, "GET sum").await.expect("read");
    assert_eq!(text(&sum[0]), (TASKS * ROUNDS).to_string());
    for task in 0..TASKS {
        let expected: Vec<_> = (0..ROUNDS).map(|round| round.to_string()).collect();
        assert_eq!(list(&keyspace, &format!("l{task}")).await, expected);
    }
}

#[tokio::test]
async fn a_restart_brings_every_kind_back() {
    let place = Place::new().await;
    let keyspace = place.keyspace().await;
    ask(&keyspace, "SET s 1; RPUSH l a b c; LPUSH l z; SET t 1 PX 100000; RPOP l; SET gone 1")
        .await
        .expect("kept");
    ask(&keyspace, "DEL gone").await.expect("kept");
    let load = keyspace.load();
    let place = place.restart().await;
    let keyspace = place.keyspace().await;
    assert_eq!(keyspace.load(), load);
    assert_eq!(load.keys, 3);
    assert!(load.bytes > 0);
    assert_eq!(list(&keyspace, "l").await, ["z", "a", "b"]);
    let answers = ask(&keyspace, "GET s; TTL t; GET gone").await.expect("read");
    assert_eq!(text(&answers[0]), "1");
    assert!(matches!(answers[1], Answer::Integer(1..=100)), "{:?}", answers[1]);
    assert_eq!(answers[2], Answer::Null);
}

#[tokio::test]
async fn tenants_have_keys_of_their_own() {
    let place = Place::new().await;
    let (acme, bolt) = (place.of("acme").await, place.of("bolt").await);
    ask(&acme, "SET k acme").await.expect("kept");
    assert_eq!(ask(&bolt, "GET k").await.expect("read"), [Answer::Null]);
    ask(&bolt, "SET k bolt").await.expect("kept");
    let place = place.restart().await;
    for tenant in ["acme", "bolt"] {
        let keyspace = place.of(tenant).await;
        let answers = ask(&keyspace, "GET k").await.expect("read");
        assert_eq!(text(&answers[0]), tenant);
    }
}

#[tokio::test]
async fn first_users_share_one_keyspace() {
    let place = Place::new().await;
    let (first, second) = tokio::join!(place.keyspace(), place.keyspace());
    assert!(Arc::ptr_eq(&first, &second));
}

#[tokio::test]
async fn what_has_gathered_is_kept_when_the_server_stops() {
    let place = Place::new().await;
    let keyspace = place.keyspace().await;
    // After this one nothing is under way, and whoever commits waits for the next change.
    ask(&keyspace, "SET k before").await.expect("kept");
    let (_, point) = execute(&keyspace, &[words("SET k v")]).expect("carried out");
    // It hears of the change and of the stop at the same time.
    place.server.app().directory.stop().await;
    let kept = tokio::time::timeout(PATIENCE, point.durable()).await;
    kept.expect("settled").expect("kept on the way out");
    let refused = ask(&keyspace, "GET k").await.expect_err("it has stopped");
    assert_eq!(refused, AskError::Stopping);
    let place = place.restart().await;
    let keyspace = place.keyspace().await;
    let answers = ask(&keyspace, "GET k").await.expect("read");
    assert_eq!(text(&answers[0]), "v");
}

#[tokio::test]
async fn a_flood_of_changes_is_refused_until_some_are_durable() {
    let place = Place::new().await;
    let keyspace = place.keyspace().await;
    let large = |n: usize| vec!["SET".into(), format!("k{n}").into(), vec![0; 1 << 20].into()];
    let mut n_taken = 0;
    let refused = loop {
        match execute(&keyspace, &[large(n_taken)]) {
            Ok(_) => n_taken += 1,
            Err(refused) => break refused,
        }
    };
    assert_eq!((refused, n_taken), (AskError::Overloaded, 64));
    // The committer gets its turn only now.
    tokio::time::timeout(PATIENCE, async {
        while ask_all(&keyspace, &[words("GET none")]).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("it passes");
    assert_eq!(place.rows().await.len(), 64);
}
