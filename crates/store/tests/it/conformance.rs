//! Every store, against the same promises and the same reference.

use std::sync::Arc;

use parking_lot::Mutex;
use proptest::collection::vec;
use proptest::prelude::*;
use store::conformance::{exercise, exercise_runs, exercise_scratch, replay, replay_scratch};
use store::{MemoryStore, Store};

use crate::support::{Place, block_on};

async fn open_memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

#[test]
fn memory_keeps_the_promises() {
    block_on(async {
        exercise(open_memory, async |store| store).await;
        exercise_runs(open_memory).await;
        exercise_scratch(open_memory, async |store| store).await;
    });
}

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
        exercise_scratch(open, reopen).await;
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
    fn memory_holds_any_history(choices in vec(any::<u32>(), 1..300)) {
        let store = Arc::new(MemoryStore::default());
        block_on(replay(store, async |store| store, &choices));
    }

    #[test]
    fn sqlite_holds_any_keys(choices in vec(any::<u32>(), 1..300)) {
        let place = Place::new();
        let reopen = async |store: Arc<dyn Store>| {
            drop(store);
            place.open()
        };
        block_on(replay_scratch(place.open(), reopen, &choices));
    }

    #[test]
    fn memory_holds_any_keys(choices in vec(any::<u32>(), 1..300)) {
        let store = Arc::new(MemoryStore::default());
        block_on(replay_scratch(store, async |store| store, &choices));
    }
}
