//! Tasks that keep together: by a key, and by the run and the package that they belong to.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::runs::world::{World, workflow};
use crate::story::check;

#[test]
fn the_first_grant_binds_a_sticky_key() {
    check(
        "
          0s  submit a stick=k + b stick=k + c
          0s  w1 takes 1
          0s  w2 takes 5
          1s  explain b
          2s  w1 takes 5
          3s  submit d stick=k
          4s  w2 takes 5
          5s  w1 takes 5
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      c is QUEUED
            0s      L1 of a to w1 until 30s
            0s      L2 of c to w2 until 30s
            1s      explain b: QUEUED, attempts 0: it needs affinity `k` of w1, which is busy
            2s      L3 of b to w1 until 32s
            3s      d is QUEUED
            4s      w2 gets nothing
            5s      L4 of d to w1 until 35s
        "#]],
    );
}

#[test]
fn a_sticky_task_goes_to_its_worker_when_that_waits() {
    check(
        "
          0s  submit a stick=k
          0s  w1 takes 1
          0s  w2 takes 1 waits 60s
          1s  w1 completes L1
          2s  w1 takes 1 waits 60s
          3s  submit b stick=k
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            1s      a is COMPLETED with 1
            1s      w1: L1 COMMITTED; COMPLETED
            3s      b is QUEUED
            3s      L2 of b to w1 until 33s
        "#]],
    );
}

#[test]
fn when_its_worker_is_lost_the_next_grant_binds_the_key_anew() {
    check(
        "
          0s  submit a stick=k + b stick=k + c stick=k
          0s  w1 takes 1
          0s  w2 takes 1 waits 300s
         10s  explain b
         40s  w3 takes 5
         41s  w1 takes 5
         42s  w2 takes 5
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      c is QUEUED
            0s      L1 of a to w1 until 30s
            10s     explain b: QUEUED, attempts 0: it needs affinity `k` of w1, which is busy
            30s     L1 of a expired; a is QUEUED (attempts 1, losses 1)
            35s     L2 of a to w2 until 65s, attempt 2
            40s     w3 gets nothing
            41s     w1 gets nothing
            42s     L3 of b to w2 until 72s
            42s     L4 of c to w2 until 72s
        "#]],
    );
}

#[test]
fn a_worker_that_leaves_sets_its_keys_free() {
    check(
        "
          0s  submit a stick=k + b stick=k
          0s  w1 takes 1
          1s  w1 completes L1
          2s  w2 takes 1 waits 60s
          3s  w1 unregisters
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      L1 of a to w1 until 30s
            1s      a is COMPLETED with 1
            1s      w1: L1 COMMITTED; COMPLETED
            3s      L2 of b to w2 until 33s
            3s      w1 unregisters: it is forgotten
        "#]],
    );
}

#[test]
fn a_key_is_forgotten_some_time_after_its_last_task() {
    check(
        "
          0s  submit a stick=k:10s
          0s  w1 takes 1
          5s  w1 completes L1
         14s  submit b stick=k:10s
         14s  w2 takes 1
         14s  w1 takes 1
         15s  w1 completes L2
         25s  submit c stick=k:10s
         25s  w2 takes 1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            5s      a is COMPLETED with 1
            5s      w1: L1 COMMITTED; COMPLETED
            14s     b is QUEUED
            14s     w2 gets nothing
            14s     L2 of b to w1 until 44s
            15s     b is COMPLETED with 1
            15s     w1: L2 COMMITTED; COMPLETED
            25s     c is QUEUED
            25s     L3 of c to w2 until 55s
        "#]],
    );
}

#[test]
fn after_a_restart_a_sticky_task_finds_its_worker() {
    check(
        "
          0s  submit a stick=k + b stick=k + c stick=j attempts=5
          0s  w1 takes 1
          0s  w2 takes 1
          1s  w2 fails L2
          2s  restart
          3s  w3 takes 5
          4s  explain b
          5s  w1 takes 5
          6s  w2 takes 5
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      c is QUEUED
            0s      L1 of a to w1 until 30s
            0s      L2 of c to w2 until 30s
            1s      L2 of c failed (boom); c is RETRYING until 1.81s (attempts 1, losses 0)
            1s      w2: L2 COMMITTED; RETRYING
            2s      restarted with 3 live tasks
            3s      w3 gets nothing
            4s      explain b: QUEUED, attempts 0: it needs affinity `k` of w1, which is busy
            5s      L3 of b to w1 until 35s
            6s      L4 of c to w2 until 36s, attempt 2
        "#]],
    );
}

