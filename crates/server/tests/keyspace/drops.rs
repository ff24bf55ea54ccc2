//! Connections that end at any point: no element is lost, and none is there twice.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use keyspace::Answer;
use proptest::collection::vec;
use proptest::prelude::*;
use server::handle::AskError;
use server::keyspace::TenantKeyspace;

use crate::place::{
    Place, ask, ask_all, execute, list, pop_or_wait, popped, recovered, set_large, text, words,
};

const LISTS: [&str; 3] = ["a", "b", "c"];

type Wait = Pin<Box<dyn Future<Output = Result<Answer, AskError>>>>;

fn begin(keyspace: &Arc<TenantKeyspace>, command: &str) -> Wait {
    let (keyspace, command) = (Arc::clone(keyspace), words(command));
    Box::pin(async move { pop_or_wait(&keyspace, &command).await })
}

fn poll(wait: &mut Wait) -> Poll<Result<Answer, AskError>> {
    wait.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Lets everything that is under way become durable.
async fn settle(keyspace: &TenantKeyspace) {
    ask(keyspace, "INCR settled").await.expect("kept");
}

#[tokio::test]
async fn a_waiter_that_goes_before_it_is_served_takes_nothing() {
    let place = Place::new().await;
    let keyspace = place.keyspace().await;
    let mut gone = begin(&keyspace, "BLPOP q 0");
    assert!(poll(&mut gone).is_pending());
    drop(gone);
    ask(&keyspace, "RPUSH q 1").await.expect("kept");
    assert_eq!(list(&keyspace, "q").await, ["1"]);
}

#[tokio::test]
async fn an_element_of_a_waiter_that_went_goes_back_to_its_end() {
    let place = Place::new().await;
    let keyspace = place.keyspace().await;
    for (pop, expected) in [("BLPOP", ["1", "2"]), ("BRPOP", ["1", "2"])] {
        for is_durable in [false, true] {
            for is_polled in [false, true] {
                let mut gone = begin(&keyspace, &format!("{pop} q 0"));
                assert!(poll(&mut gone).is_pending());
                let (_, point) = execute(&keyspace, &[words("RPUSH q 1 2")]).expect("done");
                if is_polled {
                    assert!(poll(&mut gone).is_pending(), "served, but not durable");
                }
                if is_durable {
                    point.durable().await.expect("kept");
                }
                drop(gone);
                assert_eq!(list(&keyspace, "q").await, expected);
                let restored = place.rows().await;
                assert_eq!(restored[0].value, "\0\0\0\x011\0\0\0\x012", "in the store too");
                ask(&keyspace, "DEL q").await.expect("kept");
            }
        }
    }
}

#[tokio::test]
async fn what_goes_back_serves_the_next_in_line() {
    let place = Place::new().await;
    let keyspace = place.keyspace().await;
    let mut waits: Vec<_> = (0..3).map(|_| begin(&keyspace, "BLPOP q 0")).collect();
    assert!(waits.iter_mut().all(|wait| poll(wait).is_pending()));
    execute(&keyspace, &[words("RPUSH q 1")]).expect("done");
    // The first two go, one after the other, each after it was served.
    let last = waits.pop().expect("three");
    waits.reverse();
    while let Some(gone) = waits.pop() {
        drop(gone);
    }
    assert_eq!(last.await, Ok(popped("q", "1")));
    assert_eq!(keyspace.load().keys, 0);
}

#[tokio::test]
async fn a_moved_element_stays_where_it_was_moved() {
    let place = Place::new().await;
    let keyspace = place.keyspace().await;
    let mut gone = begin(&keyspace, "BRPOPLPUSH q kept 0");
    assert!(poll(&mut gone).is_pending());
    execute(&keyspace, &[words("RPUSH q 1")]).expect("done");
    drop(gone);
    assert_eq!(list(&keyspace, "kept").await, ["1"]);
    assert_eq!(list(&keyspace, "q").await, [""; 0]);
}

#[tokio::test]
async fn a_lost_pop_is_not_given_back() {
    let place = Place::new().await;
    let keyspace = place.keyspace().await;
    ask(&keyspace, "RPUSH q 1").await.expect("kept");
    place.fill();
    let mut gone = begin(&keyspace, "BLPOP q 0");
    execute(&keyspace, &[set_large("large")]).expect("done");
    assert!(poll(&mut gone).is_pending(), "popped, not durable");
    let (_, point) = execute(&keyspace, &[words("GET none")]).expect("done");
    assert_eq!(point.durable().await, Err(AskError::Unavailable));
    place.empty();
    recovered(&keyspace).await;
    assert_eq!(list(&keyspace, "q").await, ["1"], "it was never gone");
    drop(gone);
    assert_eq!(list(&keyspace, "q").await, ["1"], "and it is there once");
}

#[tokio::test]
async fn an_element_that_nobody_took_outlives_the_memory_that_it_was_in() {
    let place = Place::new().await;
    let keyspace = place.keyspace().await;
    ask(&keyspace, "RPUSH q 1").await.expect("kept");
    // On a slow machine the keyspace may be restored before anyone goes: then once more.
    for _ in 0..200 {
        let mut gone = begin(&keyspace, "BLPOP q 0");
        assert!(poll(&mut gone).is_pending(), "popped, not durable");
        settle(&keyspace).await;
        assert_eq!(list(&keyspace, "q").await, [""; 0], "durable, not told");
        place.fill();
        let refused = ask_all(&keyspace, &[set_large("large")]).await;
        assert_eq!(refused, Err(AskError::Unavailable));
        let is_away = execute(&keyspace, &[words("GET none")]).is_err();
        drop(gone);
        place.empty();
        recovered(&keyspace).await;
        assert_eq!(list(&keyspace, "q").await, ["1"]);
        if is_away {
            return;
        }
    }
    panic!("never gone before the keyspace was restored");
}

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// An element is pushed at the right end.
    Push { list: usize },
    /// Someone begins to wait for two lists.
    Begin { first: usize, second: usize, is_left: bool },
    /// Someone begins to wait for a move.
    BeginMove { from: usize, to: usize },
    /// Who waits looks whether it has an answer.
    Poll { wait: usize },
    /// Who waits goes.
    Drop { wait: usize },
    /// An element is popped without a wait.
    Pop { list: usize },
    /// What is under way becomes durable.
    Settle,
    /// The runtime does a little.
    Yield,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let list = 0..LISTS.len();
    let event = prop_oneof![
        4 => list.clone().prop_map(|list| Event::Push { list }),
        3 => (list.clone(), list.clone(), any::<bool>())
            .prop_map(|(first, second, is_left)| Event::Begin { first, second, is_left }),
        1 => (list.clone(), list.clone()).prop_map(|(from, to)| Event::BeginMove { from, to }),
        4 => (0..6_usize).prop_map(|wait| Event::Poll { wait }),
        2 => (0..6_usize).prop_map(|wait| Event::Drop { wait }),
        1 => list.prop_map(|list| Event::Pop { list }),
        2 => Just(Event::Settle),
        2 => Just(Event::Yield),
    ];
    vec(event, 1..60)
}

