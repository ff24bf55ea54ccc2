//! Graphs in graphs.

use expect_test::expect;
use flow::{Parameters, Root, Work};

use crate::telling::{check, program};

#[test]
fn a_container_stands_for_its_subgraph() {
    let program = program(
        r##"{"id": "$w", "nodes": [
            {"id": "$a", "type": "core.noop", "ui": {"outputPorts": [
                {"key": "url", "binding": {"path": "results.url"}}]}},
            {"id": "$b", "type": "workflow.container", "label": "Loop",
             "parameters": {"__container": {"subgraphId": "$s"}, "n": 1.50},
             "ui": {"inputPorts": [{"key": "url", "binding": {"path": "parameters.address", "prefix": "#$d"}},
                                   {"key": "n", "binding": {"path": "parameters.n"}}],
                    "outputPorts": [{"key": "text", "binding": {"path": "results.body.text", "prefix": "#$e"}},
                                    {"key": "asked", "binding": {"path": "parameters.q", "prefix": "#$d"}}]}},
            {"id": "$c", "type": "core.noop", "ui": {"inputPorts": [
                {"key": "in", "binding": {"path": "parameters.in"}}]}}
        ], "edges": [
            {"source": {"node": "$a", "port": "url"}, "target": {"node": "$b", "port": "url"}},
            {"source": {"node": "$b", "port": "text"}, "target": {"node": "$c", "port": "in"}}
        ], "subgraphs": [
            {"id": "$s", "metadata": {"label": "Fetch"}, "definition": {
                "nodes": [{"id": "$d", "type": "core.noop", "alias": "d", "parameters": {"address": null}},
                          {"id": "$e", "type": "core.noop"},
                          {"id": "$f", "type": "workflow.container",
                           "parameters": {"__container": {"subgraphId": "$t"}}}],
                "edges": [{"source": {"node": "$d"}, "target": {"node": "$e"}}],
                "outputs": {"x": "{{ nodes.d.results.x }}"}}},
            {"id": "$t", "definition": {"nodes": [{"id": "$d", "type": "core.noop"}]}}
        ]}"##,
    );
    assert_eq!(program.graphs.len(), 3);
    let [workflow, fetch, last] = &program.graphs[..] else { panic!() };
    assert_eq!((fetch.name.as_str(), fetch.id.to_string()), ("Fetch", crate::telling::id('s')));
    assert_eq!(last.nodes[0].id, fetch.nodes[0].id);
    let container = &workflow.nodes[1];
    let Work::Container { graph: 1, ports } = &container.host.work else { panic!() };
    let path = |path: &Vec<String>| path.join(".");
    let inputs: Vec<_> =
        ports.inputs.iter().map(|(from, node, to)| (path(from), *node, path(to))).collect();
    assert_eq!(inputs, [("url".to_owned(), 0, "address".to_owned())]);
    let outputs: Vec<_> = ports
        .outputs
        .iter()
        .map(|(node, root, from, to)| (*node, *root, path(from), path(to)))
        .collect();
    assert_eq!(
        outputs,
        [
            (1, Root::Results, "body.text".to_owned(), "text".to_owned()),
            (0, Root::Parameters, "q".to_owned(), "asked".to_owned()),
        ]
    );
    // The edge itself ends at the container, under the name of the port.
    assert_eq!(container.host.wires[0].to, ["url"]);
    let wire = &workflow.nodes[2].host.wires[0];
    assert_eq!(
        (wire.from.node, wire.from.root, path(&wire.from.path)),
        (1, Root::Results, "text".to_owned())
    );
    let Parameters::Open { authored, .. } = &container.host.parameters else { panic!() };
    assert_eq!(authored.to_string(), r#"{"n":1.5}"#, "without the name of the subgraph");
    // What containers read from outside is kept until the subgraph ends.
    assert_eq!(fetch.outputs_read, [0, 1]);
    assert_eq!((fetch.nodes[0].readers, fetch.nodes[1].readers), (1, 1));
    assert!(fetch.nodes[0].keeps_parameters);
    assert!(matches!(fetch.nodes[0].host.parameters, Parameters::Open { .. }), "it is fed");
    assert!(matches!(&fetch.nodes[2].host.parameters, Parameters::Plain(json) if json == "{}"));
    assert!(matches!(fetch.nodes[2].host.work, Work::Container { graph: 2, .. }));
}

