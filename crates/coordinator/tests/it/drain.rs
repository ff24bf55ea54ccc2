//! Workers that are given nothing new, that have limits of their own, that start over.

use expect_test::expect;

use crate::story::check;

#[test]
fn a_drained_worker_gets_nothing_and_finishes_what_it_has() {
    check(
        "
          0s  submit a + b
          0s  w1 takes 1
          1s  drain w1 by ada
          2s  w1 takes 1
          3s  w1 completes L1
          4s  explain b
          5s  undrain w1
          6s  w1 takes 1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      L1 of a to w1 until 30s
            1s      drain w1 by ada: done
            2s      w1 gets nothing
            3s      a is COMPLETED with 1
            3s      w1: L1 COMMITTED; COMPLETED
            4s      explain b: QUEUED, attempts 0: 1 could take it and are drained
            5s      undrain w1: done
            6s      L2 of b to w1 until 36s
        "#]],
    );
}

#[test]
fn the_deadline_of_a_drain_survives_a_restart_and_then_the_worker_is_told_to_leave() {
    check(
        "
          0s  submit a + b
          0s  w1 takes 1
          1s  drain w1 by ada until 60s
          2s  w1 beats L1
          3s  restart
          4s  w1 takes 1
          4s  workers
         25s  w1 beats L1
         50s  w1 beats L1
         60s  w1 beats L1
         61s  undrain w1
         62s  w1 beats L1
         63s  restart
         64s  w1 takes 1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      L1 of a to w1 until 30s
            1s      drain w1 by ada until 60s: done
            2s      w1: L1 EXTENDED until 32s
            2s      w1: finish and take nothing new
            3s      restarted with 2 live tasks
            4s      w1 gets nothing
            4s      w1 is HEALTHY, seen at 4s, 1 in flight of 0 granted, does not ask, drained by ada since 1s, until 60s
            25s     w1: L1 EXTENDED until 55s
            25s     w1: finish and take nothing new
            50s     w1: L1 EXTENDED until 80s
            50s     w1: finish and take nothing new
            60s     w1: L1 EXTENDED until 90s
            60s     w1: leave
            61s     undrain w1: done
            62s     w1: L1 EXTENDED until 92s
            63s     restarted with 2 live tasks
            64s     L2 of b to w1 until 94s
        "#]],
    );
}

