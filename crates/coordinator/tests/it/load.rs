//! Settled tasks are read from the store, and what was read may be stale when it arrives.

use expect_test::expect;

use crate::story::check;

#[test]
fn a_report_for_a_settled_task_waits_for_the_store() {
    check(
        "
          0s  submit a
          0s  w1 takes 1
          1s  w1 completes L1
          2s  loads wait
          2s  w1 completes L1
          9s  loads arrive
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            1s      a is COMPLETED with 1
            1s      w1: L1 COMMITTED; COMPLETED
            2s      loading a
            9s      w1: L1 COMMITTED; COMPLETED
        "#]],
    );
}

#[test]
fn a_load_that_fails_is_answered_and_can_be_tried_again() {
    check(
        "
          0s  submit a key=k
          0s  w1 takes 1
          1s  w1 completes L1
          2s  loads wait
          2s  w1 completes L1
          2s  submit b + again key=k
          2s  w1 beats L1
          2s  requeue a
          9s  loads fail
         10s  w1 completes L1
         10s  w1 takes 9
        ",
        expect![[r#"
            0s      loading key k
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            1s      a is COMPLETED with 1
            1s      w1: L1 COMMITTED; COMPLETED
            2s      loading a
            2s      loading key k
            2s      loading a
            2s      loading a
            9s      w1: refused, the store is away
            9s      submit: refused, the store is away
            9s      w1: refused, the store is away
            9s      requeue a: refused, the store is away
            10s     loading a
            10s     w1: L1 COMMITTED; COMPLETED
            10s     w1 gets nothing
        "#]],
    );
}

#[test]
fn two_submits_with_one_key_while_the_store_is_slow_make_one_task() {
    check(
        "
          0s  loads wait
          0s  submit a key=k
          0s  submit again key=k
          0s  submit other key=k prio=1
          1s  loads arrive
          2s  w1 takes 9
        ",
        expect![[r#"
            0s      loading key k
            0s      loading key k
            0s      loading key k
            1s      a is QUEUED
            1s      again is a, which exists: QUEUED
            1s      submit: refused, key k names another task
            2s      L1 of a to w1 until 32s
        "#]],
    );
}

#[test]
fn a_task_that_was_made_and_settled_while_a_load_was_under_way_is_found() {
    check(
        "
          0s  loads wait
          0s  submit a key=k
          0s  submit again key=k
          1s  load arrives
          2s  w1 takes 1
          3s  w1 completes L1
          4s  load arrives
          5s  w1 takes 1
        ",
        expect![[r#"
            0s      loading key k
            0s      loading key k
            1s      a is QUEUED
            2s      L1 of a to w1 until 32s
            3s      a is COMPLETED with 1
            3s      w1: L1 COMMITTED; COMPLETED
            4s      again is a, which exists: COMPLETED
            5s      w1 gets nothing
        "#]],
    );
}

#[test]
fn a_task_that_was_requeued_while_a_load_was_under_way_is_judged_as_it_is() {
    check(
        "
          0s  submit a
          0s  w1 takes 1
          1s  w1 fails L1 fatal
          2s  loads wait
          2s  requeue a
          2s  requeue a
          2s  w1 fails L1 fatal
          2s  w1 completes a#2
          3s  load arrives
          4s  w1 takes 1
          5s  loads arrive
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            1s      a is FAILED: E.TEST boom (attempts 1, losses 0)
            1s      w1: L1 COMMITTED; FAILED
            2s      loading a
            2s      loading a
            2s      loading a
            2s      loading a
            3s      a is QUEUED again
            3s      requeue a: done
            4s      L2 of a to w1 until 34s
            5s      requeue a: refused, it is RUNNING
            5s      w1: L1 COMMITTED; RETRYING
            5s      a is COMPLETED with 1
            5s      w1: L2 COMMITTED; COMPLETED
        "#]],
    );
}

#[test]
fn a_task_that_settled_anew_while_a_load_was_under_way_is_judged_by_its_newest_end() {
    // What the store gave for the slow load is the first end, which a requeue has undone.
    check(
        "
          0s  submit a
          0s  w1 takes 1
          1s  w1 fails L1 fatal
          2s  loads wait
          2s  requeue a
          2s  w2 completes a#2
          3s  load arrives
          4s  w2 takes 1
          5s  w2 completes L2
          6s  load arrives
          7s  requeue a
          8s  loads arrive
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            1s      a is FAILED: E.TEST boom (attempts 1, losses 0)
            1s      w1: L1 COMMITTED; FAILED
            2s      loading a
            2s      loading a
            3s      a is QUEUED again
            3s      requeue a: done
            4s      L2 of a to w2 until 34s
            5s      a is COMPLETED with 1
            5s      w2: L2 COMMITTED; COMPLETED
            6s      w2: L2 COMMITTED; COMPLETED
            7s      loading a
            8s      requeue a: refused, it is COMPLETED
        "#]],
    );
}

#[test]
fn what_settled_lately_is_not_forgotten_while_a_later_load_counts_on_it() {
    // `b` settles while the first load is under way, so the second one, which is for `a` too,
    // begins with `b` in memory. The end of the first load must not take that away.
    check(
        "
          0s  submit a + b
          0s  w1 takes 2
          1s  w1 completes L1
          2s  loads wait
          2s  w1 completes L1
          3s  w1 completes L2
          4s  w1 completes L2,L1
          5s  load arrives
          6s  loads arrive
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      L1 of a to w1 until 30s
            0s      L2 of b to w1 until 30s
            1s      a is COMPLETED with 1
            1s      w1: L1 COMMITTED; COMPLETED
            2s      loading a
            3s      b is COMPLETED with 1
            3s      w1: L2 COMMITTED; COMPLETED
            4s      loading b, a
            5s      w1: L1 COMMITTED; COMPLETED
            6s      w1: L2 COMMITTED; COMPLETED
            6s      w1: L1 COMMITTED; COMPLETED
        "#]],
    );
}

#[test]
fn a_key_that_settled_lately_makes_no_second_task() {
    check(
        "
          0s  submit a + b key=k
          0s  w1 takes 2
          1s  w1 completes L1
          2s  loads wait
          2s  w1 completes L1
          3s  w1 completes L2
          4s  submit again key=k + new key=l
          5s  load arrives
          6s  loads arrive
        ",
        expect![[r#"
            0s      loading key k
            0s      a is QUEUED
            0s      b is QUEUED
            0s      L1 of a to w1 until 30s
            0s      L2 of b to w1 until 30s
            1s      a is COMPLETED with 1
            1s      w1: L1 COMMITTED; COMPLETED
            2s      loading a
            3s      b is COMPLETED with 1
            3s      w1: L2 COMMITTED; COMPLETED
            4s      loading key k, key l
            5s      w1: L1 COMMITTED; COMPLETED
            6s      new is QUEUED
            6s      again is b, which exists: COMPLETED
        "#]],
    );
}

#[test]
fn a_heartbeat_for_a_settled_task_waits_for_the_store() {
    check(
        "
          0s  submit a + b
          0s  w1 takes 2
          1s  w1 completes L1
          2s  loads wait
          2s  w1 beats L1,L2
          9s  loads arrive
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      L1 of a to w1 until 30s
            0s      L2 of b to w1 until 30s
            1s      a is COMPLETED with 1
            1s      w1: L1 COMMITTED; COMPLETED
            2s      loading a
            9s      w1: L1 CANCELLED (reported)
            9s      w1: L2 EXTENDED until 39s
        "#]],
    );
}

#[test]
fn a_lease_that_ends_while_its_report_waits_for_the_store_is_over() {
    // The report of `b` is judged when the report of `a` beside it can be: too late.
    check(
        "
          0s  submit a + b
          0s  w1 takes 2
          1s  w1 completes L1
          2s  loads wait
         29s  w1 completes L1,L2
         31s  loads arrive
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      L1 of a to w1 until 30s
            0s      L2 of b to w1 until 30s
            1s      a is COMPLETED with 1
            1s      w1: L1 COMMITTED; COMPLETED
            29s     loading a
            30s     L2 of b expired; b is QUEUED (attempts 1, losses 1)
            31s     w1: L1 COMMITTED; COMPLETED
            31s     w1: L2 CANCELLED (expired); QUEUED
        "#]],
    );
}
