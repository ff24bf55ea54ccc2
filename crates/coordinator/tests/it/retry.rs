//! What follows an attempt that did not complete; and what people do to tasks.

use std::time::Duration;

use coordinator::{TaskState, WaitReason};
use expect_test::expect;
use proptest::prelude::*;

use crate::story::{START, World, check};

#[test]
fn a_retryable_failure_waits_its_backoff_and_runs_again() {
    check(
        "
         0s  submit a backoff=10s
         0s  w1 takes 1
         1s  w2 takes 1 waits 60s
         2s  w1 fails L1
         3s  explain a
        20s  w2 completes L2
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            2s      L1 of a failed (boom); a is RETRYING until 7.988s (attempts 1, losses 0)
            2s      w1: L1 COMMITTED; RETRYING
            3s      explain a: RETRYING, attempts 1: attempt 1 of 3 failed, next at 7.988s
            7.988s  L2 of a to w2 until 37.988s, attempt 2
            20s     a is COMPLETED with 1
            20s     w2: L2 COMMITTED; COMPLETED
        "#]],
    );
}

#[test]
fn a_task_with_one_attempt_fails_and_is_not_dead() {
    check(
        "
         0s  submit a attempts=1
         0s  w1 takes 1
         1s  w1 fails L1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            1s      a is FAILED: E.TEST boom (attempts 1, losses 0)
            1s      w1: L1 COMMITTED; FAILED
        "#]],
    );
}

#[test]
fn a_task_that_used_up_its_attempts_is_dead() {
    check(
        "
         0s  submit a attempts=3 backoff=0s
         0s  w1 takes 1
         1s  w1 fails L1
         1s  w1 takes 1
         2s  w1 fails L2
         2s  w1 takes 1
         3s  w1 fails L3
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            1s      L1 of a failed (boom); a is QUEUED (attempts 1, losses 0)
            1s      w1: L1 COMMITTED; RETRYING
            1s      L2 of a to w1 until 31s, attempt 2
            2s      L2 of a failed (boom); a is QUEUED (attempts 2, losses 0)
            2s      w1: L2 COMMITTED; RETRYING
            2s      L3 of a to w1 until 32s, attempt 3
            3s      a is DEAD: E.TEST boom (attempts 3, losses 0)
            3s      w1: L3 COMMITTED; DEAD
        "#]],
    );
}

#[test]
fn a_task_whose_last_attempt_is_lost_is_dead() {
    check(
        "
         0s  submit a attempts=2
         0s  w1 takes 1
        31s  w2 takes 1
        90s  time passes
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            30s     L1 of a expired; a is QUEUED (attempts 1, losses 1)
            31s     L2 of a to w2 until 61s, attempt 2
            61s     L2 of a expired; a is DEAD: E.WORKER.LOST its worker was lost, and no attempt is left (attempts 2, losses 2)
        "#]],
    );
}

#[test]
fn a_task_that_loses_three_workers_in_a_row_is_dead() {
    check(
        "
          0s  submit a attempts=9 ttl=10s
          0s  w1 takes 1
         11s  w2 takes 1
         22s  w3 takes 1
         40s  w4 takes 1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 10s
            10s     L1 of a expired; a is QUEUED (attempts 1, losses 1)
            11s     L2 of a to w2 until 21s, attempt 2
            21s     L2 of a expired; a is QUEUED (attempts 2, losses 2)
            22s     L3 of a to w3 until 32s, attempt 3
            32s     L3 of a expired; a is DEAD: E.WORKER.LOST 3 workers in a row were lost while they held this task (attempts 3, losses 3)
            40s     w4 gets nothing
        "#]],
    );
}

#[test]
fn a_reported_failure_ends_the_row_of_lost_workers() {
    check(
        "
          0s  submit a attempts=9 ttl=10s backoff=2s
          0s  w1 takes 1
         11s  w2 takes 1
         22s  w3 takes 1
         23s  w3 fails L3
         30s  w4 takes 1
         41s  w5 takes 1
         52s  w6 takes 1
         53s  w6 completes L6
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 10s
            10s     L1 of a expired; a is QUEUED (attempts 1, losses 1)
            11s     L2 of a to w2 until 21s, attempt 2
            21s     L2 of a expired; a is QUEUED (attempts 2, losses 2)
            22s     L3 of a to w3 until 32s, attempt 3
            23s     L3 of a failed (boom); a is RETRYING until 27.767s (attempts 3, losses 0)
            23s     w3: L3 COMMITTED; RETRYING
            30s     L4 of a to w4 until 40s, attempt 4
            40s     L4 of a expired; a is QUEUED (attempts 4, losses 1)
            41s     L5 of a to w5 until 51s, attempt 5
            51s     L5 of a expired; a is QUEUED (attempts 5, losses 2)
            52s     L6 of a to w6 until 62s, attempt 6
            53s     a is COMPLETED with 1
            53s     w6: L6 COMMITTED; COMPLETED
        "#]],
    );
}

