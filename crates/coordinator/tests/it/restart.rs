//! A restart brings back every fact, and nothing but facts.

use expect_test::expect;

use crate::story::check;

#[test]
fn a_restart_keeps_waiting_queued_retrying_and_running_tasks() {
    check(
        "
          0s  submit waiting after=99s + queued prio=-1 + retrying backoff=50s + running
          0s  w1 takes 2
          1s  w1 fails L1
          2s  restart
          3s  explain waiting
          3s  explain queued
          3s  explain retrying
          3s  explain running
          3s  queues
          4s  workers
          5s  w2 takes 9
          6s  w1 completes L2
        ",
        expect![[r#"
            0s      waiting is WAITING until 99s
            0s      queued is QUEUED
            0s      retrying is QUEUED
            0s      running is QUEUED
            0s      L1 of retrying to w1 until 30s
            0s      L2 of running to w1 until 30s
            1s      L1 of retrying failed (boom); retrying is RETRYING until 48.772s (attempts 1, losses 0)
            1s      w1: L1 COMMITTED; RETRYING
            2s      restarted with 4 live tasks
            3s      explain waiting: WAITING, attempts 0: not before 99s
            3s      explain queued: QUEUED, attempts 0: 1 could take it, none asks
            3s      explain retrying: RETRYING, attempts 1: attempt 1 of 3 failed, next at 48.772s
            3s      explain running: RUNNING, attempts 1: w1 holds it until 32s
            3s      queue default: 1 queued since 0s, 1 in flight, 1 retrying, 1 scheduled
            4s      w1 is HEALTHY, seen at 2s, 1 in flight of 0 granted, does not ask
            5s      L3 of queued to w2 until 35s
            6s      running is COMPLETED with 1
            6s      w1: L2 COMMITTED; COMPLETED
        "#]],
    );
}

#[test]
fn a_restart_keeps_attempts_losses_and_epochs() {
    check(
        "
          0s  submit a ttl=10s attempts=9
          0s  w1 takes 1
         11s  w1 takes 1
         22s  restart
         23s  w1 takes 1
         40s  w1 completes L3
         41s  w1 completes L1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 10s
            10s     L1 of a expired; a is QUEUED (attempts 1, losses 1)
            11s     L2 of a to w1 until 21s, attempt 2
            21s     L2 of a expired; a is QUEUED (attempts 2, losses 2)
            22s     restarted with 1 live tasks
            23s     L3 of a to w1 until 33s, attempt 3
            33s     L3 of a expired; a is DEAD: E.WORKER.LOST 3 workers in a row were lost while they held this task (attempts 3, losses 3)
            40s     loading a
            40s     w1: L3 CANCELLED (expired); DEAD
            41s     loading a
            41s     w1: L1 CANCELLED (superseded); DEAD
        "#]],
    );
}

#[test]
fn a_restart_keeps_concurrency_keys() {
    check(
        "
          0s  submit a ckey=k + b ckey=k + c ckey=k prio=5
          0s  w1 takes 9
          1s  restart
          2s  w2 takes 9
          3s  explain a
          4s  w1 completes L1
          5s  w2 takes 9
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      c is QUEUED
            0s      L1 of c to w1 until 30s
            1s      restarted with 3 live tasks
            2s      w2 gets nothing
            3s      explain a: QUEUED, attempts 0: c has the key k
            4s      c is COMPLETED with 1
            4s      w1: L1 COMMITTED; COMPLETED
            5s      L2 of a to w2 until 35s
        "#]],
    );
}

#[test]
fn a_wait_that_ended_while_the_server_was_away_is_over() {
    check(
        "
          0s  submit a after=10s
          1s  ticks wait
         20s  restart
         21s  w1 takes 1
        ",
        expect![[r#"
            0s      a is WAITING until 10s
            20s     restarted with 1 live tasks
            21s     L1 of a to w1 until 51s
        "#]],
    );
}

#[test]
fn a_timeout_that_passed_while_the_server_was_away_ends_the_attempt() {
    check(
        "
          0s  submit a timeout=10s attempts=2 backoff=0s + b timeout=40s
          0s  w1 takes 2
          1s  ticks wait
         30s  restart
         31s  w1 completes L1
         39s  w1 beats L2
         39s  w1 completes L2
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      L1 of a to w1 until 10s
            0s      L2 of b to w1 until 30s
            30s     restarted with 2 live tasks
            30s     L1 of a timed out; a is QUEUED (attempts 1, losses 1)
            31s     a worker of a was slow, not lost
            31s     w1: L1 CANCELLED (expired); QUEUED
            39s     w1: L2 EXTENDED until 40s
            39s     b is COMPLETED with 1
            39s     w1: L2 COMMITTED; COMPLETED
        "#]],
    );
}

#[test]
fn a_grant_that_was_not_confirmed_before_a_restart_gets_a_whole_ttl() {
    check(
        "
          0s  submit a
          0s  w1 takes 1 confirm=5s
          4s  restart
         33s  w1 completes L1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s, to confirm by 5s
            4s      restarted with 1 live tasks
            33s     a is COMPLETED with 1
            33s     w1: L1 COMMITTED; COMPLETED
        "#]],
    );
}

#[test]
fn a_holder_counts_as_a_worker_after_a_restart() {
    check(
        "
          0s  submit a
          0s  w1 takes 1
          0s  w2 takes 1
          5s  restart
          6s  workers
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            0s      w2 gets nothing
            5s      restarted with 1 live tasks
            6s      w1 is HEALTHY, seen at 5s, 1 in flight of 0 granted, does not ask
        "#]],
    );
}

#[test]
fn a_second_restart_changes_nothing() {
    check(
        "
          0s  submit a
          0s  w1 takes 1
          5s  restart
          6s  restart
          7s  restart
         36s  w1 completes L1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            5s      restarted with 1 live tasks
            6s      restarted with 1 live tasks
            7s      restarted with 1 live tasks
            36s     a is COMPLETED with 1
            36s     w1: L1 COMMITTED; COMPLETED
        "#]],
    );
}

#[test]
fn the_numbers_of_tasks_go_on_after_a_restart() {
    check(
        "
          0s  submit a
          1s  stop a
          2s  restart
          3s  submit b
          4s  w1 takes 9
          5s  w1 completes L1
        ",
        expect![[r#"
            0s      a is QUEUED
            1s      a is STOPPED
            1s      stop a: done
            2s      restarted with 0 live tasks
            3s      b is QUEUED
            4s      L1 of b to w1 until 34s
            5s      b is COMPLETED with 1
            5s      w1: L1 COMMITTED; COMPLETED
        "#]],
    );
}
