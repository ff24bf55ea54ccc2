//! What is told about definitions with something wrong in them.

use expect_test::expect;

use crate::telling::{check, workflow};

#[test]
fn everything_is_told_at_once() {
    check(
        r#"{
            "id": "not-a-uuid",
            "nodes": [
                {"id": "$a", "type": "core.noop", "timeoutMs": "soon", "label": "Open"},
                {"id": "$b", "type": "core.noop", "label": "Click", "alias": "2b"},
                {"id": "$b", "type": "core.noop"},
                {"type": 7},
                5
            ],
            "edges": [
                {"source": {"node": "$a"}, "target": {"node": "$b"}},
                {"source": {"node": "$b"}, "target": {"node": "$a"}},
                {"source": {"node": "$x"}, "target": {"node": "$a"}},
                {"source": {}, "target": "$a"}
            ]
        }"#,
        &expect![[r#"
            E.FLOW.INVALID /id: "not-a-uuid" is not a UUID; write one with hyphens, like 2b2c3fcb-9c18-4ca2-9b5a-8ad4deb1f164
            E.FLOW.INVALID $a /nodes/0/timeoutMs: timeoutMs is text; it must be a whole number
            E.FLOW.INVALID $b /nodes/1/alias: alias is "2b"; it must be a word that expressions can use: at most 128 of A-Z a-z 0-9 _, not beginning with a digit
            E.FLOW.INVALID /nodes/3/type: type is a number; it must be text
            E.FLOW.INVALID /nodes/3/id: id is missing; it must be a UUID
            E.FLOW.INVALID /nodes/4: nodes[4] is a number; it must be an object
            E.FLOW.INVALID /edges/3/source/node: node is missing; it must be the id of a node
            E.FLOW.INVALID /edges/3/target: target is text; it must be an object with a node
            E.FLOW.DUPLICATE_ID $b /nodes/2/id: the id $b is used twice in this graph; give each node and middleware its own
            E.FLOW.UNKNOWN_NODE $x /edges/2/source/node: there is no node $x in this graph; remove the edge, or name the id of a node
            E.FLOW.CYCLE $a /nodes/0: these nodes wait for each other: Open -> Click -> Open; remove one of the edges or expressions between them
        "#]],
    );
}

#[test]
fn text_that_is_no_definition() {
    check(
        "",
        &expect![[r"
        E.FLOW.INVALID : the definition cannot be read: EOF while parsing a value at line 1 column 0
    "]],
    );
    check(
        "{\"id\": ",
        &expect![[r"
        E.FLOW.INVALID : the definition cannot be read: EOF while parsing a value at line 1 column 7
    "]],
    );
    check(
        "[]",
        &expect![[r"
        E.FLOW.INVALID : the definition is a list; it must be an object
    "]],
    );
    check(
        "null",
        &expect![[r"
        E.FLOW.INVALID : the definition is null; it must be an object
    "]],
    );
    check(
        "{} {}",
        &expect![[r"
        E.FLOW.INVALID : the definition cannot be read: trailing characters at line 1 column 4
    "]],
    );
    check(
        "{}",
        &expect![[r"
        E.FLOW.INVALID /id: id is missing; it must be a UUID
        E.FLOW.INVALID /nodes: nodes is missing; it must be a list with at least one node
    "]],
    );
    check(
        r#"{"id": "$w", "nodes": []}"#,
        &expect![[r"
        E.FLOW.INVALID /nodes: there are no nodes; a workflow needs at least one
    "]],
    );
    check(
        r#"{"id": "$w", "nodes": {}, "edges": 1, "subgraphs": "", "outputs": []}"#,
        &expect![[r"
            E.FLOW.INVALID /nodes: nodes is an object; it must be a list with at least one node
            E.FLOW.INVALID /edges: edges is a number; it must be a list
            E.FLOW.INVALID /subgraphs: subgraphs is text; it must be a list
            E.FLOW.INVALID /outputs: outputs must be an object
        "]],
    );
}

#[test]
fn fields_of_our_own_are_checked_under_both_spellings() {
    check(
        &workflow(
            r#"{"id": "$a", "type": "core.noop", "onError": "ignore", "timeoutMs": 0,
                "retry": {"maxAttempts": 0, "backoffMs": 5000, "backoffMaxMs": 10},
                "affinity": {"mode": "glued"}, "map": {"maxParallel": 0}, "priority": 5000,
                "queue": "a b", "tools": ["", 5], "labels": {"a b": "x", "gpu": true},
                "concurrencyKey": "", "leaseTtlMs": 1.5, "when": 7},
               {"id": "$b", "type": "core.noop", "on_error": "ignore", "timeout_ms": 0,
                "retry": {"max_attempts": 0}, "map": {"over": 5}, "package": "media"}"#,
            "",
        ),
        &expect![[r#"
            E.FLOW.INVALID $a /nodes/0/queue: queue is "a b"; it must be 1 to 128 characters of A-Z a-z 0-9 _ - . : / @ +
            E.FLOW.INVALID $a /nodes/0/tools/0: tools[0] is ""; it must be 1 to 128 characters of A-Z a-z 0-9 _ - . : / @ +
            E.FLOW.INVALID $a /nodes/0/tools/1: tools[1] is a number; it must be text
            E.FLOW.INVALID $a /nodes/0/labels/a b: the label "a b" must be 1 to 128 characters of A-Z a-z 0-9 _ - . : / @ +
            E.FLOW.INVALID $a /nodes/0/labels/gpu: gpu is true or false; it must be text
            E.FLOW.INVALID $a /nodes/0/priority: priority is 5000; it must lie between -1000 and 1000
            E.FLOW.INVALID $a /nodes/0/timeoutMs: timeoutMs is 0; it must lie between 1 and 2592000000
            E.FLOW.INVALID $a /nodes/0/leaseTtlMs: leaseTtlMs is a number; it must be a whole number
            E.FLOW.INVALID $a /nodes/0/concurrencyKey: concurrencyKey is ""; it must be 1 to 256 bytes without control characters
            E.FLOW.INVALID $a /nodes/0/retry/maxAttempts: maxAttempts is 0; it must lie between 1 and 1000
            E.FLOW.INVALID $a /nodes/0/affinity/mode: mode is "glued"; it must be one of sticky, preferred
            E.FLOW.INVALID $a /nodes/0/affinity/key: key is missing; it must be text that tasks which belong together share
            E.FLOW.INVALID $a /nodes/0/when: when is a number; it must be an expression, or true or false
            E.FLOW.INVALID $a /nodes/0/onError: onError is "ignore"; it must be one of fail, continue, skip
            E.FLOW.INVALID $a /nodes/0/map/maxParallel: maxParallel is 0; it must lie between 1 and 1000000
            E.FLOW.INVALID $a /nodes/0/map/over: over is missing; it must be a list, or an expression that gives one
            E.FLOW.INVALID $b /nodes/1/package: package is text; it must be an object
            E.FLOW.INVALID $b /nodes/1/timeout_ms: timeout_ms is 0; it must lie between 1 and 2592000000
            E.FLOW.INVALID $b /nodes/1/retry/max_attempts: max_attempts is 0; it must lie between 1 and 1000
            E.FLOW.INVALID $b /nodes/1/on_error: on_error is "ignore"; it must be one of fail, continue, skip
            E.FLOW.INVALID $b /nodes/1/map/over: over must be a list, or an expression that gives one
            E.FLOW.INVALID (warning) $a /nodes/0/retry/backoffMaxMs: the longest pause is 10 ms and the first one 5000 ms; all pauses last 10 ms
        "#]],
    );
}

#[test]
fn edges_name_nodes_and_ports_that_are_there() {
    check(
        &workflow(
            r#"{"id": "$a", "type": "core.noop", "label": "Open", "ui": {"outputPorts":
                [{"key": "page", "binding": {"path": "results.page"}}, {"key": "done"}]}},
               {"id": "$b", "type": "core.noop", "label": "Click", "ui": {"inputPorts":
                [{"key": "page", "binding": {"path": "parameters.page"}},
                 {"key": "odd", "binding": {"path": "somewhere"}},
                 {"key": "up", "binding": {"path": "results.x"}}]}},
               {"id": "$c", "type": "core.noop"}"#,
            r#"{"source": {"node": "$a", "port": "pages"}, "target": {"node": "$b", "port": "page"}},
               {"source": {"node": "$a", "port": "page"}, "target": {"node": "$b", "port": "odd"}},
               {"source": {"node": "$a", "port": "page"}, "target": {"node": "$b", "port": "up"}},
               {"source": {"node": "$a", "port": "page"}, "target": {"node": "$c", "port": "in"}},
               {"source": {"node": "$a", "port": "done"}, "target": {"node": "$b", "port": ""}},
               {"source": {"node": "$z", "port": "x"}, "target": {"node": "$c"}}"#,
        ),
        &expect![[r"
            E.FLOW.UNKNOWN_PORT $a /edges/0/source/port: Open has no output port pages; it has page, done
            E.FLOW.UNKNOWN_NODE $z /edges/5/source/node: there is no node $z in this graph; remove the edge, or name the id of a node
            E.FLOW.UNKNOWN_PORT (warning) $b /edges/1/target/port: the port is bound to somewhere, which is no path below parameters or results; the edge only says what comes first
            E.FLOW.UNKNOWN_PORT (warning) $b /edges/2/target/port: the port is bound to results.x, and nothing flows into results; the edge only says what comes first
            E.FLOW.UNKNOWN_PORT (warning) $c /edges/3/target/port: $c declares no input ports, so nothing flows through in; the edge only says what comes first
        "]],
    );
}

#[test]
fn circles_are_told_with_their_path() {
    check(
        &workflow(
            r#"{"id": "$a", "type": "core.noop", "label": "Open"},
               {"id": "$b", "type": "core.noop", "label": "Click"},
               {"id": "$c", "type": "core.noop", "label": "Save", "alias": "save"},
               {"id": "$d", "type": "core.noop", "label": "Wait",
                "parameters": {"x": "{{ nodes.save.results.x }}"}},
               {"id": "$e", "type": "core.noop", "label": "Self"}"#,
            r#"{"source": {"node": "$a"}, "target": {"node": "$b"}},
               {"source": {"node": "$b"}, "target": {"node": "$a"}},
               {"source": {"node": "$d"}, "target": {"node": "$c"}},
               {"source": {"node": "$b"}, "target": {"node": "$c"}},
               {"source": {"node": "$e"}, "target": {"node": "$e"}}"#,
        ),
        &expect![[r"
            E.FLOW.CYCLE $a /nodes/0: these nodes wait for each other: Open -> Click -> Open; remove one of the edges or expressions between them
            E.FLOW.CYCLE $c /nodes/2: these nodes wait for each other: Save -> Wait -> Save; remove one of the edges or expressions between them
            E.FLOW.CYCLE $e /nodes/4: these nodes wait for each other: Self -> Self; remove one of the edges or expressions between them
        "]],
    );
}

#[test]
fn expressions_name_nodes_that_are_there() {
    check(
        &workflow(
            r#"{"id": "$a", "type": "core.noop", "alias": "open"},
               {"id": "$c", "type": "core.noop", "when": "{{ inputs.a }} and {{ inputs.b }}"},
               {"id": "$b", "type": "core.noop", "when": "{{ nodes.opne.results.ok }}",
                "map": {"over": "{{ nodes.gone.results.list }}"},
                "parameters": {"deep": [{"x": "{{ nodes.open.results. }}"}], "y": "{{ nodes.no.results.z }}"},
                "middlewares": [{"id": "$m", "type": "core.retry",
                                 "parameters": {"attempts": "{{ nodes.there.results.n }}"}}],
                "concurrencyKey": "{{ nodes.key.results.n }}"}"#,
            "",
        ),
        &expect![[r"
            E.FLOW.EXPRESSION $c /nodes/1/when: a condition is one expression; write {{ a and b }}, not {{ a }} and {{ b }}
            E.FLOW.EXPRESSION $b /nodes/2/parameters/deep/0/x: unexpected end of input, expected identifier or integer, in the expression at character 3
            E.FLOW.EXPRESSION $b /nodes/2/parameters/y: no node of this graph has the alias or id no; there are open
            E.FLOW.EXPRESSION $b /nodes/2/concurrencyKey: no node of this graph has the alias or id key; there are open
            E.FLOW.EXPRESSION $b /nodes/2/middlewares/0/parameters/attempts: no node of this graph has the alias or id there; there are open
            E.FLOW.EXPRESSION $b /nodes/2/when: no node of this graph has the alias or id opne; there are open
            E.FLOW.EXPRESSION $b /nodes/2/map/over: no node of this graph has the alias or id gone; there are open
        "]],
    );
}

#[test]
fn names_are_used_once() {
    check(
        &workflow(
            r#"{"id": "$a", "type": "core.noop", "alias": "open",
                "middlewares": [{"id": "$m", "type": "core.retry"}, {"id": "$m", "type": "core.loop"}]},
               {"id": "$b", "type": "core.noop", "alias": "open"},
               {"id": "$m", "type": "core.noop"}"#,
            "",
        ),
        &expect![[r"
            E.FLOW.DUPLICATE_ID $a /nodes/0/middlewares/1/id: the id $m is used twice in this graph; give each node and middleware its own
            E.FLOW.DUPLICATE_ID $b /nodes/1/alias: the alias open is used twice in this graph; give each node and middleware its own
            E.FLOW.DUPLICATE_ID $m /nodes/2/id: the id $m is used twice in this graph; give each node and middleware its own
        "]],
    );
}

#[test]
fn packages_are_named_in_full() {
    check(
        &workflow(
            r#"{"id": "$a", "type": "media.resize"},
               {"id": "$b", "type": "media.resize"},
               {"id": "$c", "type": "media.crop", "package": {"name": "media"}},
               {"id": "$d", "type": "media.crop", "package": {"name": "my media", "version": "1"}},
               {"id": "$e", "type": "media.crop", "package": {"name": 5, "version": "1"}},
               {"id": "$f", "type": "media.crop", "package": null},
               {"id": "$g", "type": "core.noop"}"#,
            "",
        ),
        &expect![[r"
            E.FLOW.INVALID $e /nodes/4/package/name: name is a number; it must be text
            E.FLOW.PACKAGE $c /nodes/2/package/version: package.version must be 1 to 128 characters of A-Z a-z 0-9 _ - . : / @ +; a worker needs both name and version to find the code of media.crop, or a workerHints.minVersion for the package
            E.FLOW.PACKAGE $d /nodes/3/package/name: package.name must be 1 to 128 characters of A-Z a-z 0-9 _ - . : / @ +; a worker needs both name and version to find the code of media.crop, or a workerHints.minVersion for the package
            E.FLOW.PACKAGE (warning) $a /nodes/0/package: media.resize names no package; only workers that serve media.resize on their own can take it
            E.FLOW.PACKAGE (warning) $f /nodes/5/package: media.crop names no package; only workers that serve media.crop on their own can take it
        "]],
    );
}

#[test]
fn a_label_may_have_a_thousand_and_twenty_four_bytes() {
    let labelled = |n: usize| {
        workflow(
            &format!(r#"{{"id": "$a", "type": "core.noop", "label": "{}"}}"#, "x".repeat(n)),
            "",
        )
    };
    check(&labelled(1_024), &expect![[""]]);
    check(
        &labelled(1_025),
        &expect![[r"
        E.FLOW.LIMIT $a /nodes/0/label: label has 1025 bytes, at most 1024 are taken
    "]],
    );
}

#[test]
fn packages_of_middlewares_are_named_in_full() {
    check(
        &workflow(
            r#"{"id": "$a", "type": "core.noop", "middlewares": [
                  {"id": "$m", "type": "media.cache"},
                  {"id": "$n", "type": "media.trace", "package": {"name": "media"}}]}"#,
            "",
        ),
        &expect![[r"
            E.FLOW.PACKAGE $a /nodes/0/middlewares/1/package/version: package.version must be 1 to 128 characters of A-Z a-z 0-9 _ - . : / @ +; a worker needs both name and version to find the code of media.trace, or a workerHints.minVersion for the package
            E.FLOW.PACKAGE (warning) $a /nodes/0/middlewares/0/package: media.cache names no package; only workers that serve media.cache on their own can take it
        "]],
    );
}

#[test]
fn middlewares_are_there_and_can_be_ones() {
    check(
        &workflow(
            r#"{"id": "$a", "type": "core.noop", "label": "Open", "middlewares": [
                  {"id": "$m"}, {"id": "$n", "type": "workflow.container"},
                  {"id": "$o", "type": "core.delay", "parameters": {"ms": 5}}, 7]},
               {"id": "$b", "type": "core.noop"}"#,
            r#"{"source": {"node": "$a", "port": "mw:$x:output:count"}, "target": {"node": "$b"}},
               {"source": {"node": "$a", "port": "mw:nothing"}, "target": {"node": "$b"}}"#,
        ),
        &expect![[r"
            E.FLOW.INVALID $a /nodes/0/middlewares/3: middlewares[3] is a number; it must be an object
            E.FLOW.MIDDLEWARE $a /nodes/0/middlewares/0/type: a middleware needs a type, like core.retry; nobody could execute it
            E.FLOW.MIDDLEWARE $a /nodes/0/middlewares/1: a container cannot be a middleware; put the middleware around a container
            E.FLOW.MIDDLEWARE $a /nodes/0/middlewares/2/type: core.delay cannot be a middleware, because it calls nothing; make it a node in front
            E.FLOW.MIDDLEWARE $a /edges/0/source/port: Open has no middleware $x; add it, or connect the edge to a port of the node
            E.FLOW.UNKNOWN_PORT $a /edges/1/source/port: a port of a middleware is written mw:<middleware id>:<input or output>:<port>
        "]],
    );
}

#[test]
fn builtin_nodes_are_told_what_to_do() {
    check(
        &workflow(
            r#"{"id": "$a", "type": "core.delay"},
               {"id": "$b", "type": "core.delay", "parameters": {"ms": -5}},
               {"id": "$c", "type": "core.delay", "parameters": {"seconds": "{{ inputs.n }}"}},
               {"id": "$d", "type": "core.wait_event", "parameters": {"timeoutMs": "{{ inputs.n }}"}},
               {"id": "$e", "type": "core.approve", "parameters": {"timeoutMs": 0}},
               {"id": "$f", "type": "core.approve"}"#,
            "",
        ),
        &expect![[r"
            E.FLOW.PARAMETERS $a /nodes/0/parameters: core.delay is not told how long; give it ms, seconds or until
            E.FLOW.PARAMETERS $b /nodes/1/parameters/ms: ms must be a number from 0 on
            E.FLOW.PARAMETERS $d /nodes/3/parameters: core.wait_event is not told what to wait for; give it event, a name
            E.FLOW.PARAMETERS $d /nodes/3/parameters/timeoutMs: timeoutMs must be a whole number from 1 on, not an expression
            E.FLOW.PARAMETERS $e /nodes/4/parameters/timeoutMs: timeoutMs must be a whole number from 1 on, not an expression
        "]],
    );
}
