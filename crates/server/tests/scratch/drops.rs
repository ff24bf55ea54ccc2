//! Connections that end at any point: no element is lost, and none is there twice.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use keyspace::Answer;
use proptest::collection::vec;
use proptest::prelude::*;
use server::handle::AskError;
use server::scratch::TenantScratch;

use crate::place::{Place, ask, ask_all, list, popped, recovered, set_large, text, words};

const LISTS: [&str; 3] = ["a", "b", "c"];

type Wait = Pin<Box<dyn Future<Output = Result<Answer, AskError>>>>;

fn begin(scratch: &Arc<TenantScratch>, command: &str) -> Wait {
    let (scratch, command) = (Arc::clone(scratch), words(command));
    Box::pin(async move { scratch.wait_turn(&command).await })
}

fn poll(wait: &mut Wait) -> Poll<Result<Answer, AskError>> {
    wait.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Lets everything that is under way become durable.
async fn settle(scratch: &TenantScratch) {
    ask(scratch, "INCR settled").await.expect("kept");
}

#[tokio::test]
async fn a_waiter_that_goes_before_it_is_served_takes_nothing() {
    let place = Place::new().await;
    let scratch = place.scratch().await;
    let mut gone = begin(&scratch, "BLPOP q 0");
    assert!(poll(&mut gone).is_pending());
    drop(gone);
    ask(&scratch, "RPUSH q 1").await.expect("kept");
    assert_eq!(list(&scratch, "q").await, ["1"]);
}

#[tokio::test]
async fn an_element_of_a_waiter_that_went_goes_back_to_its_end() {
    let place = Place::new().await;
    let scratch = place.scratch().await;
    for (pop, expected) in [("BLPOP", ["1", "2"]), ("BRPOP", ["1", "2"])] {
        for is_durable in [false, true] {
            for is_polled in [false, true] {
                let mut gone = begin(&scratch, &format!("{pop} q 0"));
                assert!(poll(&mut gone).is_pending());
                let (_, mark) = scratch.execute(&[words("RPUSH q 1 2")]).expect("done");
                if is_polled {
                    assert!(poll(&mut gone).is_pending(), "served, but not durable");
                }
                if is_durable {
                    scratch.durable(&mark).await.expect("kept");
                }
                drop(gone);
                assert_eq!(list(&scratch, "q").await, expected);
                let restored = place.rows().await;
                let items: Vec<_> = restored[0].items.iter().map(|(_, value)| value).collect();
                assert_eq!(items, expected, "in the store too");
                ask(&scratch, "LTRIM q 1 0").await.expect("kept");
            }
        }
    }
}

#[tokio::test]
async fn what_goes_back_serves_the_next_in_line() {
    let place = Place::new().await;
    let scratch = place.scratch().await;
    let mut waits: Vec<_> = (0..3).map(|_| begin(&scratch, "BLPOP q 0")).collect();
    assert!(waits.iter_mut().all(|wait| poll(wait).is_pending()));
    scratch.execute(&[words("RPUSH q 1")]).expect("done");
    // The first two go, one after the other, each after it was served.
    let last = waits.pop().expect("three");
    waits.reverse();
    while let Some(gone) = waits.pop() {
        drop(gone);
    }
    assert_eq!(last.await, Ok(popped("q", "1")));
    assert_eq!(scratch.load().keys, 0);
}

#[tokio::test]
async fn a_moved_element_stays_where_it_was_moved() {
    let place = Place::new().await;
    let scratch = place.scratch().await;
    let mut gone = begin(&scratch, "BRPOPLPUSH q kept 0");
    assert!(poll(&mut gone).is_pending());
    scratch.execute(&[words("RPUSH q 1")]).expect("done");
    drop(gone);
    assert_eq!(list(&scratch, "kept").await, ["1"]);
    assert_eq!(list(&scratch, "q").await, [""; 0]);
}

#[tokio::test]
async fn a_lost_pop_is_not_given_back() {
    let place = Place::new().await;
    let scratch = place.scratch().await;
    ask(&scratch, "RPUSH q 1").await.expect("kept");
    place.fill();
    let mut gone = begin(&scratch, "BLPOP q 0");
    scratch.execute(&[set_large("large")]).expect("done");
    assert!(poll(&mut gone).is_pending(), "popped, not durable");
    let (_, mark) = scratch.execute(&[words("GET none")]).expect("done");
    assert_eq!(scratch.durable(&mark).await, Err(AskError::Unavailable));
    place.empty();
    recovered(&scratch).await;
    assert_eq!(list(&scratch, "q").await, ["1"], "it was never gone");
    drop(gone);
    assert_eq!(list(&scratch, "q").await, ["1"], "and it is there once");
}

#[tokio::test]
async fn an_element_that_nobody_took_outlives_the_memory_that_it_was_in() {
    let place = Place::new().await;
    let scratch = place.scratch().await;
    ask(&scratch, "RPUSH q 1").await.expect("kept");
    // On a slow machine the keyspace may be restored before anyone goes: then once more.
    for _ in 0..200 {
        let mut gone = begin(&scratch, "BLPOP q 0");
        assert!(poll(&mut gone).is_pending(), "popped, not durable");
        settle(&scratch).await;
        assert_eq!(list(&scratch, "q").await, [""; 0], "durable, not told");
        place.fill();
        let refused = ask_all(&scratch, &[set_large("large")]).await;
        assert_eq!(refused, Err(AskError::Unavailable));
        let is_away = scratch.execute(&[words("GET none")]).is_err();
        drop(gone);
        place.empty();
        recovered(&scratch).await;
        assert_eq!(list(&scratch, "q").await, ["1"]);
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
    scratch: Arc<TenantScratch>,
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
                self.scratch.execute(&[push]).expect("done");
                self.pushed.add(element);
            }
            Event::Begin { first, second, is_left } => {
                let pop = if is_left { "BLPOP" } else { "BRPOP" };
                let command = format!("{pop} {} {} 0", LISTS[first], LISTS[second]);
                self.waits.push((begin(&self.scratch, &command), false));
            }
            Event::BeginMove { from, to } => {
                let command = format!("BLMOVE {} {} RIGHT LEFT 0", LISTS[from], LISTS[to]);
                self.waits.push((begin(&self.scratch, &command), true));
            }
            Event::Poll { wait } => self.poll(wait),
            Event::Drop { wait } if wait < self.waits.len() => drop(self.waits.remove(wait)),
            Event::Drop { .. } => {}
            Event::Pop { list } => {
                let pop = words(&format!("LPOP {}", LISTS[list]));
                let (answers, _) = self.scratch.execute(&[pop]).expect("done");
                if answers[0] != Answer::Null {
                    self.taken.add(text(&answers[0]));
                }
            }
            Event::Settle => settle(&self.scratch).await,
            Event::Yield => tokio::task::yield_now().await,
        }
    }

    fn poll(&mut self, wait: usize) {
        let Some((future, is_move)) = self.waits.get_mut(wait) else { return };
        let Poll::Ready(answer) = poll(future) else { return };
        if !*is_move {
            let Ok(Answer::Array(parts)) = &answer else { panic!("a pop: {answer:?}") };
            self.taken.add(text(&parts[1]));
        }
        drop(self.waits.remove(wait));
    }

    /// Everyone goes; then everything pushed was taken once or is there once.
    async fn check(mut self, place: Place) {
        self.waits.clear();
        assert_eq!(self.scratch.load().waiters, 0);
        settle(&self.scratch).await;
        let place = place.restart().await;
        let scratch = place.scratch().await;
        for name in LISTS {
            for element in list(&scratch, name).await {
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
            let scratch = place.scratch().await;
            let (pushed, taken) = (Elements::default(), Elements::default());
            let mut story = Story { scratch, waits: Vec::new(), pushed, taken };
            for event in events {
                story.play(event).await;
            }
            story.check(place).await;
        });
    }
}
