//! Pops that wait: first come, first served, before anyone else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use keyspace::{Answer, End};
use server::handle::AskError;
use server::keyspace::{TenantKeyspace, WAITERS_MAX};
use tokio::task::JoinHandle;

use crate::place::{PATIENCE, Place, ask, list, pop_or_wait, popped, popped_at, words};

type Waiting = JoinHandle<Result<Answer, AskError>>;

/// Starts a pop and comes back when it is in line.
async fn wait(keyspace: &Arc<TenantKeyspace>, command: &str) -> Waiting {
    let before = keyspace.load().waiters;
    let command = words(command);
    let waiting = tokio::spawn({
        let keyspace = Arc::clone(keyspace);
        async move { pop_or_wait(&keyspace, &command).await }
    });
    while keyspace.load().waiters == before {
        tokio::task::yield_now().await;
    }
    waiting
}

async fn answer(waiting: Waiting) -> Answer {
    let answered = tokio::time::timeout(PATIENCE, waiting).await;
    answered.expect("in time").expect("no panic").expect("an answer")
}

#[tokio::test]
async fn the_first_who_came_is_served_first() {
    let place = Place::new().await;
    let keyspace = place.keyspace().await;
    let first = wait(&keyspace, "BLPOP q 0").await;
    let second = wait(&keyspace, "BRPOP other q 0").await;
    let third = wait(&keyspace, "BLPOP q 0").await;
    ask(&keyspace, "RPUSH q 1 2 3 4").await.expect("kept");
    assert_eq!(answer(first).await, popped("q", "1"));
    assert_eq!(answer(second).await, popped_at(End::Right, "q", "4"));
    assert_eq!(answer(third).await, popped("q", "2"));
    assert_eq!(list(&keyspace, "q").await, ["3"]);
    assert_eq!(keyspace.load().waiters, 0);
}

#[tokio::test]
async fn nobody_takes_what_someone_waits_for() {
    let place = Place::new().await;
    let keyspace = place.keyspace().await;
    let waiting = wait(&keyspace, "BLPOP q 0").await;
    let answers = ask(&keyspace, "RPUSH q 1; LPOP q; LLEN q").await.expect("kept");
    assert_eq!(answers, [Answer::Integer(1), Answer::Null, Answer::Integer(0)]);
    assert_eq!(answer(waiting).await, popped("q", "1"));
}

#[tokio::test]
async fn a_move_serves_who_waits_for_the_other_list() {
    let place = Place::new().await;
    let keyspace = place.keyspace().await;
    let last = wait(&keyspace, "BLPOP c 0").await;
    let middle = wait(&keyspace, "BRPOPLPUSH b c 0").await;
    let first = wait(&keyspace, "BRPOPLPUSH a b 0").await;
    ask(&keyspace, "RPUSH a 1").await.expect("kept");
    for moved in [first, middle] {
        assert_eq!(answer(moved).await, Answer::Bulk("1".into()));
    }
    assert_eq!(answer(last).await, popped("c", "1"));
    assert_eq!(keyspace.load().keys, 0);
}

#[tokio::test]
async fn what_is_there_is_taken_at_once() {
    let place = Place::new().await;
    let keyspace = place.keyspace().await;
    ask(&keyspace, "RPUSH q 1").await.expect("kept");
    let taken = pop_or_wait(&keyspace, &words("BLPOP q 0")).await;
    assert_eq!(taken, Ok(popped("q", "1")));
    assert!(place.rows().await.is_empty(), "and it is durable");
    let refused = pop_or_wait(&keyspace, &words("BLPOP q soon")).await.expect("an answer");
    assert_eq!(refused, Answer::Error("ERR timeout is not a float or out of range".into()));
}

#[tokio::test]
async fn a_wait_ends_in_time() {
    let place = Place::new().await;
    let keyspace = place.keyspace().await;
    let began = Instant::now();
    let nothing = pop_or_wait(&keyspace, &words("BLPOP q 0.05")).await;
    assert_eq!(nothing, Ok(Answer::NullArray));
    assert!(began.elapsed() >= Duration::from_millis(50));
    assert_eq!(keyspace.load().waiters, 0);
    ask(&keyspace, "RPUSH q 1").await.expect("kept");
    assert_eq!(list(&keyspace, "q").await, ["1"], "nobody waits any more");
}

#[tokio::test]
async fn a_wrong_kind_is_told_to_who_waits() {
    let place = Place::new().await;
    let keyspace = place.keyspace().await;
    ask(&keyspace, "SET text 1").await.expect("kept");
    let waiting = wait(&keyspace, "BRPOPLPUSH q text 0").await;
    ask(&keyspace, "RPUSH q 1").await.expect("kept");
    assert!(matches!(answer(waiting).await, Answer::Error(why) if why.starts_with("WRONGTYPE")));
    assert_eq!(list(&keyspace, "q").await, ["1"]);
}

#[tokio::test]
async fn too_many_who_wait_are_refused() {
    let place = Place::new().await;
    let keyspace = place.keyspace().await;
    let command = words("BLPOP q 0");
    let mut waits: Vec<_> = (0..=WAITERS_MAX)
        .map(|_| {
            let mut wait = Box::pin(pop_or_wait(&keyspace, &command));
            (polling::poll_once(&mut wait), wait)
        })
        .collect();
    let (last, _) = waits.pop().expect("the one too many");
    assert_eq!(last, Some(Err(AskError::Overloaded)));
    assert_eq!(keyspace.load().waiters, WAITERS_MAX);
    drop(waits);
    assert_eq!(keyspace.load().waiters, 0);
}

mod polling {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    /// Polls once; nobody hears when it could go on.
    pub(super) fn poll_once<F: Future>(future: &mut Pin<Box<F>>) -> Option<F::Output> {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }
}
