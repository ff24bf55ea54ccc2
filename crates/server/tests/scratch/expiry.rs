//! Keys that end vanish from the store too.

use bytes::Bytes;

use crate::place::{PATIENCE, Place, ask, ask_all};
use crate::waiting::wait_until;

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
    until_rows(&place, 2).await;
    assert_eq!(scratch.load().keys, 2);
}

#[tokio::test]
async fn a_key_with_a_short_life_moves_the_alarm_forward() {
    let place = Place::new().await;
    let scratch = place.scratch().await;
    ask(&scratch, "SET later 1 PX 100000").await.expect("kept");
    ask(&scratch, "SET soon 1 PX 30").await.expect("kept");
    until_rows(&place, 1).await;
}

async fn until_rows(place: &Place, n_left: usize) {
    let swept = async || {
        let n_rows = place.rows().await.len();
        if n_rows <= n_left { Ok(()) } else { Err(n_rows) }
    };
    wait_until("keys that end", PATIENCE, swept).await;
}
