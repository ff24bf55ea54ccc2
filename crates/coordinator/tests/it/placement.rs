//! Who gets what, and in which order.

use expect_test::expect;

use crate::story::check;

#[test]
fn a_task_goes_only_to_a_worker_that_offers_all_it_demands() {
    check(
        "
        0s  submit a type=ocr queue=slow needs=tool:tesseract,tool:convert,tag:gpu=yes,package:ocr@1.2
        0s  w1 takes 1
        0s  w2 takes 1 offers tool:tesseract,tag:gpu=yes,package:ocr@1.2
        0s  w3 takes 1 offers tool:tesseract,tool:convert,tag:gpu=no,package:ocr@1.2
        0s  w4 takes 1 offers tool:tesseract,tool:convert,tag:gpu=yes,package:ocr@1.3
        0s  w5 takes 1 offers tool:tesseract,tool:convert,tag:gpu=yes,package:ocr@1.2 types=noop
        0s  w6 takes 1 offers tool:tesseract,tool:convert,tag:gpu=yes,package:ocr@1.2 queues=default
        0s  w7 takes 1 offers tool:tesseract,tool:convert,tool:more,tag:gpu=yes,package:ocr@1.2 types=noop,ocr queues=slow
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      w1 gets nothing
            0s      w2 gets nothing
            0s      w3 gets nothing
            0s      w4 gets nothing
            0s      w5 gets nothing
            0s      w6 gets nothing
            0s      L1 of a to w7 until 30s
        "#]],
    );
}

#[test]
fn a_worker_that_does_not_say_its_tools_is_offered_every_tool_but_nothing_else() {
    check(
        "
        0s  submit a needs=tool:jq,tool:sort + b needs=tool:jq,tag:gpu=yes
        0s  w1 takes 2 offers tool:any
        0s  explain b
        1s  w2 takes 1 waits 9s offers tool:any,tag:gpu=no types=noop
        2s  submit c type=noop needs=tool:ffmpeg
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      L1 of a to w1 until 30s
            0s      explain b: QUEUED, attempts 0: 1 lack tag gpu=yes
            2s      c is QUEUED
            2s      L2 of c to w2 until 32s
        "#]],
    );
}

