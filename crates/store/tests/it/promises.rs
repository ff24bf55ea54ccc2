//! Every store, against the same promises and the same reference.

use std::sync::Arc;

use crate::conformance::{exercise, exercise_keys, exercise_runs, replay, replay_keys};
use parking_lot::Mutex;
use proptest::collection::vec;
use proptest::prelude::*;
use store::Store;

use crate::support::{Place, block_on};

#[test]
fn sqlite_keeps_the_promises() {
    // The newest place is the one that a story reopens.
    let places = Mutex::new(Vec::new());
    let open = async || {
        let place = Place::new();
        let store = place.open();
        places.lock().push(place);
        store
    };
    let reopen = async |store: Arc<dyn Store>| {
        drop(store);
        places.lock().last().expect("opened before").open()
    };
    block_on(async {
        exercise(open, reopen).await;
        exercise_runs(open).await;
        exercise_keys(open, reopen).await;
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn sqlite_holds_any_history(choices in vec(any::<u32>(), 1..300)) {
        let place = Place::new();
        let reopen = async |store: Arc<dyn Store>| {
            drop(store);
            place.open()
        };
        block_on(replay(place.open(), reopen, &choices));
    }

    #[test]
    fn sqlite_holds_any_keys(choices in vec(any::<u32>(), 1..300)) {
        let place = Place::new();
        let reopen = async |store: Arc<dyn Store>| {
            drop(store);
            place.open()
        };
        block_on(replay_keys(place.open(), reopen, &choices));
    }
}