#[test]
fn after_a_restart_a_worker_that_does_not_come_back_loses_its_keys() {
    check(
        "
          0s  submit a stick=j attempts=5
          0s  w1 takes 1
          1s  w1 fails L1
         20s  restart
         20s  w3 takes 5 waits 100s
         50s  explain a
         60s  time passes
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            1s      L1 of a failed (boom); a is RETRYING until 1.855s (attempts 1, losses 0)
            1s      w1: L1 COMMITTED; RETRYING
            20s     restarted with 1 live tasks
            50s     explain a: QUEUED, attempts 1: it needs affinity `j` of w1, which is busy
            55s     L2 of a to w3 until 85s, attempt 2
        "#]],
    );
}

#[test]
fn a_sticky_key_and_a_concurrency_key_get_along() {
    check(
        "
          0s  submit a stick=k ckey=c + b stick=k ckey=c + d stick=k
          0s  w1 takes 1
          1s  w2 takes 5
          2s  w1 completes L1
          3s  w2 takes 5
          4s  w1 takes 5
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      d is QUEUED
            0s      L1 of a to w1 until 30s
            1s      w2 gets nothing
            2s      a is COMPLETED with 1
            2s      w1: L1 COMMITTED; COMPLETED
            3s      w2 gets nothing
            4s      L2 of b to w1 until 34s
            4s      L3 of d to w1 until 34s
        "#]],
    );
}

#[test]
fn a_preferred_key_only_chooses_among_those_who_ask() {
    check(
        "
          0s  submit a like=k
          0s  w2 takes 1
          1s  w1 takes 1 waits 60s
          1s  w2 takes 1 waits 60s
          1s  w3 takes 1 waits 60s
          2s  submit b like=k
          3s  submit c like=k
          4s  w2 takes 1 waits 60s
          5s  submit d like=k
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w2 until 30s
            2s      b is QUEUED
            2s      L2 of b to w2 until 32s
            3s      c is QUEUED
            3s      L3 of c to w1 until 33s
            5s      d is QUEUED
            5s      L4 of d to w3 until 35s
        "#]],
    );
}

// ----- runs

#[expect(clippy::needless_pass_by_value, reason = "stories read better so")]
fn check_run(workflow: Value, story: &str, expected: Expect) {
    expected.assert_eq(&World::new(&workflow).play(story));
}

/// Three nodes that wait for nobody, and one behind each.
fn six_nodes() -> Value {
    let other = json!({ "type": "other" });
    let nodes = [
        ("a", json!({})),
        ("b", json!({})),
        ("c", other.clone()),
        ("d", json!({})),
        ("e", json!({})),
        ("f", other),
    ];
    workflow(&nodes, &[("a", "d"), ("b", "e"), ("c", "f")])
}

