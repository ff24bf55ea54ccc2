//! The worker contract of seed 002: the verdict table of DESIGN section 2.3, row by row.

use expect_test::expect;

use crate::story::check;

// ----- COMMITTED

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

// ----- CANCELLED

#[test]
fn a_report_after_the_lease_ended_is_cancelled() {
    check(
        "
         0s  submit a
         0s  w1 takes 1
        31s  w1 completes L1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            30s     L1 of a expired; a is QUEUED (attempts 1, losses 1)
            31s     w1: L1 CANCELLED (expired); QUEUED
        "#]],
    );
}

#[test]
fn a_report_at_the_very_end_of_the_lease_is_cancelled_before_the_sweep_has_come() {
    // Decided by comparison: nobody needs to have noticed that the lease is over.
    check(
        "
         0s  submit a
         0s  w1 takes 1
         0s  ticks wait
        30s  w1 completes L1
        90s  ticks come
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            30s     L1 of a expired; a is QUEUED (attempts 1, losses 1)
            30s     w1: L1 CANCELLED (expired); QUEUED
        "#]],
    );
}

#[test]
fn a_report_in_the_last_moment_of_the_lease_counts() {
    check(
        "
            0s  submit a
            0s  w1 takes 1
        29999ms w1 completes L1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            29.999s a is COMPLETED with 1
            29.999s w1: L1 COMMITTED; COMPLETED
        "#]],
    );
}

#[test]
fn a_failure_report_after_the_lease_ended_is_cancelled_and_no_failure() {
    // Seed 002 section 3.2: a cancelled report is not a failure, so no backoff and no code.
    check(
        "
         0s  submit a
         0s  w1 takes 1
        31s  w1 fails L1 fatal
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            30s     L1 of a expired; a is QUEUED (attempts 1, losses 1)
            31s     w1: L1 CANCELLED (expired); QUEUED
        "#]],
    );
}

#[test]
fn a_late_report_of_the_last_attempt_is_cancelled_and_says_dead() {
    check(
        "
         0s  submit a attempts=1
         0s  w1 takes 1
         0s  ticks wait
        40s  w1 completes L1
        41s  w1 completes L1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            40s     L1 of a expired; a is DEAD: E.WORKER.LOST its worker was lost, and no attempt is left (attempts 1, losses 1)
            40s     w1: L1 CANCELLED (expired); DEAD
            41s     loading a
            41s     w1: L1 CANCELLED (expired); DEAD
        "#]],
    );
}

#[test]
fn a_report_under_an_older_epoch_is_cancelled() {
    check(
        "
         0s  submit a
         0s  w1 takes 1
        31s  w2 takes 1
        32s  w1 completes L1 with old
        33s  w2 completes L2 with new
        34s  w1 completes L1 with old
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            30s     L1 of a expired; a is QUEUED (attempts 1, losses 1)
            31s     L2 of a to w2 until 61s, attempt 2
            32s     w1: L1 CANCELLED (superseded); RUNNING
            33s     a is COMPLETED with new
            33s     w2: L2 COMMITTED; COMPLETED
            34s     loading a
            34s     w1: L1 CANCELLED (superseded); COMPLETED
        "#]],
    );
}

#[test]
fn a_report_under_an_older_epoch_of_the_same_worker_is_cancelled() {
    check(
        "
         0s  submit a
         0s  w1 takes 1
        31s  w1 takes 1
        32s  w1 completes L1 with old
        33s  w1 completes L2 with new
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            30s     L1 of a expired; a is QUEUED (attempts 1, losses 1)
            31s     L2 of a to w1 until 61s, attempt 2
            32s     w1: L1 CANCELLED (superseded); RUNNING
            33s     a is COMPLETED with new
            33s     w1: L2 COMMITTED; COMPLETED
        "#]],
    );
}

