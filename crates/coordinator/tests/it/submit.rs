//! New tasks: all of a submit or none of it, and each key once.

use std::sync::Arc;

use bytes::Bytes;
use coordinator::{
    Answer, Command, Coordinator, DEMANDS_MAX, Effect, LIVE_BYTES_MAX, Moment, Question,
    REQUESTS_MAX, Refusal, Step, Ticket, WATCHES_MAX,
};
use expect_test::expect;
use model::{NewTask, TaskId};

use crate::story::{START, check, plain_request, plain_spec, plain_task, shard};

#[test]
fn a_submit_of_many_makes_all_of_them() {
    check(
        "
          0s  submit a + b after=5s + c
          0s  queues
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is WAITING until 5s
            0s      c is QUEUED
            0s      queue default: 2 queued since 0s, 0 in flight, 0 retrying, 1 scheduled
        "#]],
    );
}

// ----- idempotency keys

#[test]
fn a_repeated_submit_finds_the_live_task() {
    check(
        "
          0s  submit a key=k
          1s  submit again key=k
          1s  w1 takes 1
          2s  submit again key=k
          2s  w1 takes 1
        ",
        expect![[r#"
            0s      loading key k
            0s      a is QUEUED
            1s      again is a, which exists: QUEUED
            1s      L1 of a to w1 until 31s
            2s      again is a, which exists: RUNNING
            2s      w1 gets nothing
        "#]],
    );
}

#[test]
fn a_repeated_submit_finds_the_settled_task() {
    check(
        "
          0s  submit a key=k
          1s  w1 takes 1
          2s  w1 completes L1
          3s  submit again key=k
          4s  restart
        25h  submit again key=k
        ",
        expect![[r#"
            0s      loading key k
            0s      a is QUEUED
            1s      L1 of a to w1 until 31s
            2s      a is COMPLETED with 1
            2s      w1: L1 COMMITTED; COMPLETED
            3s      loading key k
            3s      again is a, which exists: COMPLETED
            4s      restarted with 0 live tasks
            25h     loading key k
            25h     again is a, which exists: COMPLETED
        "#]],
    );
}

#[test]
fn a_repeated_submit_finds_the_task_after_a_restart() {
    check(
        "
          0s  submit a key=k
          1s  restart
          2s  submit again key=k
        ",
        expect![[r#"
            0s      loading key k
            0s      a is QUEUED
            1s      restarted with 1 live tasks
            2s      again is a, which exists: QUEUED
        "#]],
    );
}

#[test]
fn the_same_key_twice_in_one_submit_makes_one_task() {
    check(
        "
          0s  submit a key=k + again key=k + b key=l + c
          0s  w1 takes 9
        ",
        expect![[r#"
            0s      loading key k, key k, key l
            0s      a is QUEUED
            0s      b is QUEUED
            0s      c is QUEUED
            0s      again is a, which exists: QUEUED
            0s      L1 of a to w1 until 30s
            0s      L2 of b to w1 until 30s
            0s      L3 of c to w1 until 30s
        "#]],
    );
}

#[test]
fn the_same_key_with_other_content_is_a_conflict_and_makes_nothing() {
    // Against a live task, within one submit, and against a settled task.
    check(
        "
          0s  submit a key=k
          1s  submit b + c key=k prio=1
          2s  submit d key=l + e key=l prio=1
          3s  stop a
          4s  submit f + g key=k prio=1
          5s  w1 takes 9
        ",
        expect![[r#"
            0s      loading key k
            0s      a is QUEUED
            1s      submit: refused, key k names another task
            2s      loading key l, key l
            2s      submit: refused, key l names another task
            3s      a is STOPPED
            3s      stop a: done
            4s      loading key k
            4s      submit: refused, key k names another task
            5s      w1 gets nothing
        "#]],
    );
}

#[test]
fn a_requeued_task_keeps_its_key() {
    check(
        "
          0s  submit a key=k
          1s  stop a
          2s  requeue a
          3s  submit again key=k
        ",
        expect![[r#"
            0s      loading key k
            0s      a is QUEUED
            1s      a is STOPPED
            1s      stop a: done
            2s      loading a
            2s      a is QUEUED again
            2s      requeue a: done
            3s      again is a, which exists: QUEUED
        "#]],
    );
}

// ----- limits refuse and change nothing

#[test]
fn one_kind_of_demand_too_many_is_refused_until_one_is_free() {
    let mut coordinator = empty();
    let tasks = (0..DEMANDS_MAX).map(task_of_type).collect();
    assert_eq!(submit(&mut coordinator, tasks).changes.len(), DEMANDS_MAX);

    let too_many = vec![plain_task(), task_of_type(DEMANDS_MAX)];
    assert_refused(&submit(&mut coordinator, too_many), &Refusal::DemandsFull);
    assert_eq!(submit(&mut coordinator, vec![task_of_type(1)]).changes.len(), 1);

    let stop = Command::Ask(Ticket(0), Question::Stop { task: TaskId::of(shard(), 0) });
    coordinator.handle(at(), stop);
    assert_eq!(submit(&mut coordinator, vec![task_of_type(DEMANDS_MAX)]).changes.len(), 1);
    coordinator.check_invariants();
}

#[test]
fn a_requeue_that_would_bring_one_kind_of_demand_too_many_is_refused() {
    let mut coordinator = empty();
    let step = submit(&mut coordinator, vec![task_of_type(0)]);
    let [coordinator::Change::TaskSubmitted(record)] = step.changes.as_slice() else {
        panic!("one task: {step:?}");
    };
    let mut record = (**record).clone();
    let stopped =
        coordinator.handle(at(), Command::Ask(Ticket(0), Question::Stop { task: record.id }));
    record.progress = stopped.changes[0].progress().clone();
    let others = (1..=DEMANDS_MAX).map(task_of_type).collect();
    assert_eq!(submit(&mut coordinator, others).changes.len(), DEMANDS_MAX);

    let task = record.id;
    let step = coordinator.handle(at(), Command::Ask(Ticket(0), Question::Requeue { task }));
    let [Effect::Load { load, keys }] = step.effects.as_slice() else {
        panic!("a load: {step:?}");
    };
    let found = vec![(keys[0].clone(), record)];
    let step = coordinator.handle(at(), Command::Loaded { load: *load, found });
    assert_refused(&step, &Refusal::DemandsFull);
}

#[test]
fn parameters_beyond_the_limit_are_refused_and_room_comes_back() {
    let mut coordinator = empty();
    // One buffer under many tasks: the coordinator counts what each of them says.
    let buffer = Bytes::from(vec![b' '; 64 << 20]);
    let big = |n: usize| vec![NewTask { parameters: buffer.clone(), ..plain_task() }; n];
    let n_fitting = LIVE_BYTES_MAX / buffer.len();
    assert_eq!(submit(&mut coordinator, big(n_fitting)).changes.len(), n_fitting);
    assert_refused(&submit(&mut coordinator, big(1)), &Refusal::LiveBytesFull);

    let stop = Command::Ask(Ticket(0), Question::Stop { task: TaskId::of(shard(), 3) });
    coordinator.handle(at(), stop);
    assert_refused(&submit(&mut coordinator, big(2)), &Refusal::LiveBytesFull);
    assert_eq!(submit(&mut coordinator, big(1)).changes.len(), 1);
    coordinator.check_invariants();
}

#[test]
fn one_waiting_request_too_many_is_refused() {
    let mut coordinator = empty();
    let ask = |coordinator: &mut Coordinator, number: usize, wait_s: u64| {
        let wait_until = START.after(std::time::Duration::from_secs(wait_s));
        let request = plain_request("w1".parse().expect("a worker"), wait_until);
        coordinator
            .handle(at(), Command::Ask(Ticket(number as u64), Question::RequestLeases { request }))
    };
    for number in 0..REQUESTS_MAX {
        assert_eq!(ask(&mut coordinator, number, 10), Step::default());
    }
    assert_refused(&ask(&mut coordinator, REQUESTS_MAX, 10), &Refusal::RequestsFull);
    let not_waiting = ask(&mut coordinator, REQUESTS_MAX, 0);
    assert_eq!(answer(&not_waiting), &Answer::Leases(Vec::new()));
    coordinator.check_invariants();
}

#[test]
fn one_watch_too_many_is_refused() {
    let mut coordinator = empty();
    submit(&mut coordinator, vec![plain_task()]);
    let watch = |coordinator: &mut Coordinator, number: usize| {
        let until = START.after(std::time::Duration::from_secs(10));
        let (ticket, task) = (Ticket(number as u64), TaskId::of(shard(), 0));
        coordinator.handle(at(), Command::Ask(ticket, Question::Watch { task, until }))
    };
    for number in 0..WATCHES_MAX {
        assert_eq!(watch(&mut coordinator, number), Step::default());
    }
    assert_refused(&watch(&mut coordinator, WATCHES_MAX), &Refusal::RequestsFull);
    coordinator.check_invariants();
}

fn at() -> Moment {
    Moment { now: START, wall: START, entropy: 0 }
}

fn empty() -> Coordinator {
    Coordinator::restore(shard(), 0, [], at())
}

fn submit(coordinator: &mut Coordinator, tasks: Vec<NewTask>) -> Step {
    coordinator.handle(at(), Command::Ask(Ticket(0), Question::Submit { tasks }))
}

fn task_of_type(number: usize) -> NewTask {
    let mut spec = plain_spec();
    spec.demand.task_type = format!("type-{number}").parse().expect("a name");
    NewTask { spec: Arc::new(spec), ..plain_task() }
}

fn answer(step: &Step) -> &Answer {
    match step.effects.as_slice() {
        [Effect::Answer { answer, .. }] => answer,
        effects => panic!("one answer: {effects:?}"),
    }
}

fn assert_refused(step: &Step, refusal: &Refusal) {
    assert_eq!(step.changes, Vec::new(), "a refusal changes nothing");
    assert_eq!(answer(step), &Answer::Refused(refusal.clone()));
}
