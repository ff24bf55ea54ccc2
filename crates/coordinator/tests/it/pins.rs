//! Tasks that belong to a worker.

mod prop;

use expect_test::expect;

use crate::story::check;

#[test]
fn a_pinned_task_is_given_to_its_worker_alone() {
    check(
        "
          0s  submit a pin=w1 + b
          0s  w2 takes 5
          1s  w2 takes 5
          2s  w1 takes 5
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      L1 of b to w2 until 30s
            1s      w2 gets nothing
            2s      L2 of a to w1 until 32s
        "#]],
    );
}

#[test]
fn a_worker_that_waits_is_given_what_belongs_to_it() {
    check(
        "
          0s  w2 takes 1 waits 60s
          0s  w1 takes 1 waits 60s
          1s  submit a pin=w1
          2s  submit b pin=w1
          3s  w1 takes 1 waits 60s
          4s  submit c
        ",
        expect![[r#"
            1s      a is QUEUED
            1s      L1 of a to w1 until 31s
            2s      b is QUEUED
            3s      L2 of b to w1 until 33s
            4s      c is QUEUED
            4s      L3 of c to w2 until 34s
        "#]],
    );
}

#[test]
fn what_belongs_to_a_worker_stands_in_line_with_all_others() {
    check(
        "
          0s  submit a + b pin=w1 + c prio=1 + d pin=w1 prio=2
          0s  w1 takes 1
          0s  w1 takes 1
          0s  w1 takes 1
          0s  w1 takes 1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      c is QUEUED
            0s      d is QUEUED
            0s      L1 of d to w1 until 30s
            0s      L2 of c to w1 until 30s
            0s      L3 of a to w1 until 30s
            0s      L4 of b to w1 until 30s
        "#]],
    );
}

#[test]
fn a_worker_gets_what_belongs_to_it_only_if_it_can_do_it() {
    check(
        "
          0s  submit a pin=w1 needs=tool:x + b pin=w1 type=gpu + c pin=w1 type=gpu
          0s  w1 takes 5 offers limit=gpu:1
          1s  explain a
          1s  explain c
          2s  w1 takes 5 waits 60s offers tool:x limit=gpu:1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      c is QUEUED
            0s      L1 of b to w1 until 30s
            1s      explain a: QUEUED, attempts 0: 1 lack tool x; it needs resource r1 of w1, which is busy
            1s      explain c: QUEUED, attempts 0: it needs resource r1 of w1, which is busy
            2s      L2 of a to w1 until 32s
        "#]],
    );
}

#[test]
fn a_drained_worker_and_a_paused_queue_keep_what_is_pinned() {
    check(
        "
          0s  w1 takes 1 waits 60s
          0s  drain w1 by ada
          1s  submit a pin=w1 queue=q
          1s  explain a
          2s  pause q by ada
          3s  undrain w1
          4s  resume q
        ",
        expect![[r#"
            0s      drain w1 by ada: done
            1s      a is QUEUED
            1s      explain a: QUEUED, attempts 0: 1 could take it and are drained; it needs resource r1 of w1, which is busy
            2s      pause q by ada: done
            3s      undrain w1: done
            4s      L1 of a to w1 until 34s
            4s      resume q: done
        "#]],
    );
}

#[test]
fn a_task_whose_worker_stays_away_fails() {
    check(
        "
          0s  submit a pin=w1:30s + b behind=a
          1s  explain a
         40s  explain a
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is WAITING for others
            1s      explain a: QUEUED, attempts 0: it needs resource r1 of w1, which is away, until 30s
            30s     a is FAILED: E.RESOURCE.AWAY its worker w1 has been away for 30 s; it needs resource r1 (attempts 0, losses 0)
            30s     b is FAILED: E.TASK.DEPENDENCY it was to run after task a, which failed (attempts 0, losses 0)
            40s     explain a: not live
        "#]],
    );
}

#[test]
fn nobody_gives_up_while_the_queue_is_paused() {
    check(
        "
          0s  submit a pin=w1:30s
          1s  pause default by ada
         35s  explain a
         59s  resume default
         70s  explain a
        ",
        expect![[r#"
            0s      a is QUEUED
            1s      pause default by ada: done
            35s     explain a: QUEUED, attempts 0: default is paused by ada since 1s; it needs resource r1 of w1, which is away, until 60s
            59s     resume default: done
            60s     a is FAILED: E.RESOURCE.AWAY its worker w1 has been away for 30 s; it needs resource r1 (attempts 0, losses 0)
            70s     explain a: not live
        "#]],
    );
}

#[test]
fn a_task_whose_worker_is_busy_fails_too() {
    check(
        "
          0s  submit a + b pin=w1:20s
          0s  w1 takes 1 slots=1
          5s  w1 beats
          5s  explain b
         15s  w1 beats
         21s  requeue b
         22s  w1 completes L1
         23s  w1 takes 1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      L1 of a to w1 until 30s
            5s      w1: [EXTENDED until 35s]
            5s      explain b: QUEUED, attempts 0: it needs resource r1 of w1, which is busy, until 20s
            15s     w1: [EXTENDED until 45s]
            20s     b is FAILED: E.RESOURCE.AWAY its worker w1 was busy for 20 s; it needs resource r1 (attempts 0, losses 0)
            21s     loading b
            21s     b is QUEUED again
            21s     requeue b: done
            22s     a is COMPLETED with 1
            22s     w1: L1 COMMITTED; COMPLETED
            23s     L2 of b to w1 until 53s
        "#]],
    );
}

#[test]
fn patience_begins_anew_with_every_wait() {
    check(
        "
          0s  submit a pin=w1:10s after=20s
         25s  w1 takes 1
         26s  w1 fails L1
         35s  explain a
         36s  w1 takes 1
         37s  w1 completes L2
        ",
        expect![[r#"
            0s      a is WAITING until 20s
            25s     L1 of a to w1 until 55s
            26s     L1 of a failed (boom); a is RETRYING until 26.855s (attempts 1, losses 0)
            26s     w1: L1 COMMITTED; RETRYING
            35s     explain a: QUEUED, attempts 1: it needs resource r1 of w1, which is busy, until 36.855s
            36s     L2 of a to w1 until 66s, attempt 2
            37s     a is COMPLETED with 1
            37s     w1: L2 COMMITTED; COMPLETED
        "#]],
    );
}

#[test]
fn a_pinned_task_behind_a_key_does_not_lose_its_patience() {
    check(
        "
          0s  submit a ckey=k + b ckey=k pin=w1:10s + c ckey=k pin=w2 prio=5
          0s  explain b
          0s  w1 takes 5
         15s  w2 takes 5
         15s  explain b
         16s  w2 completes L1
         20s  explain a
         21s  w3 takes 5
         22s  w3 completes L2
         23s  explain b
         24s  w3 takes 5
         25s  w1 takes 5
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      c is QUEUED
            0s      explain b: QUEUED, attempts 0: c has the key k
            0s      w1 gets nothing
            15s     L1 of c to w2 until 45s
            15s     explain b: QUEUED, attempts 0: c has the key k
            16s     c is COMPLETED with 1
            16s     w2: L1 COMMITTED; COMPLETED
            20s     explain a: QUEUED, attempts 0: 2 could take it, none asks
            21s     L2 of a to w3 until 51s
            22s     a is COMPLETED with 1
            22s     w3: L2 COMMITTED; COMPLETED
            23s     explain b: QUEUED, attempts 0: it needs resource r1 of w1, which is busy, until 32s
            24s     w3 gets nothing
            25s     L3 of b to w1 until 55s
        "#]],
    );
}

#[test]
fn a_pin_outlives_a_restart_and_so_does_the_patience() {
    check(
        "
          0s  submit a pin=w1:30s
         20s  restart
         21s  w2 takes 1
         40s  explain a
         45s  w1 takes 1
         46s  restart
         47s  w1 completes L1
        ",
        expect![[r#"
            0s      a is QUEUED
            20s     restarted with 1 live tasks
            21s     w2 gets nothing
            40s     explain a: QUEUED, attempts 0: it needs resource r1 of w1, which is away, until 50s
            45s     L1 of a to w1 until 75s
            46s     restarted with 1 live tasks
            47s     a is COMPLETED with 1
            47s     w1: L1 COMMITTED; COMPLETED
        "#]],
    );
}

#[test]
fn a_soft_pin_chooses_among_those_who_ask() {
    check(
        "
          0s  w1 takes 1 waits 60s
          0s  w2 takes 1 waits 60s
          0s  w3 takes 1 waits 60s
          1s  submit a prefer=w3
          2s  submit b prefer=w3
          3s  submit c prefer=w9
        ",
        expect![[r#"
            1s      a is QUEUED
            1s      L1 of a to w3 until 31s
            2s      b is QUEUED
            2s      L2 of b to w1 until 32s
            3s      c is QUEUED
            3s      L3 of c to w2 until 33s
        "#]],
    );
}

#[test]
fn several_soft_pins_at_once_all_find_their_worker() {
    check(
        "
          0s  w1 takes 5 waits 60s
          0s  w2 takes 5 waits 60s
          0s  w3 takes 5 waits 60s
          1s  submit a prefer=w3 + b prefer=w2 + c + d prefer=w1
        ",
        expect![[r#"
            1s      a is QUEUED
            1s      b is QUEUED
            1s      c is QUEUED
            1s      d is QUEUED
            1s      L1 of a to w3 until 31s
            1s      L2 of b to w2 until 31s
            1s      L3 of c to w2 until 31s
            1s      L4 of d to w1 until 31s
        "#]],
    );
}

#[test]
fn a_soft_pin_passes_over_a_worker_that_cannot_take_it() {
    check(
        "
          0s  w1 takes 1 waits 60s
          0s  w2 takes 1 waits 60s offers types=other
          0s  drain w3 by ada
          0s  w3 takes 1 waits 60s
          0s  w4 takes 1 waits 60s
          1s  submit a prefer=w2
          2s  submit b prefer=w3
        ",
        expect![[r#"
            0s      drain w3 by ada: done
            1s      a is QUEUED
            1s      L1 of a to w1 until 31s
            2s      b is QUEUED
            2s      L2 of b to w4 until 32s
        "#]],
    );
}

#[test]
fn a_look_at_the_queue_sees_what_is_pinned() {
    check(
        "
          0s  submit a pin=w1 + b + c pin=w2 prio=1
          1s  peek limit=5
          1s  queues
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      c is QUEUED
            1s      peek limit=5: [c, a, b] of 3
            1s      queue default: 3 queued since 0s, 0 in flight, 0 retrying, 0 scheduled
        "#]],
    );
}
