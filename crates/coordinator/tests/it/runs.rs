//! Runs: whose turn it is, what flows, and how it ends.

mod facts;
mod progress;
mod restarts;
pub(crate) mod world;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use world::{World, id, workflow};

#[expect(clippy::needless_pass_by_value, reason = "stories read better so")]
fn check(workflow: Value, story: &str, expected: Expect) {
    expected.assert_eq(&World::new(&workflow).play(story));
}

fn none() -> Value {
    json!({})
}

#[test]
fn a_node_begins_when_all_before_it_have_ended() {
    let nodes = [("a", none()), ("b", none()), ("c", none()), ("d", none())];
    check(
        workflow(&nodes, &[("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]),
        "
        start
        w takes 9
        w completes a
        w takes 9
        w completes c
        w takes 9
        w completes b
        w takes 9
        w completes d {\"x\":1}
        ",
        expect![[r#"
            0s   a is ready, given {}
            0s   a runs, attempt 1
            0s   a is completed
            0s   b is ready, given {}
            0s   c is ready, given {}
            0s   b runs, attempt 1
            0s   c runs, attempt 1
            0s   c is completed
            0s   b is completed
            0s   d is ready, given {}
            0s   d runs, attempt 1
            0s   RUN succeeded with {"d":{"x":1}}
            0s   d is completed
        "#]],
    );
}

#[test]
fn data_flows_by_expressions_with_its_type() {
    let nodes = [
        ("a", none()),
        (
            "b",
            json!({ "parameters": {
                "n": "{{ nodes.a.results.n }}", "text": "n is {{ nodes.a.results.n + 1 }}",
                "plain": [1, {"x": null}], "who": "{{ run.inputs.who }}"
            } }),
        ),
    ];
    check(
        workflow(&nodes, &[]),
        "
        start {\"who\":\"ada\"}
        w takes 9
        w completes a {\"n\":41}
        w takes 9
        w completes b {\"ok\":true}
        ",
        expect![[r#"
            0s   a is ready, given {}
            0s   a runs, attempt 1
            0s   a is completed
            0s   b is ready, given {"n":41,"plain":[1,{"x":null}],"text":"n is 42","who":"ada"}
            0s   b runs, attempt 1
            0s   RUN succeeded with {"b":{"ok":true}}
            0s   b is completed
        "#]],
    );
}

#[test]
fn a_failure_stops_the_others_and_the_run() {
    let nodes = [("a", none()), ("b", none()), ("c", none())];
    check(
        workflow(&nodes, &[("a", "c")]),
        "
        start
        w takes 9
        w fails a
        w completes b
        ",
        expect![[r#"
            0s   a is ready, given {}
            0s   b is ready, given {}
            0s   a runs, attempt 1
            0s   b runs, attempt 1
            0s   RUN failed: it broke (E.X)
            0s   a is failed
            0s   b is stopped
        "#]],
    );
}

#[test]
fn an_error_can_be_passed_over_or_skip_what_follows() {
    let nodes = [
        ("a", json!({ "onError": "continue" })),
        (
            "b",
            json!({ "parameters": { "saw": "{{ nodes.a.status }}", "why": "{{ nodes.a.error.message }}" } }),
        ),
        ("c", json!({ "onError": "skip" })),
        ("d", none()),
        ("e", none()),
    ];
    check(
        workflow(&nodes, &[("a", "b"), ("c", "d"), ("d", "e")]),
        "
        start
        w takes 9
        w fails a
        w fails c
        w takes 9
        w completes b
        ",
        expect![[r#"
            0s   a is ready, given {}
            0s   c is ready, given {}
            0s   a runs, attempt 1
            0s   c runs, attempt 1
            0s   a is failed
            0s   b is ready, given {"saw":"failed","why":"it broke"}
            0s   d ended: skipped, `c` failed, and says that those after it are skipped
            0s   e ended: skipped, `d` was skipped because of a failure before it
            0s   c is failed
            0s   b runs, attempt 1
            0s   RUN succeeded with {"b":{}}
            0s   b is completed
        "#]],
    );
}

#[test]
fn a_failure_before_a_node_counts_more_than_a_skip() {
    let nodes = [
        ("skipped", json!({ "when": "false" })),
        ("fails", json!({ "onError": "skip" })),
        ("both", json!({ "onSkip": "skip" })),
        ("last", json!({ "onSkip": "run" })),
    ];
    check(
        workflow(&nodes, &[("skipped", "both"), ("fails", "both"), ("both", "last")]),
        "
        start
        w takes 9
        w fails fails
        ",
        expect![[r#"
            0s   skipped ended: skipped, its condition `false` says no
            0s   fails is ready, given {}
            0s   fails runs, attempt 1
            0s   both ended: skipped, `fails` failed, and says that those after it are skipped
            0s   last ended: skipped, `both` was skipped because of a failure before it
            0s   RUN succeeded with {}
            0s   fails is failed
        "#]],
    );
}

#[test]
fn a_condition_skips_a_node_and_those_that_want_it_so() {
    let nodes = [
        ("a", none()),
        ("b", json!({ "when": "nodes.a.results.n > 3" })),
        ("c", none()),
        ("d", json!({ "onSkip": "skip" })),
    ];
    check(
        workflow(&nodes, &[("b", "c"), ("b", "d")]),
        "
        start
        w takes 9
        w completes a {\"n\":2}
        w takes 9
        w completes c
        ",
        expect![[r#"
            0s   a is ready, given {}
            0s   a runs, attempt 1
            0s   b ended: skipped, its condition `nodes.a.results.n > 3` says no
            0s   d ended: skipped, `b` was skipped, and it says to be skipped then
            0s   a is completed
            0s   c is ready, given {}
            0s   c runs, attempt 1
            0s   RUN succeeded with {"c":{}}
            0s   c is completed
        "#]],
    );
}

#[test]
fn an_expression_that_cannot_be_evaluated_fails_its_node() {
    let nodes =
        [("a", none()), ("b", json!({ "parameters": { "x": "{{ nodes.a.results.y.z }}" } }))];
    check(
        workflow(&nodes, &[]),
        "
        start
        w takes 9
        w completes a {\"n\":2}
        ",
        expect![[r#"
            0s   a is ready, given {}
            0s   a runs, attempt 1
            0s   b ended: failed, parameters.x: nodes.a.results.y.z is undefined (results of "a" have: n)
            0s   RUN failed: parameters.x: nodes.a.results.y.z is undefined (results of "a" have: n) (E.FLOW.EXPRESSION)
            0s   a is completed
        "#]],
    );
}

#[test]
fn a_list_is_joined_in_order_and_so_many_run_at_a_time() {
    let map = json!({ "over": "{{ run.inputs.list }}", "maxParallel": 2 });
    let nodes = [
        ("each", json!({ "map": map, "parameters": { "is": "{{ item }}", "at": "{{ index }}" } })),
        ("sum", json!({ "parameters": { "all": "{{ nodes.each.results['items'] }}" } })),
    ];
    check(
        workflow(&nodes, &[]),
        "
        start {\"list\":[\"x\",\"y\",\"z\"]}
        w takes 9
        w completes each[1] {\"v\":11}
        w takes 9
        w completes each[2] {\"v\":12}
        w completes each[0] {\"v\":10}
        w takes 9
        w completes sum
        ",
        expect![[r#"
            0s   each[0] is ready, given {"at":0,"is":"x"}
            0s   each[1] is ready, given {"at":1,"is":"y"}
            0s   each[0] runs, attempt 1
            0s   each[1] runs, attempt 1
            0s   each[1] is completed
            0s   each[2] is ready, given {"at":2,"is":"z"}
            0s   each[2] runs, attempt 1
            0s   each[2] is completed
            0s   each ended: succeeded {"items":[{"v":10},{"v":11},{"v":12}],"count":3}
            0s   each[0] is completed
            0s   sum is ready, given {"all":[{"v":10},{"v":11},{"v":12}]}
            0s   sum runs, attempt 1
            0s   RUN succeeded with {"sum":{}}
            0s   sum is completed
        "#]],
    );
}

#[test]
fn a_list_passes_over_failures_if_told_so() {
    let map = json!({ "over": [1, 2] });
    let nodes = [("each", json!({ "map": map, "onError": "continue" }))];
    check(
        workflow(&nodes, &[]),
        "
        start
        w takes 9
        w fails each[0]
        w completes each[1] {\"v\":5}
        ",
        expect![[r#"
            0s   each[0] is ready, given {}
            0s   each[1] is ready, given {}
            0s   each[0] runs, attempt 1
            0s   each[1] runs, attempt 1
            0s   each[0] is failed
            0s   each ended: succeeded {"items":[null,{"v":5}],"count":2,"errors":[{"code":"E.X","index":0,"message":"it broke"}]}
            0s   RUN succeeded with {"each":{"count":2,"errors":[{"code":"E.X","index":0,"message":"it broke"}],"items":[null,{"v":5}]}}
            0s   each[1] is completed
        "#]],
    );
}

#[test]
fn an_empty_list_is_done_at_once() {
    let nodes = [("each", json!({ "map": { "over": [] } })), ("b", none())];
    check(
        workflow(&nodes, &[("each", "b")]),
        "
        start
        w takes 9
        w completes b
        ",
        expect![[r#"
            0s   each ended: succeeded {"items":[],"count":0}
            0s   b is ready, given {}
            0s   b runs, attempt 1
            0s   RUN succeeded with {"b":{}}
            0s   b is completed
        "#]],
    );
}

fn middlewares(n: usize) -> Value {
    let one = |place| json!({ "id": id(100 + place), "type": "m", "label": "m", "parameters": { "own": place } });
    Value::Array((0..n).map(one).collect())
}

#[test]
fn a_middleware_calls_the_next_in_line_as_often_as_it_likes() {
    let nodes = [
        ("host", json!({ "middlewares": middlewares(1), "parameters": { "p": 1 } })),
        ("b", none()),
    ];
    check(
        workflow(&nodes, &[("host", "b")]),
        "
        start
        w takes 9
        w calls next from host~0 as r1 {\"iteration\":0}
        w takes 9
        w fails host
        w calls next from host~0 as r2 {\"iteration\":1}
        w takes 9
        w completes host {\"x\":7}
        w calls next from host~0 as r2
        w completes host~0 {\"tries\":2}
        w takes 9
        w completes b
        ",
        expect![[r#"
            0s   host~0 is ready, given {"own":0}
            0s   host~0 runs, attempt 1, in a chain of 1
            0s   host is ready, given {"iteration":0,"p":1}
            0s   host runs, attempt 1, in a chain of 1
            0s   host is failed
            0s   host~0 called next as r1: it failed
            0s   host is ready, given {"iteration":1,"p":1}
            0s   host runs, attempt 1, in a chain of 1
            0s   host is completed
            0s   host~0 called next as r2: {"x":7}
            0s   host~0 called next as r2: {"x":7}
            0s   host ended: succeeded {"tries":2,"x":7}
            0s   host~0 is completed
            0s   b is ready, given {}
            0s   b runs, attempt 1
            0s   RUN succeeded with {"b":{}}
            0s   b is completed
        "#]],
    );
}

#[test]
fn two_middlewares_stand_in_line() {
    let nodes = [("host", json!({ "middlewares": middlewares(2) }))];
    check(
        workflow(&nodes, &[]),
        "
        start
        w takes 9
        w calls next from host~0 as r
        w takes 9
        w calls next from host~1 as r {\"deep\":true}
        w takes 9
        w calls next from host as r
        w completes host {\"h\":1}
        w completes host~1 {\"m1\":1,\"h\":2}
        w completes host~0 {\"m0\":1}
        ",
        expect![[r#"
            0s   host~0 is ready, given {"own":0}
            0s   host~0 runs, attempt 1, in a chain of 2
            0s   host~1 is ready, given {"own":1}
            0s   host~1 runs, attempt 1, in a chain of 2
            0s   host is ready, given {"deep":true}
            0s   host runs, attempt 1, in a chain of 2
            0s   host called next as r: next_no_chain
            0s   host is completed
            0s   host~1 called next as r: {"h":1}
            0s   host~1 is completed
            0s   host~0 called next as r: {"m1":1,"h":2}
            0s   host ended: succeeded {"h":2,"m0":1,"m1":1}
            0s   RUN succeeded with {"host":{"h":2,"m0":1,"m1":1}}
            0s   host~0 is completed
        "#]],
    );
}

#[test]
fn a_caller_that_is_tried_again_calls_anew_and_its_old_calls_are_stopped() {
    let nodes = [("host", json!({ "middlewares": middlewares(1) }))];
    check(
        workflow(&nodes, &[]),
        "
        start
        w takes 9
        w calls next from host~0 as r
        w takes 9
        w stumbles host~0
        w completes host
        wait 2
        w takes 9
        w calls next from host~0 as r
        w takes 9
        w completes host {\"x\":1}
        w completes host~0
        ",
        expect![[r#"
            0s   host~0 is ready, given {"own":0}
            0s   host~0 runs, attempt 1, in a chain of 1
            0s   host is ready, given {}
            0s   host runs, attempt 1, in a chain of 1
            0s   host~0 is tried again
            0s   host is stopped
            0s   host~0 called next as r: next_lease_over
            2s   host~0 runs, attempt 2, in a chain of 1
            2s   host is ready, given {}
            2s   host runs, attempt 1, in a chain of 1
            2s   host is completed
            2s   host~0 called next as r: {"x":1}
            2s   host ended: succeeded {"x":1}
            2s   RUN succeeded with {"host":{"x":1}}
            2s   host~0 is completed
        "#]],
    );
}

fn with_subgraph(host: Value, inner: &Value) -> Value {
    let mut outer = workflow(
        &[("box", host), ("after", json!({ "parameters": { "got": "{{ nodes.box.results }}" } }))],
        &[("box", "after")],
    );
    outer["subgraphs"] = json!([{ "id": id(500), "definition": inner }]);
    outer
}

fn inner() -> Value {
    let double = json!({ "id": id(201), "parameters": { "x": "{{ inputs.x }}" } });
    let show = json!({ "id": id(202), "parameters": { "y": "{{ nodes.double.results.y }}" } });
    let mut inner = workflow(&[("double", double), ("show", show)], &[]);
    inner["outputs"] = json!({ "y": "{{ nodes.double.results.y }}" });
    inner
}

#[test]
fn a_container_runs_its_subgraph_and_data_goes_in_and_out() {
    let host = json!({ "type": "workflow.container", "parameters": { "__container": { "subgraphId": id(500) }, "x": "{{ run.inputs.n }}" } });
    check(
        with_subgraph(host, &inner()),
        "
        start {\"n\":21}
        w takes 9
        w completes 1/double {\"y\":42}
        w takes 9
        w completes 1/show
        w takes 9
        w completes after
        ",
        expect![[r#"
            0s   frame 1 opened with {"x":21}
            0s   1/double is ready, given {"x":21}
            0s   1/double runs, attempt 1
            0s   1/double is completed
            0s   1/show is ready, given {"y":42}
            0s   1/show runs, attempt 1
            0s   frame 1 closed: succeeded {"y":42}
            0s   box ended: succeeded {"y":42}
            0s   1/show is completed
            0s   after is ready, given {"got":{"y":42}}
            0s   after runs, attempt 1
            0s   RUN succeeded with {"after":{}}
            0s   after is completed
        "#]],
    );
}

#[test]
fn a_failure_in_a_subgraph_fails_its_container_and_stops_its_other_nodes() {
    let host = json!({ "type": "workflow.container", "onError": "continue", "parameters": { "__container": { "subgraphId": id(500) } } });
    let inner =
        workflow(&[("one", json!({ "id": id(201) })), ("two", json!({ "id": id(202) }))], &[]);
    check(
        with_subgraph(host, &inner)
            .as_object()
            .map(|keys| {
                let mut keys = keys.clone();
                keys["nodes"][1]["parameters"] = json!({});
                Value::Object(keys)
            })
            .expect("an object"),
        "
        start
        w takes 9
        w fails 1/two
        w completes 1/one
        w takes 9
        w completes after
        ",
        expect![[r#"
            0s   frame 1 opened with {}
            0s   1/one is ready, given {}
            0s   1/two is ready, given {}
            0s   1/one runs, attempt 1
            0s   1/two runs, attempt 1
            0s   frame 1 closed: failed, it broke
            0s   box ended: failed, it broke
            0s   1/two is failed
            0s   1/one is stopped
            0s   after is ready, given {}
            0s   after runs, attempt 1
            0s   RUN succeeded with {"after":{}}
            0s   after is completed
        "#]],
    );
}

#[test]
fn a_middleware_loops_over_a_container_with_fresh_nodes_each_time() {
    let host = json!({
        "type": "workflow.container", "middlewares": middlewares(1),
        "parameters": { "__container": { "subgraphId": id(500) }, "x": 0 }
    });
    check(
        with_subgraph(host, &inner()),
        "
        start
        w takes 9
        w calls next from box~0 as r1 {\"x\":1}
        w takes 9
        w completes 1/double {\"y\":2}
        w takes 9
        w completes 1/show
        w calls next from box~0 as r2 {\"x\":5}
        w takes 9
        w completes 2/double {\"y\":10}
        w takes 9
        w completes 2/show
        w completes box~0 {\"times\":2}
        w takes 9
        w completes after
        ",
        expect![[r#"
            0s   box~0 is ready, given {"own":0}
            0s   box~0 runs, attempt 1, in a chain of 1
            0s   frame 1 opened with {"x":1}
            0s   1/double is ready, given {"x":1}
            0s   1/double runs, attempt 1
            0s   1/double is completed
            0s   1/show is ready, given {"y":2}
            0s   1/show runs, attempt 1
            0s   frame 1 closed: succeeded {"y":2}
            0s   1/show is completed
            0s   box~0 called next as r1: {"y":2}
            0s   frame 2 opened with {"x":5}
            0s   2/double is ready, given {"x":5}
            0s   2/double runs, attempt 1
            0s   2/double is completed
            0s   2/show is ready, given {"y":10}
            0s   2/show runs, attempt 1
            0s   frame 2 closed: succeeded {"y":10}
            0s   2/show is completed
            0s   box~0 called next as r2: {"y":10}
            0s   box ended: succeeded {"times":2,"y":10}
            0s   box~0 is completed
            0s   after is ready, given {"got":{"times":2,"y":10}}
            0s   after runs, attempt 1
            0s   RUN succeeded with {"after":{}}
            0s   after is completed
        "#]],
    );
}

#[test]
fn nodes_that_wait_for_a_word_or_let_time_pass_need_no_worker() {
    let nodes = [
        ("ask", json!({ "type": "core.approve" })),
        ("event", json!({ "type": "core.wait_event", "parameters": { "event": "paid" } })),
        ("pause", json!({ "type": "core.delay", "parameters": { "seconds": 5 } })),
        (
            "late",
            json!({ "type": "core.wait_event", "onError": "continue", "parameters": { "event": "x", "timeoutMs": 3000 } }),
        ),
    ];
    check(
        workflow(&nodes, &[("ask", "event"), ("event", "pause")]),
        "
        start
        w takes 9
        signal event #paid
        signal ask yes {\"note\":1}
        signal ask yes
        signal event #other
        signal event #paid {\"amount\":3}
        wait 4
        wait 4
        ",
        expect![[r#"
            0s   ask waits, given {}
            0s   late waits, given {"event":"x","timeoutMs":3000}
            0s   signal event: refused, NotWaiting { instead: "no such node is under way" }
            0s   ask is completed
            0s   event waits, given {"event":"paid"}
            0s   signal ask: refused, NotWaiting { instead: "no such node is under way" }
            0s   signal event: refused, NotWaiting { instead: "it waits for the event `paid`" }
            0s   event is completed
            0s   pause waits, given {"seconds":5}
            3s   late is failed
            5s   RUN succeeded with {"pause":{"done":true}}
            5s   pause is completed
        "#]],
    );
}

#[test]
fn no_is_a_failure_and_a_stopped_run_stops_everything() {
    let nodes = [("ask", json!({ "type": "core.approve" })), ("work", none())];
    let flow = workflow(&nodes, &[]);
    check(
        flow.clone(),
        "
        start
        w takes 9
        signal ask no {\"comment\":\"too dear\"}
        ",
        expect![[r#"
            0s   ask waits, given {}
            0s   work is ready, given {}
            0s   work runs, attempt 1
            0s   RUN failed: ada said no: too dear (E.NODE.DENIED)
            0s   ask is failed
            0s   work is stopped
        "#]],
    );
    check(
        flow,
        "
        start
        w takes 9
        cancel
        cancel
        w completes work
        ",
        expect![[r#"
            0s   ask waits, given {}
            0s   work is ready, given {}
            0s   work runs, attempt 1
            0s   RUN cancelled: ada stopped it (E.RUN.CANCELLED)
            0s   ask is stopped
            0s   work is stopped
            0s   cancel: not live
        "#]],
    );
}

#[test]
fn a_worker_that_gives_up_or_finds_nothing_to_do() {
    let nodes = [("a", none()), ("b", none())];
    let flow = workflow(&nodes, &[("a", "b")]);
    check(
        flow.clone(),
        "
        start
        w takes 9
        w skips a
        w takes 9
        w gives-up b
        ",
        expect![[r#"
            0s   a is ready, given {}
            0s   a runs, attempt 1
            0s   a is completed
            0s   b is ready, given {}
            0s   b runs, attempt 1
            0s   RUN cancelled: it broke (E.RUNNER.CANCELLED)
            0s   b is failed
        "#]],
    );
}

#[test]
fn what_an_earlier_run_did_is_not_done_again() {
    let nodes = [("a", none()), ("b", json!({ "parameters": { "n": "{{ nodes.a.results.n }}" } }))];
    check(
        workflow(&nodes, &[]),
        "
        start reusing a {\"n\":3}
        w takes 9
        w completes b
        ",
        expect![[r#"
            0s   a ended: succeeded {"n":3}
            0s   b is ready, given {"n":3}
            0s   b runs, attempt 1
            0s   RUN succeeded with {"b":{}}
            0s   b is completed
        "#]],
    );
}

#[test]
fn thirty_thousand_skipped_nodes_do_not_fill_one_turn() {
    let names: Vec<String> = (0..30_000).map(|n| format!("n{n}")).collect();
    let nodes: Vec<(&str, Value)> =
        names.iter().map(|name| (name.as_str(), json!({ "when": "false" }))).collect();
    let mut world = World::new(&workflow(&nodes, &[]));
    world.deed("start");
    let begun = world.transcript.lines().count();
    assert!((1_000..=10_000).contains(&begun), "{begun} nodes in one turn");
    world.deed("wait 1");
    assert!(world.transcript.ends_with("RUN succeeded with {}\n"), "it goes on by itself");
}
