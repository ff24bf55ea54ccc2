//! The same report again gets the same answer.

use expect_test::expect;

use crate::story::check;

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
