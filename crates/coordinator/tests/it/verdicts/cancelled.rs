//! Reports that came too late, or whose task is another's by now.

use expect_test::expect;

use crate::story::check;

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
