//! What definitions become when nothing is wrong with them.

use std::time::Duration;

use flow::{AffinityMode, OnError, OnSkip, Parameters, Root, Step, Work};
use serde_json::json;

use crate::telling::{program, told, workflow};

/// `0.results.a -> b`, or `0/1.results.a -> b` for the middleware at place 1.
fn wires(step: &Step) -> Vec<String> {
    let wire = |wire: &flow::Wire| {
        let middleware = wire.from.middleware.map(|at| format!("/{at}")).unwrap_or_default();
        let root = if wire.from.root == Root::Results { "results" } else { "parameters" };
        let from = [&[root.to_owned()], &wire.from.path[..]].concat().join(".");
        format!("{}{middleware}.{from} -> {}", wire.from.node, wire.to.join("."))
    };
    step.wires.iter().map(wire).collect()
}

const PORTS: &str = r#""ui": {
    "inputPorts": [{"key": "in", "binding": {"path": "parameters.x.y"}},
                   {"key": "all", "binding": {"path": "parameters"}},
                   {"key": "go"}],
    "outputPorts": [{"key": "out", "binding": {"path": "/results/a~1b/c"}},
                    {"key": "given", "binding": {"path": "parameters.n"}},
                    {"key": "done"}]}"#;

fn edge(from: &str, from_port: &str, to: &str, to_port: &str) -> String {
    format!(
        r#"{{"source": {{"node": "${from}", "port": "{from_port}"}},
            "target": {{"node": "${to}", "port": "{to_port}"}}}}"#
    )
}

#[test]
fn data_flows_where_both_ports_are_bound() {
    let nodes: Vec<_> = ["a", "b", "c"]
        .map(|id| format!(r#"{{"id": "${id}", "type": "core.noop", {PORTS}}}"#))
        .into();
    let edges = [
        edge("a", "out", "c", "in"),
        edge("b", "given", "c", "all"),
        edge("a", "done", "b", "in"),
        edge("a", "out", "b", "go"),
        edge("a", "out", "c", "in"),
    ];
    let program = program(&workflow(&nodes.join(","), &edges.join(",")));
    let [a, b, c] = &program.graphs[0].nodes[..] else { panic!() };
    assert_eq!(
        wires(&c.host),
        ["0.results.a/b.c -> x.y", "1.parameters.n -> ", "0.results.a/b.c -> x.y"]
    );
    assert_eq!(wires(&b.host), [""; 0]);
    assert_eq!((&c.waits_for[..], &a.followers[..]), (&[0, 1][..], &[1, 2][..]));
    assert_eq!((a.readers, b.readers, c.readers), (1, 1, 1));
    assert_eq!((a.keeps_parameters, b.keeps_parameters), (false, true));
}

#[test]
fn a_prefix_leads_to_another_node() {
    let program = program(&workflow(
        r##"{"id": "$a", "type": "core.noop", "ui": {"outputPorts": [
                {"key": "other", "binding": {"path": "results.x", "prefix": "#$b"}}]}},
            {"id": "$b", "type": "core.noop"},
            {"id": "$c", "type": "core.noop", "ui": {"inputPorts": [
                {"key": "in", "binding": {"path": "parameters.x", "prefix": "@any.#$d"}}]}},
            {"id": "$d", "type": "core.noop"}"##,
        &edge("a", "other", "c", "in"),
    ));
    let nodes = &program.graphs[0].nodes;
    assert_eq!(wires(&nodes[3].host), ["1.results.x -> x"]);
    assert_eq!((&nodes[3].waits_for[..], &nodes[2].waits_for[..]), (&[1][..], &[0][..]));
}

