//! Reports that never could have counted.

use expect_test::expect;

use crate::story::check;

#[test]
fn a_report_for_an_unknown_task_is_rejected() {
    check(
        "
         0s  submit a
         0s  w1 takes 1
         1s  w1 completes nobody#1
         1s  w1 fails nobody#1
         1s  w1 beats nobody#1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            1s      w1: nobody#1 REJECTED (unknown_task); no such task
            1s      w1: nobody#1 REJECTED (unknown_task); no such task
            1s      w1: nobody#1 REJECTED (unknown_task)
        "#]],
    );
}

#[test]
fn a_report_for_the_same_number_of_another_tenant_is_rejected() {
    // The number of a task is the same in every tenant; its shard is not.
    check(
        "
         0s  submit a
         0s  w1 takes 1
         1s  w1 completes foreign:a#1
         1s  w1 beats foreign:a#1
         1s  explain foreign:a
         1s  watch foreign:a 9s
         1s  requeue foreign:a
         1s  stop foreign:a
         2s  w1 completes L1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            1s      w1: foreign:a#1 REJECTED (unknown_task); no such task
            1s      w1: foreign:a#1 REJECTED (unknown_task)
            1s      explain foreign:a: not live
            1s      watch foreign:a 9s: not live
            1s      requeue foreign:a: refused, unknown task
            1s      stop foreign:a: not live
            2s      a is COMPLETED with 1
            2s      w1: L1 COMMITTED; COMPLETED
        "#]],
    );
}

#[test]
fn a_report_for_an_epoch_never_granted_is_rejected() {
    check(
        "
         0s  submit a
         0s  w1 completes a#1
         0s  w1 takes 1
         1s  w1 completes a#2
         1s  w1 completes a#0
         1s  w1 beats a#2
         2s  w1 completes L1
         3s  w1 completes a#2
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      w1: a#1 REJECTED (unknown_lease); QUEUED
            0s      L1 of a to w1 until 30s
            1s      w1: a#2 REJECTED (unknown_lease); RUNNING
            1s      w1: a#0 REJECTED (unknown_lease); RUNNING
            1s      w1: a#2 REJECTED (unknown_lease)
            2s      a is COMPLETED with 1
            2s      w1: L1 COMMITTED; COMPLETED
            3s      loading a
            3s      w1: a#2 REJECTED (unknown_lease); COMPLETED
        "#]],
    );
}

#[test]
fn a_report_by_another_worker_is_rejected() {
    // Before and after the end of the lease, and of the task.
    check(
        "
         0s  submit a
         0s  w1 takes 1
         1s  w2 completes L1
         1s  w2 fails L1
         1s  w2 beats L1
        31s  w2 completes L1
        32s  w3 takes 1
        33s  w2 completes L1
        34s  w3 completes L2
        35s  w2 completes L1
        35s  w2 completes L2
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            1s      w2: L1 REJECTED (not_holder); RUNNING
            1s      w2: L1 REJECTED (not_holder); RUNNING
            1s      w2: L1 REJECTED (not_holder)
            30s     L1 of a expired; a is QUEUED (attempts 1, losses 1)
            31s     w2: L1 REJECTED (not_holder); QUEUED
            32s     L2 of a to w3 until 62s, attempt 2
            33s     w2: L1 REJECTED (not_holder); RUNNING
            34s     a is COMPLETED with 1
            34s     w3: L2 COMMITTED; COMPLETED
            35s     loading a
            35s     w2: L1 REJECTED (not_holder); COMPLETED
            35s     loading a
            35s     w2: L2 REJECTED (not_holder); COMPLETED
        "#]],
    );
}

#[test]
fn a_different_report_on_a_reported_lease_is_rejected() {
    // Of a settled task, of one that waits for its retry, and of one that runs again.
    check(
        "
         0s  submit a + b
         0s  w1 takes 2
         1s  w1 completes L1 with 1
         2s  w1 completes L1 with 2
         2s  w1 fails L1
         3s  w1 fails L2 as one
         3s  w1 fails L2 as two
         3s  w1 completes L2
         9s  w1 takes 1
        10s  w1 completes L2
        11s  w1 completes L3
        12s  w1 completes L2
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      L1 of a to w1 until 30s
            0s      L2 of b to w1 until 30s
            1s      a is COMPLETED with 1
            1s      w1: L1 COMMITTED; COMPLETED
            2s      loading a
            2s      w1: L1 REJECTED (duplicate_report); COMPLETED
            2s      loading a
            2s      w1: L1 REJECTED (duplicate_report); COMPLETED
            3s      L2 of b failed (boom); b is RETRYING until 3.529s (attempts 1, losses 0)
            3s      w1: L2 COMMITTED; RETRYING
            3s      w1: L2 REJECTED (duplicate_report); RETRYING
            3s      w1: L2 REJECTED (duplicate_report); RETRYING
            9s      L3 of b to w1 until 39s, attempt 2
            10s     w1: L2 REJECTED (duplicate_report); RUNNING
            11s     b is COMPLETED with 1
            11s     w1: L3 COMMITTED; COMPLETED
            12s     loading b
            12s     w1: L2 REJECTED (duplicate_report); COMPLETED
        "#]],
    );
}