#[test]
fn a_drain_without_a_deadline_lasts_and_another_one_replaces_it() {
    check(
        "
          0s  drain w1 by ada until 10s
          5s  drain w1 by bob
         20s  w1 beats
         21s  drain w1 leaving
         22s  restart
         23s  w1 beats
         24s  workers
        ",
        expect![[r#"
            0s      drain w1 by ada until 10s: done
            5s      drain w1 by bob: done
            20s     w1: []
            20s     w1: finish and take nothing new
            21s     drain w1 leaving: done
            22s     restarted with 0 live tasks
            23s     w1: []
            23s     w1: finish and take nothing new
            24s     w1 is HEALTHY, seen at 23s, 0 in flight of 0 granted, does not ask, drained by bob since 5s
        "#]],
    );
}

#[test]
fn a_request_that_waits_is_passed_over_while_its_worker_is_drained() {
    check(
        "
          0s  w1 takes 1 waits 60s
          1s  drain w1 pressure
          2s  submit a
          3s  w2 takes 1 waits 60s
          4s  submit b
          5s  undrain w1 pressure
        ",
        expect![[r#"
            1s      drain w1 pressure: done
            2s      a is QUEUED
            3s      L1 of a to w2 until 33s
            4s      b is QUEUED
            5s      L2 of b to w1 until 35s
            5s      undrain w1 pressure: done
        "#]],
    );
}

#[test]
fn a_worker_is_drained_until_the_last_cause_is_gone() {
    check(
        "
          0s  submit a
          0s  drain w1 by ada
          0s  drain w1 pressure
          0s  drain w1 pressure
          1s  undrain w1 pressure
          2s  w1 takes 1
          3s  undrain w1
          3s  undrain w1
          4s  w1 takes 1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      drain w1 by ada: done
            0s      drain w1 pressure: done
            0s      drain w1 pressure: done
            1s      undrain w1 pressure: done
            2s      w1 gets nothing
            3s      undrain w1: done
            3s      undrain w1: done
            4s      L1 of a to w1 until 34s
        "#]],
    );
}

#[test]
fn a_worker_gets_no_more_of_a_type_than_it_takes() {
    check(
        "
          0s  submit a type=gpu + b type=gpu + c type=cpu + d type=gpu
          0s  w1 takes 4 offers limit=gpu:1
          1s  w1 takes 4 waits 60s offers limit=gpu:1
          2s  submit e type=cpu
          3s  w1 completes L1
          4s  w1 takes 4 offers limit=gpu:1
          5s  w2 takes 4
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      c is QUEUED
            0s      d is QUEUED
            0s      L1 of a to w1 until 30s
            0s      L2 of c to w1 until 30s
            2s      e is QUEUED
            2s      L3 of e to w1 until 32s
            3s      a is COMPLETED with 1
            3s      w1: L1 COMMITTED; COMPLETED
            4s      L4 of b to w1 until 34s
            5s      L5 of d to w2 until 35s
        "#]],
    );
}

#[test]
fn a_worker_never_holds_more_than_its_slots() {
    check(
        "
          0s  submit a + b + c
          0s  w1 takes 3 slots=2
          1s  w1 takes 3 slots=2 waits 60s
          2s  submit d
          3s  w1 completes L1
          4s  w1 takes 3 slots=2
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      c is QUEUED
            0s      L1 of a to w1 until 30s
            0s      L2 of b to w1 until 30s
            2s      d is QUEUED
            3s      a is COMPLETED with 1
            3s      L3 of c to w1 until 33s
            3s      w1: L1 COMMITTED; COMPLETED
            4s      w1 gets nothing
        "#]],
    );
}

#[test]
fn a_worker_that_ends_late_work_itself_is_heard() {
    check(
        "
          0s  submit a timeout=1s
          0s  w1 takes 1 grace=2s
          2s  w1 fails L1
          3s  submit b timeout=1s
          3s  w1 takes 1 grace=2s
          7s  w1 fails L2
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 3s
            2s      L1 of a failed (boom); a is RETRYING until 2.855s (attempts 1, losses 0)
            2s      w1: L1 COMMITTED; RETRYING
            3s      b is QUEUED
            3s      L2 of a to w1 until 6s, attempt 2
            6s      L2 of a timed out; a is RETRYING until 7.638s (attempts 2, losses 1)
            7s      a worker of a was slow, not lost
            7s      w1: L2 CANCELLED (expired); RETRYING
        "#]],
    );
}

#[test]
fn a_worker_that_limits_a_type_is_given_exactly_so_many_at_once() {
    check(
        "
          0s  submit a type=gpu + b type=gpu + c type=gpu + d
          0s  w1 takes 4 offers limit=gpu:2
          1s  w1 completes L1
          2s  w1 takes 4 offers limit=gpu:2
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      c is QUEUED
            0s      d is QUEUED
            0s      L1 of a to w1 until 30s
            0s      L2 of b to w1 until 30s
            0s      L3 of d to w1 until 30s
            1s      a is COMPLETED with 1
            1s      w1: L1 COMMITTED; COMPLETED
            2s      L4 of c to w1 until 32s
        "#]],
    );
}

#[test]
fn what_a_worker_gives_back_costs_no_attempt_and_does_not_go_round_for_ever() {
    check(
        "
          0s  submit a attempts=1
          0s  w1 takes 1
          1s  w2 gives back L1
          1s  w1 gives back L1
          2s  w1 gives back L1
          2s  w2 takes 1
          3s  w2 gives back L2
          4s  w3 takes 1
          5s  w3 gives back L3
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            1s      L1 of a expired; a is QUEUED (attempts 0, losses 1)
            2s      L2 of a to w2 until 32s
            3s      L2 of a expired; a is QUEUED (attempts 0, losses 2)
            4s      L3 of a to w3 until 34s
            5s      L3 of a expired; a is DEAD: E.WORKER.LOST 3 workers in a row were lost while they held this task (attempts 1, losses 3)
        "#]],
    );
}

#[test]
fn what_a_worker_held_is_free_when_its_process_starts_over() {
    check(
        "
          0s  submit a + b
          0s  w1 takes 1
          0s  w2 takes 1 waits 60s
          1s  w1 starts over
          2s  w2 takes 1
          3s  w1 completes L1
          4s  nobody starts over
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      L1 of a to w1 until 30s
            0s      L2 of b to w2 until 30s
            1s      L1 of a expired; a is QUEUED (attempts 1, losses 1)
            2s      L3 of a to w2 until 32s, attempt 2
            3s      w1: L1 CANCELLED (superseded); RUNNING
        "#]],
    );
}

#[test]
fn a_task_that_no_worker_confirms_ends_with_that_reason() {
    check(
        "
          0s  submit a
          0s  w1 takes 1 confirm=5s
          6s  w1 takes 1 confirm=5s
         12s  w1 takes 1 confirm=5s
         20s  explain a
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s, to confirm by 5s
            5s      L1 of a was not delivered; a is QUEUED (attempts 1, losses 1)
            6s      L2 of a to w1 until 36s, to confirm by 11s, attempt 2
            11s     L2 of a was not delivered; a is QUEUED (attempts 2, losses 2)
            12s     L3 of a to w1 until 42s, to confirm by 17s, attempt 3
            17s     L3 of a was not delivered; a is DEAD: E.DISPATCH.UNAVAILABLE no worker confirmed in time that it had received the task (attempts 3, losses 3)
            20s     explain a: not live
        "#]],
    );
}