#[test]
fn middlewares_have_parameters_and_ports_of_their_own() {
    let program = program(&workflow(
        r#"{"id": "$a", "type": "core.noop", "alias": "a", "middlewares": [
                {"id": "$m", "type": "core.loop", "parameters": {"times": 3}},
                {"id": "$n", "type": "core.retry", "ui": {"outputPorts": [
                    {"key": "tries", "binding": {"path": "results.tries"}}]}}]},
           {"id": "$b", "type": "core.noop", "ui": {"inputPorts": [
                {"key": "n", "binding": {"path": "parameters.n"}}]},
            "middlewares": [
                {"id": "$o", "type": "core.retry",
                 "parameters": {"attempts": "{{ nodes.a.results.n }}"},
                 "ui": {"inputPorts": [{"key": "n", "binding": {"path": "parameters.delayMs"}}]}}]}"#,
        &[
            edge("a", "mw:$n:output:tries", "b", "n"),
            edge("a", "mw:$n:output:tries", "b", "mw:$o:input:n"),
        ]
        .join(","),
    ));
    let [a, b] = &program.graphs[0].nodes[..] else { panic!() };
    assert_eq!((a.host_level(), b.host_level()), (2, 1));
    assert_eq!(wires(&b.host), ["0/1.results.tries -> n"]);
    assert_eq!(wires(&b.middlewares[0]), ["0/1.results.tries -> delayMs"]);
    assert_eq!(b.middlewares[0].references, [0]);
    assert!(
        matches!(&a.middlewares[0].parameters, Parameters::Plain(json) if json == r#"{"times": 3}"#)
    );
    assert!(matches!(b.middlewares[0].parameters, Parameters::Open { has_expressions: true, .. }));
}

#[test]
fn expressions_are_dependencies() {
    let program = program(&workflow(
        r#"{"id": "$a", "type": "core.noop", "alias": "a"},
           {"id": "$b", "type": "core.noop", "alias": "b"},
           {"id": "$c", "type": "core.noop", "alias": "c"},
           {"id": "$d", "type": "core.noop", "when": "{{ nodes.a.status == 'failed' }}",
            "map": {"over": "{{ nodes.b.results.list }}", "maxParallel": 3},
            "parameters": {"deep": [{"x": "\u007b{ nodes['$c'].parameters.y }}"}], "z": "{{ item }}"}}"#,
        "",
    ));
    let graph = &program.graphs[0];
    let d = &graph.nodes[3];
    assert_eq!(d.waits_for, [0, 1, 2]);
    assert_eq!(d.host.references, [2]);
    let when = d.when.as_ref().expect("it has one");
    assert_eq!(
        (when.source.as_str(), &when.references[..]),
        ("nodes.a.status == 'failed'", &[0][..])
    );
    let map = d.map.as_ref().expect("it has one");
    assert_eq!((&map.references[..], map.max_parallel), (&[1][..], Some(3)));
    assert_eq!((graph.nodes[0].keeps_parameters, graph.nodes[2].keeps_parameters), (false, true));
    assert_eq!(graph.nodes.iter().map(|node| node.readers).collect::<Vec<_>>(), [1, 1, 1, 1]);
    assert_eq!(graph.outputs_read, [3]);
}

