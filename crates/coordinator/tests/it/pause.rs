//! Queues from which nothing is granted.

use coordinator::{
    Answer, Command, Coordinator, Effect, Moment, PAUSES_MAX, Pause, Question, Refusal, Ticket,
};
use expect_test::expect;

use crate::story::{START, check, shard};

#[test]
fn a_paused_queue_is_granted_from_by_nobody_and_what_is_held_goes_on() {
    check(
        "
          0s  submit a queue=slow + b queue=slow + c
          0s  w1 takes 1 offers queues=slow
          1s  pause slow by ada
          2s  w1 completes L1
          3s  w1 takes 2
          4s  explain b
          5s  queues
          6s  resume slow
          7s  w1 takes 2
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      c is QUEUED
            0s      L1 of a to w1 until 30s
            1s      pause slow by ada: done
            2s      a is COMPLETED with 1
            2s      w1: L1 COMMITTED; COMPLETED
            3s      L2 of c to w1 until 33s
            4s      explain b: QUEUED, attempts 0: slow is paused by ada since 1s; 1 could take it, none asks
            5s      queue default: 0 queued, 1 in flight, 0 retrying, 0 scheduled
            5s      queue slow: 1 queued since 0s, 0 in flight, 0 retrying, 0 scheduled, paused by ada
            6s      resume slow: done
            7s      L3 of b to w1 until 37s
        "#]],
    );
}

#[test]
fn resuming_serves_those_who_wait_at_once() {
    check(
        "
          0s  pause slow by ada
          0s  w1 takes 1 waits 60s
          1s  submit a queue=slow
          2s  submit b
          3s  w2 takes 1 waits 60s
          4s  resume slow
          5s  resume slow
          5s  queues
        ",
        expect![[r#"
            0s      pause slow by ada: done
            1s      a is QUEUED
            2s      b is QUEUED
            2s      L1 of b to w1 until 32s
            4s      L2 of a to w2 until 34s
            4s      resume slow: done
            5s      resume slow: done
            5s      queue default: 0 queued, 1 in flight, 0 retrying, 0 scheduled
            5s      queue slow: 0 queued, 1 in flight, 0 retrying, 0 scheduled
        "#]],
    );
}

#[test]
fn a_pause_holds_for_every_kind_of_task_and_for_those_to_come() {
    check(
        "
          0s  submit a queue=slow type=x
          0s  pause slow by ada
          1s  submit b queue=slow type=y prio=9 + c queue=slow type=x needs=tool:t
          1s  w1 takes 9 offers tool:t
          2s  stop a
          3s  resume slow
          4s  w1 takes 9 offers tool:t
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      pause slow by ada: done
            1s      b is QUEUED
            1s      c is QUEUED
            1s      w1 gets nothing
            2s      a is STOPPED
            2s      stop a: done
            3s      resume slow: done
            4s      L1 of b to w1 until 34s
            4s      L2 of c to w1 until 34s
        "#]],
    );
}

#[test]
fn an_empty_queue_that_is_paused_is_listed_and_a_second_pause_renames_it() {
    check(
        "
          0s  pause slow by ada
          1s  pause slow by bob
          1s  queues
          2s  resume slow
          2s  queues
        ",
        expect![[r#"
            0s      pause slow by ada: done
            1s      pause slow by bob: done
            1s      queue slow: 0 queued, 0 in flight, 0 retrying, 0 scheduled, paused by bob
            2s      resume slow: done
        "#]],
    );
}

#[test]
fn a_task_that_waits_for_its_moment_says_the_pause_first() {
    check(
        "
          0s  submit a after=10s
          1s  pause default by ada
          2s  explain a
         11s  explain a
        ",
        expect![[r#"
            0s      a is WAITING until 10s
            1s      pause default by ada: done
            2s      explain a: WAITING, attempts 0: default is paused by ada since 1s; not before 10s
            11s     explain a: QUEUED, attempts 0: default is paused by ada since 1s; no worker is known
        "#]],
    );
}

#[test]
fn a_drained_worker_that_comes_back_is_not_given_what_is_paused() {
    check(
        "
          0s  w1 takes 1 waits 60s
          1s  drain w1 by ada
          2s  pause default by ada
          3s  submit a
          4s  undrain w1
          5s  resume default
        ",
        expect![[r#"
            1s      drain w1 by ada: done
            2s      pause default by ada: done
            3s      a is QUEUED
            4s      undrain w1: done
            5s      L1 of a to w1 until 35s
            5s      resume default: done
        "#]],
    );
}

#[test]
fn pauses_have_one_order_and_a_restart_shows_the_last_word() {
    check(
        "
          0s  submit a queue=slow + b queue=fast
          1s  pause slow by ada
          1s  resume slow
          1s  pause slow by bob
          1s  pause fast by ada
          1s  resume fast
          2s  restart
          3s  queues
          4s  w1 takes 2
          5s  resume slow
          5s  resume slow
          6s  restart
          7s  w1 takes 1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            1s      pause slow by ada: done
            1s      resume slow: done
            1s      pause slow by bob: done
            1s      pause fast by ada: done
            1s      resume fast: done
            2s      restarted with 2 live tasks
            3s      queue fast: 1 queued since 0s, 0 in flight, 0 retrying, 0 scheduled
            3s      queue slow: 1 queued since 0s, 0 in flight, 0 retrying, 0 scheduled, paused by bob
            4s      L1 of b to w1 until 34s
            5s      resume slow: done
            5s      resume slow: done
            6s      restarted with 2 live tasks
            7s      L2 of a to w1 until 37s
        "#]],
    );
}

#[test]
fn one_pause_too_many_is_refused_and_a_known_one_can_change() {
    let at = Moment { now: START, wall: START, entropy: 0 };
    let mut coordinator = Coordinator::restore(shard(), 0, [], at);
    let mut set = |number: usize| {
        let queue = format!("q{number}").parse().expect("a queue");
        let pause = Some(Pause { by: "ada".into(), at: START });
        let command = Command::Ask(Ticket(0), Question::SetPause { queue, pause });
        match coordinator.handle(at, command).effects.remove(0) {
            Effect::Answer { answer, .. } => answer,
            Effect::Load { .. } | Effect::Prepare { .. } => panic!("nothing to load"),
        }
    };
    for number in 0..PAUSES_MAX {
        assert_eq!(set(number), Answer::PauseSet);
    }
    assert_eq!(set(PAUSES_MAX), Answer::Refused(Refusal::PausesFull));
    assert_eq!(set(0), Answer::PauseSet);
}
