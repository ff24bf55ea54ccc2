//! Keys that end vanish from the store too.

use bytes::Bytes;

use crate::place::{PATIENCE, Place, ask, ask_all};
use crate::waiting::wait_until;

#[tokio::test]
async fn keys_that_end_are_swept_from_the_store() {
    const KEYS: usize = 1_000;
    let place = Place::new().await;
    let keyspace = place.keyspace().await;
    let each = |more: &[&'static str]| -> Vec<Vec<Bytes>> {
        let more: Vec<Bytes> = more.iter().map(|word| Bytes::from(*word)).collect();
        let command = |n| [vec!["SET".into(), format!("k{n}").into(), "v".into()], more.clone()];
        (0..KEYS).map(|n| command(n).concat()).collect()
    };
    ask_all(&keyspace, &each(&[])).await.expect("kept");
    ask(&keyspace, "SET stays 1; SET later 1 PX 100000").await.expect("kept");
    assert_eq!(place.rows().await.len(), KEYS + 2);
    ask_all(&keyspace, &each(&["PX", "30"])).await.expect("kept");
    // Nobody asks for them; they go all the same.
    until_rows(&place, 2).await;
    assert_eq!(keyspace.load().keys, 2);
}

#[tokio::test]
async fn a_key_with_a_short_life_moves_the_alarm_forward() {
    let place = Place::new().await;
    let keyspace = place.keyspace().await;
    ask(&keyspace, "SET later 1 PX 100000").await.expect("kept");
    ask(&keyspace, "SET soon 1 PX 30").await.expect("kept");
    until_rows(&place, 1).await;
}

async fn until_rows(place: &Place, n_left: usize) {
    let swept = async || {
        let n_rows = place.rows().await.len();
        if n_rows <= n_left { Ok(()) } else { Err(n_rows) }
    };
    wait_until("keys that end", PATIENCE, swept).await;
}
