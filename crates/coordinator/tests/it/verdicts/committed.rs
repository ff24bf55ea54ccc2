//! Reports that count.

use expect_test::expect;

use crate::story::check;

#[test]
fn a_report_by_the_holder_in_time_is_committed() {
    check(
        "
         0s  submit a
         0s  w1 takes 1
        29s  w1 completes L1 with 42
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            29s     a is COMPLETED with 42
            29s     w1: L1 COMMITTED; COMPLETED
        "#]],
    );
}

#[test]
fn a_failure_report_is_committed_and_says_what_became_of_the_task() {
    check(
        "
         0s  submit once attempts=1
         0s  submit twice attempts=2 backoff=10s
         0s  submit hopeless
         0s  w1 takes 3
         1s  w1 fails L1
         1s  w1 fails L2
         1s  w1 fails L3 fatal
        20s  w1 takes 1
        21s  w1 fails L4
        ",
        expect![[r#"
            0s      once is QUEUED
            0s      twice is QUEUED
            0s      hopeless is QUEUED
            0s      L1 of once to w1 until 30s
            0s      L2 of twice to w1 until 30s
            0s      L3 of hopeless to w1 until 30s
            1s      once is FAILED: E.TEST boom (attempts 1, losses 0)
            1s      w1: L1 COMMITTED; FAILED
            1s      L2 of twice failed (boom); twice is RETRYING until 10.616s (attempts 1, losses 0)
            1s      w1: L2 COMMITTED; RETRYING
            1s      hopeless is FAILED: E.TEST boom (attempts 1, losses 0)
            1s      w1: L3 COMMITTED; FAILED
            20s     L4 of twice to w1 until 50s, attempt 2
            21s     twice is DEAD: E.TEST boom (attempts 2, losses 0)
            21s     w1: L4 COMMITTED; DEAD
        "#]],
    );
}

#[test]
fn a_failure_that_is_retried_at_once_says_retrying_too() {
    check(
        "
         0s  submit a backoff=0s
         0s  w1 takes 1
         1s  w1 fails L1
         2s  w1 fails L1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            1s      L1 of a failed (boom); a is QUEUED (attempts 1, losses 0)
            1s      w1: L1 COMMITTED; RETRYING
            2s      w1: L1 COMMITTED; RETRYING
        "#]],
    );
}

#[test]
fn of_two_workers_only_the_holder_can_complete_a_task() {
    // Seed 002 section 1: another worker's word about the same task is worth nothing.
    check(
        "
         0s  submit a
         0s  w1 takes 1
         1s  w2 completes L1
         2s  w1 completes L1
         3s  w2 completes L1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            1s      w2: L1 REJECTED (not_holder); RUNNING
            2s      a is COMPLETED with 1
            2s      w1: L1 COMMITTED; COMPLETED
            3s      loading a
            3s      w2: L1 REJECTED (not_holder); COMPLETED
        "#]],
    );
}

#[test]
fn reports_in_one_call_are_judged_in_order() {
    check(
        "
         0s  submit a + b
         0s  w1 takes 2
         1s  w1 completes L2,nobody#1,L1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      L1 of a to w1 until 30s
            0s      L2 of b to w1 until 30s
            1s      b is COMPLETED with 1
            1s      a is COMPLETED with 1
            1s      w1: L2 COMMITTED; COMPLETED
            1s      w1: nobody#1 REJECTED (unknown_task); no such task
            1s      w1: L1 COMMITTED; COMPLETED
        "#]],
    );
}