#[test]
fn inner_subgraphs_see_those_around_them() {
    let program = program(
        r#"{"id": "$w", "nodes": [{"id": "$a", "type": "x", "role": "container",
                                   "parameters": {"__container": {"subgraphId": "$s"}}}],
            "subgraphs": [
                {"id": "$s", "definition": {
                    "nodes": [
                        {"id": "$b", "type": "workflow.container", "parameters": {"__container": {"subgraphId": "$t"}}},
                        {"id": "$c", "type": "workflow.container", "parameters": {"__container": {"subgraphId": "$u"}}}],
                    "subgraphs": [{"id": "$t", "definition": {"nodes": [{"id": "$d", "type": "core.noop"}]}}]}},
                {"id": "$u", "definition": {"nodes": [{"id": "$e", "type": "core.noop"}]}}]}"#,
    );
    let inner: Vec<_> = program.graphs[1]
        .nodes
        .iter()
        .map(|node| match &node.host.work {
            Work::Container { graph, .. } => {
                program.graphs[*graph as usize].nodes[0].id.to_string()
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(inner, [crate::telling::id('d'), crate::telling::id('e')]);
}

#[test]
fn subgraphs_are_there_and_end() {
    check(
        r#"{"id": "$w", "nodes": [
                {"id": "$a", "type": "workflow.container"},
                {"id": "$b", "type": "workflow.container", "parameters": {"__container": {"subgraphId": "$x"}}},
                {"id": "$c", "type": "workflow.container", "parameters": {"__container": {"subgraphId": "$s"}}}],
            "subgraphs": [
                {"id": "$s", "metadata": {"label": "Outer"}, "definition": {"nodes": [
                    {"id": "$d", "type": "workflow.container", "parameters": {"__container": {"subgraphId": "$t"}}}]}},
                {"id": "$t", "metadata": {"label": "Inner"}, "definition": {"nodes": [
                    {"id": "$e", "type": "core.noop"},
                    {"id": "$f", "type": "workflow.container", "parameters": {"__container": {"subgraphId": "$s"}}}]}},
                {"id": "$t", "definition": {"nodes": [{"id": "$g", "type": "core.noop", "parameters": 5}]}},
                {"id": "$u"}, {"id": "u", "definition": {"nodes": []}}]}"#,
        &expect![[r#"
            E.FLOW.INVALID $g /subgraphs/2/definition/nodes/0/parameters: parameters must be an object
            E.FLOW.INVALID /subgraphs/3/definition: definition is missing; it must be an object with nodes
            E.FLOW.INVALID /subgraphs/4/id: "u" is not a UUID; write one with hyphens, like 2b2c3fcb-9c18-4ca2-9b5a-8ad4deb1f164
            E.FLOW.INVALID /subgraphs/4/definition/nodes: there are no nodes; a workflow needs at least one
            E.FLOW.DUPLICATE_ID /subgraphs/2/id: the id $t is used by two subgraphs; give each its own
            E.FLOW.SUBGRAPH $a /nodes/0/parameters/__container: a container names its subgraph in parameters.__container.subgraphId; it is missing here
            E.FLOW.SUBGRAPH $b /nodes/1/parameters/__container/subgraphId: there is no subgraph $x; add it to subgraphs, or name another one
            E.FLOW.SUBGRAPH $d /subgraphs/0/definition/nodes/0: a subgraph contains itself: Outer -> Inner -> Outer; it would never end, so let this container stand for another subgraph
        "#]],
    );
}

/// Subgraphs in a row, each with so many containers for the next.
fn nested(n_levels: usize, n_containers: usize) -> String {
    let id = |level: usize, n: usize| format!("00000000-0000-4000-8000-{level:06x}{n:06x}");
    let nodes = |level: usize| -> String {
        let node = |n: usize| {
            let (own, next) = (id(level, n + 1), id(level + 1, 0));
            format!(
                r#"{{"id": "{own}", "type": "workflow.container", "parameters": {{"__container": {{"subgraphId": "{next}"}}}}}}"#
            )
        };
        (0..n_containers).map(node).collect::<Vec<_>>().join(",")
    };
    let mut subgraphs: Vec<_> = (1..n_levels)
        .map(|level| {
            let (own, nodes) = (id(level, 0), nodes(level));
            format!(r#"{{"id": "{own}", "definition": {{"nodes": [{nodes}]}}}}"#)
        })
        .collect();
    let (own, node) = (id(n_levels, 0), id(n_levels, 1));
    subgraphs.push(format!(
        r#"{{"id": "{own}", "definition": {{"nodes": [{{"id": "{node}", "type": "core.noop"}}]}}}}"#
    ));
    let (nodes, subgraphs) = (nodes(0), subgraphs.join(","));
    format!(r#"{{"id": "$w", "nodes": [{nodes}], "subgraphs": [{subgraphs}]}}"#)
}

#[test]
fn nesting_has_an_end() {
    check(&nested(16, 1), &expect![[""]]);
    check(
        &nested(17, 1),
        &expect![[r"
        E.FLOW.SUBGRAPH /nodes: containers nest 17 levels deep; at most 16 are taken, so flatten some
    "]],
    );
    check(
        &nested(12, 10),
        &expect![[r"
        E.FLOW.LIMIT /nodes: with all that its containers stand for the workflow has 2111111111110 nodes; at most 1000000 are taken
    "]],
    );
    check(
        &nested(5_000, 1),
        &expect![[r"
        E.FLOW.SUBGRAPH /nodes: containers nest 5000 levels deep; at most 16 are taken, so flatten some
    "]],
    );
}
