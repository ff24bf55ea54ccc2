//! Random histories: many workers and tasks, late and foreign reports, slow and failing loads,
//! restarts. After every step the indexes agree with the tasks, and a simple model, which knows
//! only the facts and the rules, agrees with every answer.

mod deed;
mod model;
mod player;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::model::{NewTask, TaskId};
use coordinator::{Command, Coordinator, Effect, LeaseRequest, Moment, Question, Ticket};
use proptest::prelude::*;

use self::deed::any_history;
use self::player::Player;
use crate::story::{START, plain_request, plain_task, shard};

proptest! {
    #[test]
    fn random_histories_keep_every_promise(history in any_history()) {
        let mut player = Player::new();
        for deed in history {
            player.play(deed);
        }
        player.finish();
    }
}

/// The cost of a grant must not grow with the queue. A ratio within one run, and the fastest of
/// many repetitions, so that a busy machine slows both sides or neither.
#[test]
fn a_grant_costs_the_same_in_a_long_queue() {
    let (mut short, mut long) = (queue_of(1_000), queue_of(300_000));
    let (mut best_short, mut best_long) = (Duration::MAX, Duration::MAX);
    for _ in 0..200 {
        best_short = best_short.min(time_of_grants(&mut short));
        best_long = best_long.min(time_of_grants(&mut long));
    }
    let ratio = best_long.as_secs_f64() / best_short.as_secs_f64();
    assert!(ratio < 4.0, "300,000 queued: {best_long:?}, 1,000 queued: {best_short:?}");
}

fn queue_of(n_tasks: usize) -> Coordinator {
    let mut coordinator = Coordinator::restore(shard(), 0, [], at());
    let task = plain_task();
    let tasks: Vec<NewTask> = vec![NewTask { spec: Arc::clone(&task.spec), ..task }; n_tasks];
    coordinator.handle(at(), Command::Ask(Ticket(0), Question::Submit { tasks }));
    coordinator
}

/// Grants a hundred tasks and gives them back, so that the queue is as long as before.
fn time_of_grants(coordinator: &mut Coordinator) -> Duration {
    let worker = "w1".parse().expect("a worker");
    let request = LeaseRequest { max: 100, ..plain_request(worker, START) };
    let begin = Instant::now();
    let step =
        coordinator.handle(at(), Command::Ask(Ticket(0), Question::RequestLeases { request }));
    let took = begin.elapsed();
    assert_eq!(step.changes.len(), 100);
    let tasks: Vec<TaskId> = step.changes.iter().map(coordinator::Change::task).collect();
    assert!(matches!(step.effects.as_slice(), [Effect::Answer { .. }]));
    let epoch = step.changes[0].progress().epoch;
    let leases = tasks.into_iter().map(|task| ::model::LeaseId { task, epoch }).collect();
    coordinator.handle(at(), Command::ReturnLeases { leases });
    took
}

fn at() -> Moment {
    Moment { now: START, wall: START, entropy: 0 }
}