#[test]
fn a_report_for_a_task_that_a_user_stopped_is_cancelled() {
    check(
        "
         0s  submit a
         0s  w1 takes 1
         5s  stop a
         6s  w1 completes L1
         7s  w1 fails L1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            5s      L1 of a was stopped; a is STOPPED
            5s      stop a: done
            6s      loading a
            6s      w1: L1 CANCELLED (task_cancelled); STOPPED
            7s      loading a
            7s      w1: L1 CANCELLED (task_cancelled); STOPPED
        "#]],
    );
}

#[test]
fn a_report_for_a_stopped_task_stays_cancelled_when_the_task_lives_again() {
    check(
        "
         0s  submit a
         0s  w1 takes 1
         5s  stop a
         6s  w1 completes L1
         7s  requeue a
         8s  w1 completes L1
         9s  w2 takes 1
        10s  w1 completes L1
        11s  w2 completes L2
        12s  w1 completes L1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            5s      L1 of a was stopped; a is STOPPED
            5s      stop a: done
            6s      loading a
            6s      w1: L1 CANCELLED (task_cancelled); STOPPED
            7s      loading a
            7s      a is QUEUED again
            7s      requeue a: done
            8s      w1: L1 CANCELLED (task_cancelled); QUEUED
            9s      L2 of a to w2 until 39s
            10s     w1: L1 CANCELLED (task_cancelled); RUNNING
            11s     a is COMPLETED with 1
            11s     w2: L2 COMMITTED; COMPLETED
            12s     loading a
            12s     w1: L1 CANCELLED (task_cancelled); COMPLETED
        "#]],
    );
}

#[test]
fn a_report_on_a_lease_lost_before_a_user_stopped_the_task_is_cancelled_by_the_stop() {
    check(
        "
         0s  submit a
         0s  w1 takes 1
        31s  stop a
        32s  w1 completes L1
        33s  w2 completes L1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            30s     L1 of a expired; a is QUEUED (attempts 1, losses 1)
            31s     a is STOPPED
            31s     stop a: done
            32s     loading a
            32s     w1: L1 CANCELLED (task_cancelled); STOPPED
            33s     loading a
            33s     w2: L1 REJECTED (not_holder); STOPPED
        "#]],
    );
}

#[test]
fn a_report_on_a_lease_that_was_taken_back_is_cancelled() {
    check(
        "
         0s  submit a
         0s  w1 takes 1 confirm=5s
         6s  w1 completes L1
         6s  w2 takes 1
         7s  w1 completes L1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s, to confirm by 5s
            5s      L1 of a was not delivered; a is QUEUED (attempts 1, losses 1)
            6s      w1: L1 CANCELLED (expired); QUEUED
            6s      L2 of a to w2 until 36s, attempt 2
            7s      w1: L1 CANCELLED (superseded); RUNNING
        "#]],
    );
}

// ----- REJECTED

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
    // P13: the number of a task is the same in every tenant; its shard is not.
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

// ----- the same report again

#[test]
fn the_same_report_again_gets_the_stored_verdict() {
    // A settled task, by content and by report id: with an id the words may even differ.
    check(
        "
         0s  submit a + b
         0s  w1 takes 2
         1s  w1 completes L1 with 42
         1s  w1 completes L2 with 1 as r1
         2s  w1 completes L1 with 42
         2s  w1 completes L2 with 2 as r1
         3s  restart
         4s  w1 completes L1 with 42
        25h  w1 completes L1 with 42
        25h  w1 completes L2 with 1 as r1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      L1 of a to w1 until 30s
            0s      L2 of b to w1 until 30s
            1s      a is COMPLETED with 42
            1s      w1: L1 COMMITTED; COMPLETED
            1s      b is COMPLETED with 1
            1s      w1: L2 COMMITTED; COMPLETED
            2s      loading a
            2s      w1: L1 COMMITTED; COMPLETED
            2s      loading b
            2s      w1: L2 COMMITTED; COMPLETED
            3s      restarted with 0 live tasks
            4s      loading a
            4s      w1: L1 COMMITTED; COMPLETED
            25h     loading a
            25h     w1: L1 COMMITTED; COMPLETED
            25h     loading b
            25h     w1: L2 COMMITTED; COMPLETED
        "#]],
    );
}

