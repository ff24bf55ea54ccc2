//! Why a task does not run: each reason once.

use expect_test::expect;

use crate::story::check;

#[test]
fn a_running_task_says_who_holds_it() {
    check(
        "
          0s  submit a
          0s  w1 takes 1
          5s  explain a
         10s  w1 beats L1
         11s  explain a
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            5s      explain a: RUNNING, attempts 1: w1 holds it until 30s
            10s     w1: L1 EXTENDED until 40s
            11s     explain a: RUNNING, attempts 1: w1 holds it until 40s
        "#]],
    );
}

#[test]
fn a_scheduled_task_says_when_it_may_start() {
    check(
        "
          0s  submit a after=10s
          5s  explain a
        ",
        expect![[r#"
            0s      a is WAITING until 10s
            5s      explain a: WAITING, attempts 0: not before 10s
        "#]],
    );
}

#[test]
fn a_retrying_task_says_when_it_is_tried_again() {
    check(
        "
          0s  submit a attempts=5
          0s  w1 takes 1
          1s  w1 fails L1
          1s  explain a
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            1s      L1 of a failed (boom); a is RETRYING until 1.855s (attempts 1, losses 0)
            1s      w1: L1 COMMITTED; RETRYING
            1s      explain a: RETRYING, attempts 1: attempt 1 of 5 failed, next at 1.855s
        "#]],
    );
}

#[test]
fn a_task_behind_a_key_names_the_task_that_has_it() {
    check(
        "
          0s  submit a ckey=k + b ckey=k
          0s  explain b
          0s  w1 takes 1
          1s  explain b
          1s  explain a
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      explain b: QUEUED, attempts 0: a has the key k
            0s      L1 of a to w1 until 30s
            1s      explain b: QUEUED, attempts 0: a has the key k
            1s      explain a: RUNNING, attempts 1: w1 holds it until 30s
        "#]],
    );
}

#[test]
fn without_workers_it_says_so() {
    check(
        "
          0s  submit a
          0s  explain a
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      explain a: QUEUED, attempts 0: no worker is known
        "#]],
    );
}

#[test]
fn workers_that_lack_something_are_counted_by_what_they_lack() {
    check(
        "
          0s  submit a type=ocr queue=slow needs=tool:x,tag:gpu=yes,package:p@1
          0s  w1 takes 1 offers types=noop
          0s  w2 takes 1 offers queues=default
          0s  w3 takes 1
          0s  w4 takes 1 offers tool:y
          0s  w5 takes 1 offers tool:x,tag:gpu=no
          0s  w6 takes 1 offers tool:x,tag:gpu=yes,package:p@2
          1s  explain a
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      w1 gets nothing
            0s      w2 gets nothing
            0s      w3 gets nothing
            0s      w4 gets nothing
            0s      w5 gets nothing
            0s      w6 gets nothing
            1s      explain a: QUEUED, attempts 0: 1 lack the queue; 2 lack tool x; 1 lack tag gpu=yes; 2 lack package p@1
        "#]],
    );
}

#[test]
fn able_workers_that_do_not_ask_are_counted() {
    check(
        "
          0s  submit a prio=1 + b + c
          0s  w1 takes 1
          0s  w2 takes 1
          1s  explain c
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      c is QUEUED
            0s      L1 of a to w1 until 30s
            0s      L2 of b to w2 until 30s
            1s      explain c: QUEUED, attempts 0: 2 could take it, none asks
        "#]],
    );
}

#[test]
fn able_workers_that_are_lost_are_counted() {
    check(
        "
           0s  w1 takes 1
           0s  w2 takes 1 waits 99s offers types=other
          40s  submit a
          40s  explain a
        ",
        expect![[r#"
            0s      w1 gets nothing
            40s     a is QUEUED
            40s     explain a: QUEUED, attempts 0: 1 lack the type; 1 could take it and are lost
        "#]],
    );
}

#[test]
fn a_worker_that_came_back_and_is_lost_again_is_counted_as_lost() {
    check(
        "
           0s  w1 takes 1
          60s  w1 takes 1
         200s  submit a
         200s  explain a
        ",
        expect![[r#"
            0s      w1 gets nothing
            60s     w1 gets nothing
            200s    a is QUEUED
            200s    explain a: QUEUED, attempts 0: 1 could take it and are lost
        "#]],
    );
}

#[test]
fn a_task_says_how_many_go_first() {
    check(
        "
          0s  submit a + b prio=1 + c + other type=x
          0s  explain c
          0s  explain b
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      c is QUEUED
            0s      other is QUEUED
            0s      explain c: QUEUED, attempts 0: no worker is known; 2 go first
            0s      explain b: QUEUED, attempts 0: no worker is known
        "#]],
    );
}

#[test]
fn a_settled_or_unknown_task_is_not_live() {
    check(
        "
          0s  submit a
          0s  stop a
          1s  explain a
          1s  explain nobody
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      a is STOPPED
            0s      stop a: done
            1s      explain a: not live
            1s      explain nobody: not live
        "#]],
    );
}

#[test]
fn queues_say_how_they_stand() {
    check(
        "
          0s  submit a + b + c queue=slow + later after=99s
          1s  w1 takes 1 offers queues=default
          2s  w1 fails L1
          2s  queues
          3s  w1 takes 9
          4s  queues
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      c is QUEUED
            0s      later is WAITING until 99s
            1s      L1 of a to w1 until 31s
            2s      L1 of a failed (boom); a is RETRYING until 2.855s (attempts 1, losses 0)
            2s      w1: L1 COMMITTED; RETRYING
            2s      queue default: 1 queued since 0s, 0 in flight, 1 retrying, 1 scheduled
            2s      queue slow: 1 queued since 0s, 0 in flight, 0 retrying, 0 scheduled
            3s      L2 of a to w1 until 33s, attempt 2
            3s      L3 of b to w1 until 33s
            3s      L4 of c to w1 until 33s
            4s      queue default: 0 queued, 2 in flight, 0 retrying, 1 scheduled
            4s      queue slow: 0 queued, 1 in flight, 0 retrying, 0 scheduled
        "#]],
    );
}

#[test]
fn an_empty_queue_is_not_listed() {
    check(
        "
          0s  submit a
          1s  stop a
          1s  queues
        ",
        expect![[r#"
            0s      a is QUEUED
            1s      a is STOPPED
            1s      stop a: done
        "#]],
    );
}