#[test]
fn a_failed_task_is_requeued_by_hand_with_fresh_attempts_and_rising_epochs() {
    check(
        "
          0s  submit a attempts=2 backoff=0s
          0s  w1 takes 1
          1s  w1 fails L1 fatal
          2s  requeue a
          2s  requeue a
          3s  w1 takes 1
          4s  w1 beats L2
          5s  w1 completes L2
          6s  requeue a
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            1s      a is FAILED: E.TEST boom (attempts 1, losses 0)
            1s      w1: L1 COMMITTED; FAILED
            2s      loading a
            2s      a is QUEUED again
            2s      requeue a: done
            2s      requeue a: refused, it is QUEUED
            3s      L2 of a to w1 until 33s
            4s      w1: L2 EXTENDED until 34s
            5s      a is COMPLETED with 1
            5s      w1: L2 COMMITTED; COMPLETED
            6s      loading a
            6s      requeue a: refused, it is COMPLETED
        "#]],
    );
}

#[test]
fn a_poisoned_task_that_is_requeued_may_lose_three_workers_again() {
    check(
        "
          0s  submit a attempts=9 ttl=1s
          0s  w1 takes 1
          2s  w1 takes 1
          4s  w1 takes 1
          6s  requeue a
          6s  w1 takes 1
          8s  w1 takes 1
         10s  explain a
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 1s
            1s      L1 of a expired; a is QUEUED (attempts 1, losses 1)
            2s      L2 of a to w1 until 3s, attempt 2
            3s      L2 of a expired; a is QUEUED (attempts 2, losses 2)
            4s      L3 of a to w1 until 5s, attempt 3
            5s      L3 of a expired; a is DEAD: E.WORKER.LOST 3 workers in a row were lost while they held this task (attempts 3, losses 3)
            6s      loading a
            6s      a is QUEUED again
            6s      requeue a: done
            6s      L4 of a to w1 until 7s
            7s      L4 of a expired; a is QUEUED (attempts 1, losses 1)
            8s      L5 of a to w1 until 9s, attempt 2
            9s      L5 of a expired; a is QUEUED (attempts 2, losses 2)
            10s     explain a: QUEUED, attempts 2: 1 could take it, none asks
        "#]],
    );
}

