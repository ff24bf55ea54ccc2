//! What a sign of life is worth.

use expect_test::expect;

use crate::story::check;

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