#[test]
fn a_waiting_request_is_served_only_with_what_it_can_do() {
    check(
        "
        0s  w1 takes 5 waits 10s offers types=a
        0s  w2 takes 5 waits 10s offers types=b
        1s  submit c type=c + b type=b
        2s  submit a type=a
        3s  w3 takes 5
        ",
        expect![[r#"
            1s      c is QUEUED
            1s      b is QUEUED
            1s      L1 of b to w2 until 31s
            2s      a is QUEUED
            2s      L2 of a to w1 until 32s
            3s      L3 of c to w3 until 33s
        "#]],
    );
}

#[test]
fn higher_priority_goes_first_then_age() {
    check(
        "
        0s  submit a + low prio=-5 + high prio=5 + b + top prio=1000
        1s  w1 takes 2
        2s  submit late prio=5
        3s  w1 takes 9
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      low is QUEUED
            0s      high is QUEUED
            0s      b is QUEUED
            0s      top is QUEUED
            1s      L1 of top to w1 until 31s
            1s      L2 of high to w1 until 31s
            2s      late is QUEUED
            3s      L3 of late to w1 until 33s
            3s      L4 of a to w1 until 33s
            3s      L5 of b to w1 until 33s
            3s      L6 of low to w1 until 33s
        "#]],
    );
}

#[test]
fn priority_counts_across_different_demands() {
    check(
        "
        0s  submit a type=x + b type=y prio=1 + c type=z
        1s  w1 takes 3
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      c is QUEUED
            1s      L1 of b to w1 until 31s
            1s      L2 of a to w1 until 31s
            1s      L3 of c to w1 until 31s
        "#]],
    );
}

#[test]
fn a_task_that_comes_back_keeps_its_age() {
    check(
        "
         0s  submit a
         0s  w1 takes 1
         1s  submit b
        31s  w2 takes 2
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            1s      b is QUEUED
            30s     L1 of a expired; a is QUEUED (attempts 1, losses 1)
            31s     L2 of a to w2 until 61s, attempt 2
            31s     L3 of b to w2 until 61s
        "#]],
    );
}

#[test]
fn a_long_poll_is_answered_by_the_first_task() {
    check(
        "
         0s  w1 takes 2 waits 10s
         5s  submit a + b + c
         6s  w1 takes 2
        ",
        expect![[r#"
            5s      a is QUEUED
            5s      b is QUEUED
            5s      c is QUEUED
            5s      L1 of a to w1 until 35s
            5s      L2 of b to w1 until 35s
            6s      L3 of c to w1 until 36s
        "#]],
    );
}

#[test]
fn a_long_poll_ends_empty() {
    check(
        "
         0s  w1 takes 1 waits 10s
         1s  w2 takes 1
         9s  workers
        11s  submit a
        ",
        expect![[r#"
            1s      w2 gets nothing
            9s      w1 is HEALTHY, seen at 0s, 0 in flight of 0 granted, asks
            9s      w2 is HEALTHY, seen at 1s, 0 in flight of 0 granted, does not ask
            10s     w1 gets nothing
            11s     a is QUEUED
        "#]],
    );
}

#[test]
fn the_waiting_worker_with_the_fewest_in_flight_is_served_first() {
    check(
        "
         0s  submit a + b + c
         0s  busy takes 2
         0s  half takes 1
         1s  busy takes 1 waits 20s
         1s  half takes 1 waits 20s
         1s  idle takes 1 waits 20s
         2s  submit d
         3s  submit e
         4s  submit f
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      c is QUEUED
            0s      L1 of a to busy until 30s
            0s      L2 of b to busy until 30s
            0s      L3 of c to half until 30s
            2s      d is QUEUED
            2s      L4 of d to idle until 32s
            3s      e is QUEUED
            3s      L5 of e to half until 33s
            4s      f is QUEUED
            4s      L6 of f to busy until 34s
        "#]],
    );
}

#[test]
fn of_equally_busy_workers_the_one_that_waits_longest_is_served_first() {
    check(
        "
         0s  w2 takes 1 waits 20s
         0s  w1 takes 1 waits 20s
         2s  submit a
         3s  submit b
        ",
        expect![[r#"
            2s      a is QUEUED
            2s      L1 of a to w2 until 32s
            3s      b is QUEUED
            3s      L2 of b to w1 until 33s
        "#]],
    );
}

#[test]
fn a_worker_that_goes_away_is_given_nothing() {
    check(
        "
         0s  w1 takes 1 waits 20s
         1s  w1 goes away
         2s  submit a
         3s  w2 takes 1
        30s  workers
        ",
        expect![[r#"
            2s      a is QUEUED
            3s      L1 of a to w2 until 33s
            30s     w1 is DEGRADED, seen at 0s, 0 in flight of 0 granted, does not ask
            30s     w2 is DEGRADED, seen at 3s, 1 in flight of 1 granted, does not ask
        "#]],
    );
}

#[test]
fn a_task_that_becomes_due_is_given_to_a_waiting_worker() {
    check(
        "
         0s  submit a after=5s
         0s  w1 takes 1 waits 20s
        10s  time passes
        ",
        expect![[r#"
            0s      a is WAITING until 5s
            5s      L1 of a to w1 until 35s
        "#]],
    );
}

// ----- concurrency keys

#[test]
fn a_concurrency_key_is_held_by_one_task_at_a_time() {
    check(
        "
         0s  submit a ckey=k + b ckey=k + c ckey=k + free
         0s  w1 takes 9
         1s  w2 takes 9 waits 20s
         2s  w1 completes L1
         3s  w2 takes 9 waits 20s
         4s  w2 completes L3
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      c is QUEUED
            0s      free is QUEUED
            0s      L1 of a to w1 until 30s
            0s      L2 of free to w1 until 30s
            2s      a is COMPLETED with 1
            2s      L3 of b to w2 until 32s
            2s      w1: L1 COMMITTED; COMPLETED
            4s      b is COMPLETED with 1
            4s      L4 of c to w2 until 34s
            4s      w2: L3 COMMITTED; COMPLETED
        "#]],
    );
}

#[test]
fn a_key_is_free_for_others_while_its_task_waits_for_a_retry() {
    check(
        "
         0s  submit a ckey=k backoff=10s + b ckey=k
         0s  w1 takes 9
         1s  w1 fails L1
         2s  w1 takes 9
         3s  w1 completes L2
        20s  w1 takes 9
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      L1 of a to w1 until 30s
            1s      L1 of a failed (boom); a is RETRYING until 6.988s (attempts 1, losses 0)
            1s      w1: L1 COMMITTED; RETRYING
            2s      L2 of b to w1 until 32s
            3s      b is COMPLETED with 1
            3s      w1: L2 COMMITTED; COMPLETED
            20s     L3 of a to w1 until 50s, attempt 2
        "#]],
    );
}

#[test]
fn a_key_passes_on_when_its_holder_is_stopped() {
    check(
        "
         0s  submit a ckey=k + b ckey=k + c ckey=k
         0s  w1 takes 9
         1s  stop b
         2s  stop a
         3s  w2 takes 9
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      c is QUEUED
            0s      L1 of a to w1 until 30s
            1s      b is STOPPED
            1s      stop b: done
            2s      L1 of a was stopped; a is STOPPED
            2s      stop a: done
            3s      L2 of c to w2 until 33s
        "#]],
    );
}

#[test]
fn a_key_goes_to_the_higher_priority() {
    check(
        "
         0s  submit a ckey=k + b ckey=k prio=5
         0s  w1 takes 9
         1s  submit c ckey=k prio=9
         2s  w1 completes L1
         3s  w1 takes 9
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      L1 of b to w1 until 30s
            1s      c is QUEUED
            2s      b is COMPLETED with 1
            2s      w1: L1 COMMITTED; COMPLETED
            3s      L2 of c to w1 until 33s
        "#]],
    );
}

#[test]
fn a_lost_holder_of_a_key_makes_way_for_a_higher_priority() {
    check(
        "
         0s  submit a ckey=k
         0s  w1 takes 1
         1s  submit b ckey=k prio=5
        31s  w2 takes 9
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            1s      b is QUEUED
            30s     L1 of a expired; a is QUEUED (attempts 1, losses 1)
            31s     L2 of b to w2 until 61s
        "#]],
    );
}

#[test]
fn a_lost_holder_of_a_key_keeps_its_turn_by_age() {
    check(
        "
         0s  submit a ckey=k + b ckey=k
         0s  w1 takes 1
        31s  w2 takes 9
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      L1 of a to w1 until 30s
            30s     L1 of a expired; a is QUEUED (attempts 1, losses 1)
            31s     L2 of a to w2 until 61s, attempt 2
        "#]],
    );
}

// ----- delivery

#[test]
fn a_grant_that_is_not_confirmed_is_taken_back_and_counts_as_a_loss() {
    check(
        "
         0s  submit a
         0s  w1 takes 1 confirm=5s
         6s  w2 takes 1 confirm=5s
        12s  w3 takes 1 confirm=5s
        18s  w4 takes 1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s, to confirm by 5s
            5s      L1 of a was not delivered; a is QUEUED (attempts 1, losses 1)
            6s      L2 of a to w2 until 36s, to confirm by 11s, attempt 2
            11s     L2 of a was not delivered; a is QUEUED (attempts 2, losses 2)
            12s     L3 of a to w3 until 42s, to confirm by 17s, attempt 3
            17s     L3 of a was not delivered; a is DEAD: E.DISPATCH.UNAVAILABLE no worker confirmed in time that it had received the task (attempts 3, losses 3)
            18s     w4 gets nothing
        "#]],
    );
}

#[test]
fn a_heartbeat_confirms_a_grant() {
    check(
        "
         0s  submit a
         0s  w1 takes 1 confirm=5s
         4s  w1 beats L1
        33s  w1 completes L1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s, to confirm by 5s
            4s      w1: L1 EXTENDED until 34s
            33s     a is COMPLETED with 1
            33s     w1: L1 COMMITTED; COMPLETED
        "#]],
    );
}

#[test]
fn a_report_in_time_needs_no_other_confirmation() {
    check(
        "
         0s  submit a
         0s  w1 takes 1 confirm=5s
         4s  w1 completes L1
         9s  time passes
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s, to confirm by 5s
            4s      a is COMPLETED with 1
            4s      w1: L1 COMMITTED; COMPLETED
        "#]],
    );
}

#[test]
fn a_returned_grant_gives_the_attempt_back_but_not_the_epoch() {
    check(
        "
         0s  submit a attempts=1
         0s  w1 takes 1
         0s  returned L1
         1s  w2 takes 1
         2s  w1 completes L1
         3s  returned L1
         4s  w2 completes L2
         5s  returned L2
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            0s      L1 of a was not delivered; a is QUEUED (attempts 0, losses 0)
            1s      L2 of a to w2 until 31s
            2s      w1: L1 CANCELLED (superseded); RUNNING
            4s      a is COMPLETED with 1
            4s      w2: L2 COMMITTED; COMPLETED
        "#]],
    );
}

#[test]
fn a_returned_grant_goes_to_another_waiting_worker_at_once() {
    check(
        "
         0s  submit a
         0s  w1 takes 1
         0s  w2 takes 1 waits 20s
         1s  returned L1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            1s      L1 of a was not delivered; a is QUEUED (attempts 0, losses 0)
            1s      L2 of a to w2 until 31s
        "#]],
    );
}