#[test]
fn an_unknown_task_cannot_be_requeued() {
    check(
        "
          0s  requeue nobody
          0s  submit a
          0s  requeue a
        ",
        expect![[r#"
            0s      requeue nobody: refused, unknown task
            0s      a is QUEUED
            0s      requeue a: refused, it is QUEUED
        "#]],
    );
}

// ----- timeouts

#[test]
fn an_attempt_ends_with_its_timeout_however_alive_its_worker_is() {
    check(
        "
          0s  submit a timeout=40s attempts=2 backoff=0s
          0s  w1 takes 1
         20s  w1 beats L1
         30s  w1 beats L1
         41s  w1 beats L1
         42s  w1 takes 1
        100s  time passes
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            20s     w1: L1 EXTENDED until 40s
            30s     w1: L1 EXTENDED until 40s
            40s     L1 of a timed out; a is QUEUED (attempts 1, losses 1)
            41s     a worker of a was slow, not lost
            41s     w1: L1 CANCELLED (expired)
            42s     L2 of a to w1 until 72s, attempt 2
            72s     L2 of a expired; a is DEAD: E.WORKER.LOST its worker was lost, and no attempt is left (attempts 2, losses 1)
        "#]],
    );
}

#[test]
fn a_report_after_the_timeout_is_cancelled_before_the_sweep_has_come() {
    check(
        "
          0s  submit a timeout=10s attempts=1
          0s  w1 takes 1
          0s  ticks wait
         10s  w1 completes L1
         11s  w1 completes L1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 10s
            10s     L1 of a timed out; a is FAILED: E.TIMEOUT the attempt took longer than its timeout (attempts 1, losses 1)
            10s     w1: L1 CANCELLED (expired); FAILED
            11s     loading a
            11s     w1: L1 CANCELLED (expired); FAILED
        "#]],
    );
}

#[test]
fn a_worker_that_is_heard_of_after_a_timeout_was_slow_and_not_lost() {
    check(
        "
          0s  submit a timeout=2s attempts=4 backoff=0s
          0s  w1 takes 1
          3s  w1 beats L1
          4s  w1 takes 1
          7s  w1 completes L2
          8s  w1 takes 1
         11s  w1 beats L3
         12s  w1 takes 1
         15s  w1 beats L4
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 2s
            2s      L1 of a timed out; a is QUEUED (attempts 1, losses 1)
            3s      a worker of a was slow, not lost
            3s      w1: L1 CANCELLED (expired)
            4s      L2 of a to w1 until 6s, attempt 2
            6s      L2 of a timed out; a is QUEUED (attempts 2, losses 1)
            7s      a worker of a was slow, not lost
            7s      w1: L2 CANCELLED (expired); QUEUED
            8s      L3 of a to w1 until 10s, attempt 3
            10s     L3 of a timed out; a is QUEUED (attempts 3, losses 1)
            11s     a worker of a was slow, not lost
            11s     w1: L3 CANCELLED (expired)
            12s     L4 of a to w1 until 14s, attempt 4
            14s     L4 of a timed out; a is DEAD: E.TIMEOUT the attempt took longer than its timeout (attempts 4, losses 1)
            15s     loading a
            15s     w1: L4 CANCELLED (expired)
        "#]],
    );
}

#[test]
fn a_timeout_in_silence_is_a_lost_worker_too() {
    // Else a task that kills its workers would never be taken for poison if its timeout is short.
    check(
        "
          0s  submit a timeout=1s attempts=9 backoff=0s
          0s  w1 takes 1
          2s  w1 takes 1
          4s  w1 takes 1
          6s  w1 takes 1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 1s
            1s      L1 of a timed out; a is QUEUED (attempts 1, losses 1)
            2s      L2 of a to w1 until 3s, attempt 2
            3s      L2 of a timed out; a is QUEUED (attempts 2, losses 2)
            4s      L3 of a to w1 until 5s, attempt 3
            5s      L3 of a timed out; a is DEAD: E.WORKER.LOST 3 workers in a row were lost while they held this task (attempts 3, losses 3)
            6s      w1 gets nothing
        "#]],
    );
}

// ----- not before

#[test]
fn a_task_does_not_start_before_its_moment() {
    check(
        "
          0s  submit a after=10s + past after=0s
          9s  w1 takes 2
         10s  w1 takes 2
         11s  w1 takes 2
        ",
        expect![[r#"
            0s      a is WAITING until 10s
            0s      past is QUEUED
            9s      L1 of past to w1 until 39s
            10s     w1 gets nothing
            11s     L2 of a to w1 until 41s
        "#]],
    );
}

// ----- backoff

#[test]
fn the_backoff_doubles_up_to_its_limit() {
    // The jitter spreads a pause over its upper half, so the bounds tell the pauses apart.
    let pauses_s = [8, 16, 32, 40, 40];
    for (failures, pause_s) in pauses_s.into_iter().enumerate() {
        let pause = pause_after(failures, "backoff=8s backoff_max=40s", 12_345);
        let (least, most) = (Duration::from_secs(pause_s / 2), Duration::from_secs(pause_s));
        assert!((least..=most).contains(&pause), "failure {failures}: {pause:?}");
    }
}

proptest! {
    #[test]
    fn the_jitter_stays_within_the_upper_half_of_the_pause(dice: u64) {
        let pause = pause_after(0, "backoff=10s", dice);
        prop_assert!((Duration::from_secs(5)..=Duration::from_secs(10)).contains(&pause));
    }
}

#[test]
fn tasks_that_failed_together_do_not_come_back_together() {
    let world = World::after(
        "
         0s  submit a + b + c + d + e + f
         0s  w1 takes 9
         1s  w1 fails L1,L2,L3,L4,L5,L6
        ",
    );
    let mut moments: Vec<_> = ["a", "b", "c", "d", "e", "f"]
        .iter()
        .map(|name| match &world.kept.get(world.task(name)).expect("it exists").progress.state {
            TaskState::Waiting { until, why: WaitReason::Backoff } => *until,
            state => panic!("{name} waits for its retry: {state:?}"),
        })
        .collect();
    moments.sort();
    moments.dedup();
    assert!(moments.len() >= 5, "{moments:?}");
}

// ----- stopping and watching

#[test]
fn a_user_stops_a_task_that_waits_is_queued_or_runs() {
    check(
        "
          0s  submit waiting after=10s + queued prio=-1 + running
          0s  w1 takes 1
          1s  stop waiting
          1s  stop queued
          1s  stop running
          2s  w1 takes 9
         20s  w1 takes 9
        ",
        expect![[r#"
            0s      waiting is WAITING until 10s
            0s      queued is QUEUED
            0s      running is QUEUED
            0s      L1 of running to w1 until 30s
            1s      waiting is STOPPED
            1s      stop waiting: done
            1s      queued is STOPPED
            1s      stop queued: done
            1s      L1 of running was stopped; running is STOPPED
            1s      stop running: done
            2s      w1 gets nothing
            20s     w1 gets nothing
        "#]],
    );
}

#[test]
fn a_task_is_stopped_once() {
    check(
        "
          0s  submit a
          1s  stop a
          2s  stop a
          2s  stop nobody
        ",
        expect![[r#"
            0s      a is QUEUED
            1s      a is STOPPED
            1s      stop a: done
            2s      stop a: not live
            2s      stop nobody: not live
        "#]],
    );
}

#[test]
fn a_stopped_task_can_be_requeued() {
    check(
        "
          0s  submit a
          0s  w1 takes 1
          1s  stop a
          2s  requeue a
          3s  w1 takes 1
          4s  w1 completes L2
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            1s      L1 of a was stopped; a is STOPPED
            1s      stop a: done
            2s      loading a
            2s      a is QUEUED again
            2s      requeue a: done
            3s      L2 of a to w1 until 33s
            4s      a is COMPLETED with 1
            4s      w1: L2 COMMITTED; COMPLETED
        "#]],
    );
}

#[test]
fn a_watch_is_answered_when_the_task_settles() {
    check(
        "
          0s  submit a + b + c
          0s  w1 takes 2
          0s  watch a 60s
          0s  watch a 50s
          0s  watch b 60s
          0s  watch c 60s
          1s  w1 completes L1
          2s  w1 fails L2 fatal
          3s  stop c
          4s  watch a 60s
         90s  time passes
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      c is QUEUED
            0s      L1 of a to w1 until 30s
            0s      L2 of b to w1 until 30s
            1s      a is COMPLETED with 1
            1s      watch a 60s: ended
            1s      watch a 50s: ended
            1s      w1: L1 COMMITTED; COMPLETED
            2s      b is FAILED: E.TEST boom (attempts 1, losses 0)
            2s      watch b 60s: ended
            2s      w1: L2 COMMITTED; FAILED
            3s      c is STOPPED
            3s      watch c 60s: ended
            3s      stop c: done
            4s      watch a 60s: not live
        "#]],
    );
}

#[test]
fn a_watch_ends_with_its_time() {
    check(
        "
          0s  submit a
          1s  watch a 1s
          1s  watch a 10s
          1s  watch nobody 10s
         30s  time passes
        ",
        expect![[r#"
            0s      a is QUEUED
            1s      watch a 1s: ended
            1s      watch nobody 10s: not live
            10s     watch a 10s: ended
        "#]],
    );
}

#[test]
fn a_watcher_that_goes_away_is_not_answered() {
    check(
        "
          0s  submit a
          1s  watch a 10s
          2s  unwatch
          3s  stop a
         30s  time passes
        ",
        expect![[r#"
            0s      a is QUEUED
            3s      a is STOPPED
            3s      stop a: done
        "#]],
    );
}

/// The pause after so many failures before this one.
fn pause_after(failures: usize, options: &str, dice: u64) -> Duration {
    let attempt = |number: usize| {
        let hour = number + 2;
        format!("{hour}h w1 takes 1\n{hour}h w1 fails L{}\n", number + 1)
    };
    let attempts: String = (0..=failures).map(attempt).collect();
    let submit = format!("0s dice {dice}\n0s submit a attempts=9 {options}\n");
    let world = World::after(&(submit + &attempts));
    let failed_at = START.after(Duration::from_secs(3600 * (failures as u64 + 2)));
    match &world.kept.get(world.task("a")).expect("it exists").progress.state {
        TaskState::Waiting { until, why: WaitReason::Backoff } => until.since(failed_at),
        state => panic!("it waits for its retry: {state:?}"),
    }
}
