//! Definitions of the size of a city, and those that only pretend to be one.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flow::{Parameters, Work};

use crate::telling::{check, told};

const N_NODES: u32 = 100_000;

fn id(n: u32) -> String {
    format!("00000000-0000-4000-8000-{n:012x}")
}

/// Nodes in a row. With ports each is fed by the one before.
fn chain(n: u32, has_ports: bool) -> String {
    let ui = r#","ui":{"inputPorts":[{"key":"in","binding":{"path":"parameters.before"}}],"outputPorts":[{"key":"out","binding":{"path":"results.n"}}]}"#;
    let (ui, out, input) = if has_ports { (ui, "out", "in") } else { ("", "", "") };
    let (mut nodes, mut edges) = (String::new(), String::new());
    for node in 0..n {
        let comma = if node == 0 { "" } else { "," };
        let id_of_node = id(node);
        write!(
            nodes,
            r#"{comma}{{"id":"{id_of_node}","type":"core.noop","label":"Step {node}","parameters":{{"n":{node}}}{ui}}}"#
        )
        .expect("a text takes all");
        if node == 0 {
            continue;
        }
        let (comma, before) = (if node == 1 { "" } else { "," }, id(node - 1));
        write!(
            edges,
            r#"{comma}{{"source":{{"node":"{before}","port":"{out}"}},"target":{{"node":"{id_of_node}","port":"{input}"}}}}"#
        )
        .expect("a text takes all");
    }
    format!(r#"{{"id":"{}","nodes":[{nodes}],"edges":[{edges}]}}"#, id(0))
}

fn check_chain(has_ports: bool) {
    let source = Bytes::from(chain(N_NODES, has_ports));
    let n_bytes = source.len();
    let begin = time_of_thread();
    let compiled = flow::compile(source).unwrap_or_else(|problems| panic!("{}", told(&problems)));
    let took = time_of_thread().saturating_sub(begin);
    eprintln!("{N_NODES} nodes in {n_bytes} bytes took {took:?}");
    let graph = &compiled.program.graphs[0];
    assert_eq!(graph.nodes.len(), N_NODES as usize);
    assert_eq!(graph.roots, [0]);
    assert_eq!(graph.nodes[7].waits_for, [6]);
    assert_eq!(graph.nodes[7].host.wires.len(), usize::from(has_ports));
    assert!(matches!(graph.nodes[0].host.parameters, Parameters::Plain(_)));
    let spec = |node: usize| match &graph.nodes[node].host.work {
        Work::Task { spec, .. } => spec,
        other => panic!("{other:?}"),
    };
    assert!(Arc::ptr_eq(spec(0), spec(N_NODES as usize - 1)), "equal nodes share one");
}

#[test]
fn a_chain_of_many_nodes_is_made_in_one_go() {
    check_chain(false);
}

#[test]
fn a_chain_of_many_wires_is_made_in_one_go() {
    check_chain(true);
}

/// How long this thread has been working, however busy the machine is; zero where nobody knows.
fn time_of_thread() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

#[test]
fn a_circle_of_many_nodes_is_told_in_a_line() {
    let n = 5_000;
    let mut text = chain(n, true);
    text.truncate(text.len() - 2);
    write!(text, r#",{{"source":{{"node":"{}"}},"target":{{"node":"{}"}}}}]}}"#, id(n - 1), id(0))
        .expect("a text takes all");
    let problems = flow::compile(Bytes::from(text)).expect_err("it never ends");
    assert_eq!(problems.len(), 1, "{}", told(&problems));
    assert_eq!(problems[0].code, "E.FLOW.CYCLE");
    let message = &problems[0].message;
    assert!(message.contains("Step 0 -> Step 1 -> ") && message.contains("more)"), "{message}");
    assert!(message.len() < 1_000, "{message}");
}

#[test]
fn there_is_an_end_to_everything() {
    let many = |n: usize, item: &str| vec![item; n].join(",");
    let nodes = format!(r#"{{"nodes": [{}]}}"#, many(200_001, "{}"));
    check(
        &nodes,
        &expect_test::expect![[r"
        E.FLOW.LIMIT : the definition has more than 200000 nodes; split it
    "]],
    );
    let edges = format!(r#"{{"edges": [{}]}}"#, many(1_000_001, "{}"));
    check(
        &edges,
        &expect_test::expect![[r"
        E.FLOW.LIMIT : the definition has more than 1000000 edges; split it
    "]],
    );
    let numbers = format!(r#"{{"nodes": [{}]}}"#, many(1_001, "0"));
    check(
        &numbers,
        &expect_test::expect![[r"
            E.FLOW.LIMIT : the definition has more than 1000 elements of the wrong kind in its lists; split it
        "]],
    );
    let deep = format!(r#"{{"nodes": {}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    check(
        &deep,
        &expect_test::expect![[r"
        E.FLOW.INVALID /id: id is missing; it must be a UUID
        E.FLOW.INVALID /nodes/0: nodes[0] is a list; it must be an object
    "]],
    );
    let blank = " ".repeat(64 * 1024 * 1024 + 1);
    check(
        &blank,
        &expect_test::expect![[r"
        E.FLOW.LIMIT : the definition has 67108865 bytes, at most 67108864 are taken
    "]],
    );
}