#[test]
fn outputs_are_what_the_author_says() {
    let mut definition = workflow(
        r#"{"id": "$a", "type": "core.noop", "alias": "a"}, {"id": "$b", "type": "core.noop"}"#,
        &edge("a", "", "b", ""),
    );
    definition.truncate(definition.len() - 1);
    let program =
        program(&(definition + r#", "outputs": {"x": "{{ nodes.a.results.x }}", "y": 5}}"#));
    let graph = &program.graphs[0];
    assert_eq!(graph.outputs["y"], json!(5));
    assert_eq!(graph.outputs_read, [0]);
    assert_eq!((graph.nodes[0].readers, graph.nodes[1].readers), (1, 0));
}

#[test]
fn wishes_are_kept() {
    let definition = r#"{"id": "$w",
        "runtimes": {"gpu": {"workerHints": {"package": "media", "queue": "slow", "labels": {"gpu": "true", "zone": "a"}}}},
        "nodes": [
            {"id": "$a", "type": "media.cut", "package": {"name": "media", "version": "2"},
             "labels": {"zone": "b"}, "tools": ["ffmpeg"], "priority": 7, "timeoutMs": 5000,
             "lease_ttl_ms": 2000, "retry": {"maxAttempts": 9, "backoff_ms": 90000},
             "concurrencyKey": "disk", "affinity": {"mode": "preferred", "key": "{{ run.id }}", "ttlMs": 1000},
             "onError": "skip", "on_skip": "skip"},
            {"id": "$b", "type": "media.cut", "package": {"name": "media", "version": "2"}, "queue": "fast"},
            {"id": "$c", "type": "core.wait_event", "parameters": {"event": "go", "timeoutMs": 60000}},
            {"id": "$d", "type": "core.approve", "timeoutMs": 5000},
            {"id": "$e", "type": "core.delay", "parameters": {"ms": 5}}
        ]}"#;
    let program = program(definition);
    let [a, b, waits, asks, sleeps] = &program.graphs[0].nodes[..] else { panic!() };
    let Work::Task { spec, concurrency_key, affinity } = &a.host.work else { panic!() };
    assert_eq!(spec.demand.queue.as_str(), "slow");
    let tags: Vec<_> =
        spec.demand.tags.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(tags, [("gpu", "true"), ("zone", "b")]);
    assert_eq!(spec.demand.tools.len(), 1);
    assert_eq!((spec.priority, spec.timeout), (7, Some(Duration::from_secs(5))));
    assert_eq!(spec.lease_ttl, Duration::from_secs(2));
    assert_eq!((spec.retry.max_attempts, spec.retry.backoff), (9, Duration::from_secs(90)));
    assert_eq!(spec.retry.backoff_max, Duration::from_secs(90));
    assert_eq!(concurrency_key.as_deref(), Some("disk"));
    let affinity = affinity.as_ref().expect("it has one");
    assert_eq!((affinity.mode, affinity.ttl), (AffinityMode::Preferred, Duration::from_secs(1)));
    assert_eq!((a.on_error, a.on_skip), (OnError::Skip, OnSkip::Skip));
    let Work::Task { spec, .. } = &b.host.work else { panic!() };
    assert_eq!((spec.demand.queue.as_str(), spec.retry.max_attempts), ("fast", 3));
    let minute = Some(Duration::from_mins(1));
    assert!(matches!(waits.host.work, Work::WaitEvent { timeout } if timeout == minute));
    let seconds = Some(Duration::from_secs(5));
    assert!(matches!(asks.host.work, Work::Approve { timeout } if timeout == seconds));
    assert!(matches!(sleeps.host.work, Work::Delay));
}

#[test]
fn a_node_without_a_version_takes_the_least_one_of_the_hints_or_a_newer() {
    let definition = r#"{"id": "$w",
        "runtimes": {"gpu": {"workerHints": {"package": "media", "minVersion": "1.2"}}},
        "nodes": [{"id": "$a", "type": "media.cut", "package": {"name": "media"}},
                  {"id": "$b", "type": "media.cut", "package": {"name": "media", "version": "2"}}]}"#;
    let program = program(definition);
    let versions = program.graphs[0].nodes.iter().map(|node| match &node.host.work {
        Work::Task { spec, .. } => spec.demand.package.as_ref().map(|one| one.version.to_string()),
        other => panic!("{other:?}"),
    });
    let versions: Vec<Option<String>> = versions.collect();
    assert_eq!(versions, [Some("1.2+".to_owned()), Some("2".to_owned())]);
}

#[test]
fn large_and_small_letters_of_an_id_are_the_same() {
    let definition = crate::telling::written(&workflow(
        r#"{"id": "$j", "type": "core.noop"}, {"id": "$k", "type": "core.noop"}"#,
        &edge("j", "", "k", ""),
    ));
    let upper = definition.replace("6a\", \"type", "6A\", \"type");
    assert_ne!(definition, upper);
    let compiled = flow::compile(bytes::Bytes::from(upper));
    let compiled = compiled.unwrap_or_else(|problems| panic!("{}", told(&problems)));
    assert_eq!(compiled.program.graphs[0].nodes[1].waits_for, [0]);
}
