//! Keys that end vanish from the store too.

use std::time::Duration;

use bytes::Bytes;

use crate::place::{PATIENCE, Place, ask, ask_all};

#[tokio::test]
async fn keys_that_end_are_swept_from_the_store() {
    const KEYS: usize = 1_000;
    let place = Place::new().await;
    let scratch = place.scratch().await;
    let each = |word: &'static str, last: &'static str| -> Vec<Vec<Bytes>> {
        let command = |n| vec![word.into(), format!("k{n}").into(), last.into()];
        (0..KEYS).map(command).collect()
    };
    ask_all(&scratch, &each("SET", "v")).await.expect("kept");
    ask(&scratch, "SET stays 1; SET later 1 PX 100000").await.expect("kept");
    assert_eq!(place.rows().await.len(), KEYS + 2);
    ask_all(&scratch, &each("PEXPIRE", "30")).await.expect("kept");
    // Nobody asks for them; they go all the same.
    let gone = async {
        while place.rows().await.len() > 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("in time");
    assert_eq!(scratch.load().keys, 2);
}

#[tokio::test]
async fn a_key_with_a_short_life_moves_the_alarm_forward() {
    let place = Place::new().await;
    let scratch = place.scratch().await;
    ask(&scratch, "SET later 1 PX 100000").await.expect("kept");
    ask(&scratch, "SET soon 1 PX 30").await.expect("kept");
    let gone = async {
        while place.rows().await.len() > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("in time");
}