#[test]
fn a_run_prefers_the_worker_that_has_its_work() {
    check_run(
        six_nodes(),
        "
        start
        w1 takes 1
        w2 takes 1
        w1 waits 1
        w2 waits 1
        w3 waits 1
        bindings
        w2 completes b
        w1 completes a
        bindings
        ",
        expect![[r#"
            0s   a is ready, given {}
            0s   b is ready, given {}
            0s   c is ready, given {}
            0s   a runs on w1, attempt 1
            0s   b runs on w2, attempt 1
            0s   c runs on w1, attempt 1
            0s   bindings: [other to w1 since 0s, t to w2 since 0s]
            0s   b is completed
            0s   e is ready, given {}
            0s   e runs on w2, attempt 1
            0s   a is completed
            0s   d is ready, given {}
            0s   d runs on w3, attempt 1
            0s   bindings: [other to w1 since 0s, t to w3 since 0s]
        "#]],
    );
}

#[test]
fn bindings_are_found_again_after_a_restart() {
    check_run(
        six_nodes(),
        "
        start
        w1 takes 2
        w2 takes 1
        w1 completes a
        restart
        bindings
        w3 waits 1
        w1 waits 1
        w1 completes b
        ",
        expect![[r#"
            0s   a is ready, given {}
            0s   b is ready, given {}
            0s   c is ready, given {}
            0s   a runs on w1, attempt 1
            0s   b runs on w1, attempt 1
            0s   c runs on w2, attempt 1
            0s   a is completed
            0s   d is ready, given {}
            -- restart
            0s   bindings: [other to w2 since 0s, t to w1 since 0s]
            0s   d runs on w3, attempt 1
            0s   b is completed
            0s   e is ready, given {}
            0s   e runs on w1, attempt 1
        "#]],
    );
}

#[test]
fn what_people_moved_is_found_again_after_a_restart() {
    check_run(
        six_nodes(),
        "
        start
        w1 takes 2
        w2 takes 1
        w3 takes 1
        wait 1
        move t w3
        wait 1
        restart
        bindings
        w1 waits 1
        w3 waits 1
        w1 completes a
        ",
        expect![[r#"
            0s   a is ready, given {}
            0s   b is ready, given {}
            0s   c is ready, given {}
            0s   a runs on w1, attempt 1
            0s   b runs on w1, attempt 1
            0s   c runs on w2, attempt 1
            0s   w3 gets nothing
            1s   move t w3: [other to w2 since 0s, t to w3 since 1s]
            -- restart
            2s   bindings: [other to w2 since 0s, t to w3 since 1s]
            2s   a is completed
            2s   d is ready, given {}
            2s   d runs on w3, attempt 1
        "#]],
    );
}

#[test]
fn a_run_that_was_drained_of_its_worker_stays_so_after_restarts() {
    check_run(
        six_nodes(),
        "
        start
        w1 takes 2
        w2 takes 1
        wait 1
        drain t
        wait 1
        w1 completes a
        restart
        bindings
        w1 takes 5
        w2 takes 1
        restart
        bindings
        w1 completes b
        w1 takes 5
        move t w1
        restart
        w1 takes 5
        ",
        expect![[r#"
            0s   a is ready, given {}
            0s   b is ready, given {}
            0s   c is ready, given {}
            0s   a runs on w1, attempt 1
            0s   b runs on w1, attempt 1
            0s   c runs on w2, attempt 1
            1s   drain t: [other to w2 since 0s]
            2s   a is completed
            2s   d is ready, given {}
            -- restart
            2s   bindings: [other to w2 since 0s]
            2s   w1 gets nothing
            2s   d runs on w2, attempt 1
            -- restart
            2s   bindings: [other to w2 since 0s, t to w2 since 2s]
            2s   b is completed
            2s   e is ready, given {}
            2s   w1 gets nothing
            2s   move t w1: [other to w2 since 0s, t to w1 since 2s]
            -- restart
            2s   e runs on w1, attempt 1
        "#]],
    );
}

#[test]
fn moved_work_goes_to_the_other_worker_and_to_the_old_one_only_if_nobody_else_asks() {
    check_run(
        six_nodes(),
        "
        start
        w1 takes 2
        w2 takes 1
        w3 takes 1
        move t w3
        bindings
        w1 completes a
        w1 takes 1
        bindings
        w1 waits 1
        w2 waits 1
        w1 completes b
        ",
        expect![[r#"
            0s   a is ready, given {}
            0s   b is ready, given {}
            0s   c is ready, given {}
            0s   a runs on w1, attempt 1
            0s   b runs on w1, attempt 1
            0s   c runs on w2, attempt 1
            0s   w3 gets nothing
            0s   move t w3: [other to w2 since 0s, t to w3 since 0s]
            0s   bindings: [other to w2 since 0s, t to w3 since 0s]
            0s   a is completed
            0s   d is ready, given {}
            0s   d runs on w1, attempt 1
            0s   bindings: [other to w2 since 0s, t to w3 since 0s]
            0s   b is completed
            0s   e is ready, given {}
            0s   e runs on w2, attempt 1
        "#]],
    );
}

#[test]
fn a_drained_worker_gets_nothing_more_of_the_run() {
    check_run(
        six_nodes(),
        "
        start
        w1 takes 2
        w2 takes 1
        drain t
        bindings
        w1 completes a
        w1 takes 5
        w1 waits 5
        w2 takes 1
        w1 completes b
        w3 waits 5
        move t w1
        w2 completes c
        ",
        expect![[r#"
            0s   a is ready, given {}
            0s   b is ready, given {}
            0s   c is ready, given {}
            0s   a runs on w1, attempt 1
            0s   b runs on w1, attempt 1
            0s   c runs on w2, attempt 1
            0s   drain t: [other to w2 since 0s]
            0s   bindings: [other to w2 since 0s]
            0s   a is completed
            0s   d is ready, given {}
            0s   w1 gets nothing
            0s   d runs on w2, attempt 1
            0s   b is completed
            0s   e is ready, given {}
            0s   e runs on w3, attempt 1
            0s   move t w1: [other to w2 since 0s, t to w1 since 0s]
            0s   c is completed
            0s   f is ready, given {}
            0s   f runs on w1, attempt 1
        "#]],
    );
}

#[test]
fn what_waits_is_served_when_a_run_is_drained_of_its_worker_and_ends_with_the_run() {
    check_run(
        six_nodes(),
        "
        start
        w1 takes 1
        drain all
        w1 waits 5
        w2 takes 1
        cancel
        bindings
        ",
        expect![[r#"
            0s   a is ready, given {}
            0s   b is ready, given {}
            0s   c is ready, given {}
            0s   a runs on w1, attempt 1
            0s   drain all: []
            0s   b runs on w2, attempt 1
            0s   RUN cancelled: ada stopped it (E.RUN.CANCELLED)
            0s   a is stopped
            0s   b is stopped
            0s   c is stopped
            0s   bindings: not live
        "#]],
    );
}

#[test]
fn a_rebind_that_makes_no_sense_is_refused() {
    check_run(
        six_nodes(),
        "
        start
        move all
        drain t
        move t nobody
        w1 takes 1
        move t w9
        drain other
        cancel
        move t
        ",
        expect![[r#"
            0s   a is ready, given {}
            0s   b is ready, given {}
            0s   c is ready, given {}
            0s   move all: refused, NotBound
            0s   drain t: refused, NotBound
            0s   move t nobody: refused, UnknownWorker { worker: WorkerId("nobody") }
            0s   a runs on w1, attempt 1
            0s   move t w9: refused, UnknownWorker { worker: WorkerId("w9") }
            0s   drain other: refused, NotBound
            0s   RUN cancelled: ada stopped it (E.RUN.CANCELLED)
            0s   a is stopped
            0s   b is stopped
            0s   c is stopped
            0s   move t: refused, UnknownRun
        "#]],
    );
}

#[test]
fn a_resource_pins_a_node_and_two_workers_fail_it() {
    let held = |worker: &str| json!({ "resourceRef": { "resourceId": "r", "workerName": worker } });
    let nodes = [
        ("a", json!({ "parameters": { "page": held("w2") } })),
        (
            "b",
            json!({ "parameters": { "x": held("w1"), "y": [held("w2")] }, "onError": "continue" }),
        ),
    ];
    check_run(
        workflow(&nodes, &[]),
        "
        start
        w1 takes 5
        w2 takes 5
        ",
        expect![[r#"
            0s   b ended: failed, resource r is on worker w1, but resource r is on worker w2
            0s   a is ready, given {"page":{"resourceRef":{"resourceId":"r","workerName":"w2"}}}
            0s   w1 gets nothing
            0s   a runs on w2, attempt 1
        "#]],
    );
}

#[test]
fn a_sticky_key_of_a_run_outlives_a_restart() {
    let sticky = || json!({ "affinity": { "mode": "sticky", "key": "s-{{ run.inputs.n }}" } });
    check_run(
        workflow(&[("a", sticky()), ("b", sticky())], &[("a", "b")]),
        "
        start {\"n\":7}
        w1 takes 1
        w1 completes a
        restart
        w2 takes 1
        w1 takes 1
        ",
        expect![[r#"
            0s   a is ready, given {}
            0s   a runs on w1, attempt 1
            0s   a is completed
            0s   b is ready, given {}
            -- restart
            0s   w2 gets nothing
            0s   b runs on w1, attempt 1
        "#]],
    );
}