/// Elements by how often they are there.
#[derive(Debug, Default, PartialEq)]
struct Elements(BTreeMap<String, usize>);

impl Elements {
    fn add(&mut self, element: String) {
        *self.0.entry(element).or_default() += 1;
    }
}

struct Story {
    keyspace: Arc<TenantKeyspace>,
    waits: Vec<(Wait, bool)>,
    pushed: Elements,
    taken: Elements,
}

impl Story {
    async fn play(&mut self, event: Event) {
        match event {
            Event::Push { list } => {
                let element = format!("e{}", self.pushed.0.len());
                let push = words(&format!("RPUSH {} {element}", LISTS[list]));
                execute(&self.keyspace, &[push]).expect("done");
                self.pushed.add(element);
            }
            Event::Begin { first, second, is_left } => {
                let pop = if is_left { "BLPOP" } else { "BRPOP" };
                let command = format!("{pop} {} {} 0", LISTS[first], LISTS[second]);
                self.waits.push((begin(&self.keyspace, &command), false));
            }
            Event::BeginMove { from, to } => {
                let command = format!("BRPOPLPUSH {} {} 0", LISTS[from], LISTS[to]);
                self.waits.push((begin(&self.keyspace, &command), true));
            }
            Event::Poll { wait } => self.poll(wait),
            Event::Drop { wait } if wait < self.waits.len() => drop(self.waits.remove(wait)),
            Event::Drop { .. } => {}
            Event::Pop { list } => {
                let pop = words(&format!("LPOP {}", LISTS[list]));
                let (answers, _) = execute(&self.keyspace, &[pop]).expect("done");
                if answers[0] != Answer::Null {
                    self.taken.add(text(&answers[0]));
                }
            }
            Event::Settle => settle(&self.keyspace).await,
            Event::Yield => tokio::task::yield_now().await,
        }
    }

    fn poll(&mut self, wait: usize) {
        let Some((future, is_move)) = self.waits.get_mut(wait) else { return };
        let Poll::Ready(answer) = poll(future) else { return };
        if !*is_move {
            let Ok(Answer::Popped(popped)) = &answer else { panic!("a pop: {answer:?}") };
            self.taken.add(String::from_utf8(popped.element.to_vec()).expect("text"));
        }
        drop(self.waits.remove(wait));
    }

    /// Everyone goes; then everything pushed was taken once or is there once.
    async fn check(mut self, place: Place) {
        self.waits.clear();
        assert_eq!(self.keyspace.load().waiters, 0);
        settle(&self.keyspace).await;
        let place = place.restart().await;
        let keyspace = place.keyspace().await;
        for name in LISTS {
            for element in list(&keyspace, name).await {
                self.taken.add(element);
            }
        }
        assert_eq!(self.taken, self.pushed);
        place.server.stop().await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_element_is_lost_or_doubled(events in events()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let place = Place::new().await;
            let keyspace = place.keyspace().await;
            let (pushed, taken) = (Elements::default(), Elements::default());
            let mut story = Story { keyspace, waits: Vec::new(), pushed, taken };
            for event in events {
                story.play(event).await;
            }
            story.check(place).await;
        });
    }
}
