//! Every store, against the same promises and the same reference.

use std::sync::Arc;

use parking_lot::Mutex;
use proptest::collection::vec;
use proptest::prelude::*;
use store::conformance::{exercise, replay};
use store::{MemoryStore, Store};

use crate::support::{Place, block_on};

#[test]
fn memory_keeps_the_promises() {
    block_on(exercise(
        async || Arc::new(MemoryStore::default()) as Arc<dyn Store>,
        async |store| store,
    ));
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
    block_on(exercise(open, reopen));
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
}