#[test]
fn the_same_failure_report_again_gets_the_stored_verdict() {
    // While the task waits for its retry, runs again, after a restart, and after its end.
    check(
        "
         0s  submit a
         0s  w1 takes 1
         1s  w1 fails L1
         1s  w1 fails L1
         5s  w1 takes 1
         6s  w1 fails L1
         7s  restart
         8s  w1 fails L1
         9s  w1 completes L2
        25h  w1 fails L1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            1s      L1 of a failed (boom); a is RETRYING until 1.855s (attempts 1, losses 0)
            1s      w1: L1 COMMITTED; RETRYING
            1s      w1: L1 COMMITTED; RETRYING
            5s      L2 of a to w1 until 35s, attempt 2
            6s      w1: L1 COMMITTED; RETRYING
            7s      restarted with 1 live tasks
            8s      w1: L1 COMMITTED; RETRYING
            9s      a is COMPLETED with 1
            9s      w1: L2 COMMITTED; COMPLETED
            25h     loading a
            25h     w1: L1 COMMITTED; RETRYING
        "#]],
    );
}

#[test]
fn the_same_failure_report_that_settled_a_task_gets_the_stored_verdict() {
    check(
        "
         0s  submit a
         0s  w1 takes 1
         1s  w1 fails L1 fatal
         2s  w1 fails L1 fatal
         3s  w1 fails L1 fatal as other
         4s  restart
        25h  w1 fails L1 fatal
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            1s      a is FAILED: E.TEST boom (attempts 1, losses 0)
            1s      w1: L1 COMMITTED; FAILED
            2s      loading a
            2s      w1: L1 COMMITTED; FAILED
            3s      loading a
            3s      w1: L1 REJECTED (duplicate_report); FAILED
            4s      restarted with 0 live tasks
            25h     loading a
            25h     w1: L1 COMMITTED; FAILED
        "#]],
    );
}

#[test]
fn the_report_that_settled_a_task_keeps_its_verdict_when_the_task_lives_again() {
    check(
        "
         0s  submit a
         0s  w1 takes 1
         1s  w1 fails L1 fatal
         2s  requeue a
         3s  w1 fails L1 fatal
         4s  w2 takes 1
         5s  w1 fails L1 fatal
         6s  w2 completes L2
         7s  w1 fails L1 fatal
         8s  w1 completes L1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            1s      a is FAILED: E.TEST boom (attempts 1, losses 0)
            1s      w1: L1 COMMITTED; FAILED
            2s      loading a
            2s      a is QUEUED again
            2s      requeue a: done
            3s      w1: L1 COMMITTED; RETRYING
            4s      L2 of a to w2 until 34s
            5s      w1: L1 COMMITTED; RETRYING
            6s      a is COMPLETED with 1
            6s      w2: L2 COMMITTED; COMPLETED
            7s      loading a
            7s      w1: L1 COMMITTED; RETRYING
            8s      loading a
            8s      w1: L1 REJECTED (duplicate_report); COMPLETED
        "#]],
    );
}

#[test]
fn the_same_report_twice_in_one_call_gets_the_same_verdict_twice() {
    check(
        "
         0s  submit a + b
         0s  w1 takes 2
         1s  w1 completes L1,L1
         2s  w1 fails L2,L2 fatal
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      L1 of a to w1 until 30s
            0s      L2 of b to w1 until 30s
            1s      a is COMPLETED with 1
            1s      w1: L1 COMMITTED; COMPLETED
            1s      w1: L1 COMMITTED; COMPLETED
            2s      b is FAILED: E.TEST boom (attempts 1, losses 0)
            2s      w1: L2 COMMITTED; FAILED
            2s      w1: L2 COMMITTED; FAILED
        "#]],
    );
}

