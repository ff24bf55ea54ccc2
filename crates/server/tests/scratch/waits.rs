//! Pops that wait: first come, first served, before anyone else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use keyspace::Answer;
use server::handle::AskError;
use server::scratch::{SCRATCH_WAITERS_MAX, TenantScratch};
use tokio::task::JoinHandle;

use crate::place::{PATIENCE, Place, ask, list, popped, text, words};

type Waiting = JoinHandle<Result<Answer, AskError>>;

/// Starts a pop and comes back when it is in line.
async fn wait(scratch: &Arc<TenantScratch>, command: &str) -> Waiting {
    let before = scratch.load().waiters;
    let command = words(command);
    let waiting = tokio::spawn({
        let scratch = Arc::clone(scratch);
        async move { scratch.wait_turn(&command).await }
    });
    while scratch.load().waiters == before {
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
    let scratch = place.scratch().await;
    let first = wait(&scratch, "BLPOP q 0").await;
    let second = wait(&scratch, "BRPOP other q 0").await;
    let third = wait(&scratch, "BLPOP q 0").await;
    ask(&scratch, "RPUSH q 1 2 3 4").await.expect("kept");
    assert_eq!(answer(first).await, popped("q", "1"));
    assert_eq!(answer(second).await, popped("q", "4"));
    assert_eq!(answer(third).await, popped("q", "2"));
    assert_eq!(list(&scratch, "q").await, ["3"]);
    assert_eq!(scratch.load().waiters, 0);
}

#[tokio::test]
async fn nobody_takes_what_someone_waits_for() {
    let place = Place::new().await;
    let scratch = place.scratch().await;
    let waiting = wait(&scratch, "BLPOP q 0").await;
    let answers = ask(&scratch, "RPUSH q 1; LPOP q; LLEN q").await.expect("kept");
    assert_eq!(answers, [Answer::Integer(1), Answer::Null, Answer::Integer(0)]);
    assert_eq!(answer(waiting).await, popped("q", "1"));
}

#[tokio::test]
async fn a_step_of_several_commands_is_seen_as_a_whole() {
    let place = Place::new().await;
    let scratch = place.scratch().await;
    let waiting = wait(&scratch, "BLPOP q 0").await;
    let commands = ["RPUSH q 1 2", "LPOP q", "BLPOP none 0", "LLEN q"].map(words);
    let (answers, mark) = scratch.transact(&commands).expect("done");
    assert_eq!(text(&answers[1]), "1", "it comes before who waits");
    assert_eq!(answers[2..], [Answer::NullArray, Answer::Integer(1)]);
    scratch.durable(&mark).await.expect("kept");
    assert_eq!(answer(waiting).await, popped("q", "2"));
    // A list that grows and is emptied within the step serves nobody.
    let waiting = wait(&scratch, "BLPOP q 0").await;
    scratch.transact(&["RPUSH q 1", "LPOP q"].map(words)).expect("done");
    assert_eq!(scratch.load().waiters, 1);
    ask(&scratch, "RPUSH q 5").await.expect("kept");
    assert_eq!(answer(waiting).await, popped("q", "5"));
}

#[tokio::test]
async fn a_move_serves_who_waits_for_the_other_list() {
    let place = Place::new().await;
    let scratch = place.scratch().await;
    let last = wait(&scratch, "BLPOP c 0").await;
    let middle = wait(&scratch, "BRPOPLPUSH b c 0").await;
    let first = wait(&scratch, "BLMOVE a b LEFT RIGHT 0").await;
    ask(&scratch, "RPUSH a 1").await.expect("kept");
    for moved in [first, middle] {
        assert_eq!(answer(moved).await, Answer::Bulk("1".into()));
    }
    assert_eq!(answer(last).await, popped("c", "1"));
    assert_eq!(scratch.load().keys, 0);
}

#[tokio::test]
async fn what_is_there_is_taken_at_once() {
    let place = Place::new().await;
    let scratch = place.scratch().await;
    ask(&scratch, "RPUSH q 1").await.expect("kept");
    let taken = scratch.wait_turn(&words("BLPOP q 0")).await;
    assert_eq!(taken, Ok(popped("q", "1")));
    assert!(place.rows().await.is_empty(), "and it is durable");
    let refused = scratch.wait_turn(&words("BLPOP q soon")).await.expect("an answer");
    assert_eq!(refused, Answer::Error("ERR timeout is not a float or out of range".into()));
}

#[tokio::test]
async fn a_wait_ends_in_time() {
    let place = Place::new().await;
    let scratch = place.scratch().await;
    let began = Instant::now();
    let nothing = scratch.wait_turn(&words("BLPOP q 0.05")).await;
    assert_eq!(nothing, Ok(Answer::NullArray));
    assert!(began.elapsed() >= Duration::from_millis(50));
    assert_eq!(scratch.load().waiters, 0);
    ask(&scratch, "RPUSH q 1").await.expect("kept");
    assert_eq!(list(&scratch, "q").await, ["1"], "nobody waits any more");
}

#[tokio::test]
async fn a_wrong_kind_is_told_to_who_waits() {
    let place = Place::new().await;
    let scratch = place.scratch().await;
    ask(&scratch, "SET text 1").await.expect("kept");
    let waiting = wait(&scratch, "BLMOVE q text LEFT LEFT 0").await;
    ask(&scratch, "RPUSH q 1").await.expect("kept");
    assert!(matches!(answer(waiting).await, Answer::Error(why) if why.starts_with("WRONGTYPE")));
    assert_eq!(list(&scratch, "q").await, ["1"]);
}

#[tokio::test]
async fn too_many_who_wait_are_refused() {
    let place = Place::new().await;
    let scratch = place.scratch().await;
    let command = words("BLPOP q 0");
    let mut waits: Vec<_> = (0..=SCRATCH_WAITERS_MAX)
        .map(|_| {
            let mut wait = Box::pin(scratch.wait_turn(&command));
            (polling::poll_once(&mut wait), wait)
        })
        .collect();
    let (last, _) = waits.pop().expect("the one too many");
    assert_eq!(last, Some(Err(AskError::Overloaded)));
    assert_eq!(scratch.load().waiters, SCRATCH_WAITERS_MAX);
    drop(waits);
    assert_eq!(scratch.load().waiters, 0);
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
