//! How a run goes on: what an end sets free, and calls that arrive twice.

use expect_test::expect;
use serde_json::json;

use super::world::workflow;
use super::{check, middlewares, none};

#[test]
#[expect(clippy::too_many_lines, reason = "one story")]
fn a_node_that_ends_sets_free_those_that_waited_for_nothing_else_and_each_once() {
    let reads_a = json!({ "parameters": { "n": "{{ nodes.a.results.n }}" } });
    let nodes = [
        ("a", none()),
        ("x", none()),
        ("b", none()),
        // Two edges and an expression bind it to the same node: one dependency.
        ("c", reads_a),
        ("d", none()),
        ("e", none()),
        ("skipped", json!({ "when": "false" })),
        ("f", none()),
        ("last", none()),
    ];
    let edges = [
        ("a", "b"),
        ("a", "c"),
        ("a", "c"),
        ("b", "d"),
        ("c", "d"),
        ("a", "e"),
        ("x", "e"),
        ("x", "skipped"),
        ("skipped", "f"),
        ("b", "f"),
        ("d", "last"),
        ("e", "last"),
        ("f", "last"),
    ];
    check(
        workflow(&nodes, &edges),
        "
        start
        w takes 9
        w completes a {\"n\":1}
        w takes 9
        w completes c
        restart
        w completes x
        w takes 9
        w completes b
        restart
        w takes 9
        w completes e
        w completes f
        w completes d
        w takes 9
        w completes last
        ",
        expect![[r#"
            0s   a is ready, given {}
            0s   x is ready, given {}
            0s   a runs, attempt 1
            0s   x runs, attempt 1
            0s   a is completed
            0s   b is ready, given {}
            0s   c is ready, given {"n":1}
            0s   b runs, attempt 1
            0s   c runs, attempt 1
            0s   c is completed
            -- restart
            0s   skipped ended: skipped, its condition `false` says no
            0s   x is completed
            0s   e is ready, given {}
            0s   e runs, attempt 1
            0s   b is completed
            0s   d is ready, given {}
            0s   f is ready, given {}
            -- restart
            0s   d runs, attempt 1
            0s   f runs, attempt 1
            0s   e is completed
            0s   f is completed
            0s   d is completed
            0s   last is ready, given {}
            0s   last runs, attempt 1
            0s   RUN succeeded with {"last":{}}
            0s   last is completed
        "#]],
    );
}

#[test]
fn a_call_that_arrives_twice_is_answered_once_and_its_caller_keeps_its_lease() {
    let nodes = [("host", json!({ "middlewares": middlewares(1) }))];
    check(
        workflow(&nodes, &[]),
        "
        start
        w takes 9
        w calls next from host~0 as r1
        w calls next from host~0 as r1
        w takes 9
        w completes host {\"x\":7}
        w completes host~0
        ",
        expect![[r#"
            0s   host~0 is ready, given {"own":0}
            0s   host~0 runs, attempt 1, in a chain of 1
            0s   host is ready, given {}
            0s   host~0 called next as r1: asked again
            0s   host runs, attempt 1, in a chain of 1
            0s   host is completed
            0s   host~0 called next as r1: {"x":7}
            0s   host ended: succeeded {"x":7}
            0s   RUN succeeded with {"host":{"x":7}}
            0s   host~0 is completed
        "#]],
    );
}