#[test]
fn the_same_late_report_twice_in_one_call_is_cancelled_twice() {
    // The first one makes the end of the last attempt a fact, and the task leaves memory.
    check(
        "
         0s  submit a attempts=1
         0s  w1 takes 1
         0s  ticks wait
        40s  w1 completes L1,L1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            40s     L1 of a expired; a is DEAD: E.WORKER.LOST its worker was lost, and no attempt is left (attempts 1, losses 1)
            40s     w1: L1 CANCELLED (expired); DEAD
            40s     w1: L1 CANCELLED (expired); DEAD
        "#]],
    );
}

#[test]
fn a_cancelled_report_stays_cancelled() {
    check(
        "
         0s  submit a
         0s  w1 takes 1
        31s  w1 completes L1
        32s  w1 completes L1
        33s  restart
        34s  w1 completes L1
        35s  w2 takes 1
        36s  w1 completes L1
        37s  w2 completes L2
        38s  w1 completes L1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            30s     L1 of a expired; a is QUEUED (attempts 1, losses 1)
            31s     w1: L1 CANCELLED (expired); QUEUED
            32s     w1: L1 CANCELLED (expired); QUEUED
            33s     restarted with 1 live tasks
            34s     w1: L1 CANCELLED (expired); QUEUED
            35s     L2 of a to w2 until 65s, attempt 2
            36s     w1: L1 CANCELLED (superseded); RUNNING
            37s     a is COMPLETED with 1
            37s     w2: L2 COMMITTED; COMPLETED
            38s     loading a
            38s     w1: L1 CANCELLED (superseded); COMPLETED
        "#]],
    );
}

// ----- heartbeats

#[test]
fn a_heartbeat_extends_the_lease() {
    // Seed 002 section 7: the same heartbeat again gives the same end.
    check(
        "
         0s  submit a
         0s  w1 takes 1
        20s  w1 beats L1
        20s  w1 beats L1
        45s  w1 beats L1
        74s  w1 completes L1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            20s     w1: L1 EXTENDED until 50s
            20s     w1: L1 EXTENDED until 50s
            45s     w1: L1 EXTENDED until 75s
            74s     a is COMPLETED with 1
            74s     w1: L1 COMMITTED; COMPLETED
        "#]],
    );
}

#[test]
fn a_heartbeat_without_a_list_extends_all_that_the_worker_holds() {
    check(
        "
         0s  submit a ttl=10s + b + c
         0s  w1 takes 2
         0s  w2 takes 1
         5s  w1 beats
         6s  w3 beats
        14s  w1 completes L1
        34s  w1 completes L2
        34s  w2 completes L3
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      c is QUEUED
            0s      L1 of a to w1 until 10s
            0s      L2 of b to w1 until 30s
            0s      L3 of c to w2 until 30s
            5s      w1: [EXTENDED until 15s, EXTENDED until 35s]
            6s      w3: []
            14s     a is COMPLETED with 1
            14s     w1: L1 COMMITTED; COMPLETED
            30s     L3 of c expired; c is QUEUED (attempts 1, losses 1)
            34s     b is COMPLETED with 1
            34s     w1: L2 COMMITTED; COMPLETED
            34s     w2: L3 CANCELLED (expired); QUEUED
        "#]],
    );
}

#[test]
fn a_heartbeat_after_the_end_never_revives_the_lease() {
    // Seen by comparison, after the sweep, after the next grant, and after the end of the task.
    check(
        "
         0s  submit a
         0s  w1 takes 1
         0s  ticks wait
        30s  w1 beats L1
        30s  ticks come
        31s  w1 beats L1
        31s  w1 completes L1
        32s  w2 takes 1
        33s  w1 beats L1
        34s  w2 completes L2
        35s  w1 beats L1
        35s  w2 beats L2
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            30s     L1 of a expired; a is QUEUED (attempts 1, losses 1)
            30s     w1: L1 CANCELLED (expired)
            31s     w1: L1 CANCELLED (expired)
            31s     w1: L1 CANCELLED (expired); QUEUED
            32s     L2 of a to w2 until 62s, attempt 2
            33s     w1: L1 CANCELLED (superseded)
            34s     a is COMPLETED with 1
            34s     w2: L2 COMMITTED; COMPLETED
            35s     loading a
            35s     w1: L1 CANCELLED (superseded)
            35s     loading a
            35s     w2: L2 CANCELLED (reported)
        "#]],
    );
}

#[test]
fn a_late_heartbeat_without_a_list_revives_nothing() {
    check(
        "
         0s  submit a
         0s  w1 takes 1
         0s  ticks wait
        30s  w1 beats
        31s  w1 completes L1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            30s     L1 of a expired; a is QUEUED (attempts 1, losses 1)
            30s     w1: [CANCELLED (expired)]
            31s     w1: L1 CANCELLED (expired); QUEUED
        "#]],
    );
}

#[test]
fn a_heartbeat_for_a_stopped_task_is_cancelled() {
    check(
        "
         0s  submit a
         0s  w1 takes 1
         5s  stop a
         6s  w1 beats L1
         7s  w2 beats L1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            5s      L1 of a was stopped; a is STOPPED
            5s      stop a: done
            6s      loading a
            6s      w1: L1 CANCELLED (task_cancelled)
            7s      loading a
            7s      w2: L1 REJECTED (not_holder)
        "#]],
    );
}

#[test]
fn a_heartbeat_that_lists_a_late_lease_twice_is_cancelled_twice() {
    check(
        "
         0s  submit a attempts=1
         0s  w1 takes 1
         0s  ticks wait
        40s  w1 beats L1,L1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            40s     L1 of a expired; a is DEAD: E.WORKER.LOST its worker was lost, and no attempt is left (attempts 1, losses 1)
            40s     w1: L1 CANCELLED (expired)
            40s     w1: L1 CANCELLED (expired)
        "#]],
    );
}

#[test]
fn a_lost_worker_is_granted_again_under_the_next_epoch() {
    check(
        "
         0s  submit a
         0s  w1 takes 1
        10s  w2 takes 1 waits 60s
        40s  w2 completes L2
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            30s     L1 of a expired; a is QUEUED (attempts 1, losses 1)
            30s     L2 of a to w2 until 60s, attempt 2
            40s     a is COMPLETED with 1
            40s     w2: L2 COMMITTED; COMPLETED
        "#]],
    );
}

// ----- restarts

#[test]
fn a_lease_survives_a_restart_with_one_fresh_ttl() {
    // Renewals are not kept, so the holder gets a whole TTL to come back, and a late one is late.
    check(
        "
          0s  submit a + b + c
          0s  w1 takes 3
         25s  w1 beats
         50s  restart
         79s  w1 completes L1
         79s  w1 beats L2
         81s  w1 completes L3
        100s  w1 completes L2
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      c is QUEUED
            0s      L1 of a to w1 until 30s
            0s      L2 of b to w1 until 30s
            0s      L3 of c to w1 until 30s
            25s     w1: [EXTENDED until 55s, EXTENDED until 55s, EXTENDED until 55s]
            50s     restarted with 3 live tasks
            79s     a is COMPLETED with 1
            79s     w1: L1 COMMITTED; COMPLETED
            79s     w1: L2 EXTENDED until 109s
            80s     L3 of c expired; c is QUEUED (attempts 1, losses 1)
            81s     w1: L3 CANCELLED (expired); QUEUED
            100s    b is COMPLETED with 1
            100s    w1: L2 COMMITTED; COMPLETED
        "#]],
    );
}

#[test]
fn a_restart_revives_no_lease_that_was_told_to_be_over() {
    check(
        "
         0s  submit a
         0s  w1 takes 1
         0s  ticks wait
        30s  w1 beats L1
        30s  restart
        31s  w1 completes L1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            30s     L1 of a expired; a is QUEUED (attempts 1, losses 1)
            30s     w1: L1 CANCELLED (expired)
            30s     restarted with 1 live tasks
            31s     w1: L1 CANCELLED (expired); QUEUED
        "#]],
    );
}
