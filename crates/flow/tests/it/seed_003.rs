//! The workflow of seed 003 section 4, as it stands there.

use bytes::Bytes;
use flow::{Parameters, Program, Root, Work};
use serde::Deserialize;
use serde_json::value::RawValue;

const REQUEST: &str = include_str!("../../../../docs/examples/run-request.json");

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(rename = "clientId")]
    client: &'a str,
    #[serde(borrow)]
    workflow: &'a RawValue,
}

fn request() -> Request<'static> {
    serde_json::from_str(REQUEST).expect("the example is JSON")
}

fn program() -> Program {
    let source = Bytes::from_static(request().workflow.get().as_bytes());
    let compiled = flow::compile(source).expect("nothing is wrong with it");
    assert_eq!(compiled.warnings, []);
    compiled.program
}

#[test]
fn it_becomes_two_nodes_in_a_row() {
    let program = program();
    assert_eq!(program.graphs.len(), 1);
    let graph = &program.graphs[0];
    assert_eq!(graph.name, "Playwright Smoke Check");
    assert_eq!(graph.id.to_string(), "ba55c67a-9ad4-4b6f-a719-b84e774c2d11");
    assert_eq!(graph.roots, [0]);
    let [open, click] = &graph.nodes[..] else { panic!("{} nodes", graph.nodes.len()) };
    assert_eq!((open.name(), click.name()), ("Open Base Page".into(), "Click Login".into()));
    assert_eq!((&open.waits_for[..], &open.followers[..]), (&[][..], &[1][..]));
    assert_eq!((&click.waits_for[..], &click.followers[..]), (&[0][..], &[][..]));
    assert_eq!((open.readers, click.readers), (1, 1));
    assert_eq!(graph.outputs_read, [1]);
}

#[test]
fn both_edges_carry_data() {
    let program = program();
    let click = &program.graphs[0].nodes[1];
    let wires =
        click.host.wires.iter().map(|wire| {
            (wire.from.node, wire.from.root, wire.from.path.join("."), wire.to.join("."))
        });
    assert_eq!(
        wires.collect::<Vec<_>>(),
        [
            (0, Root::Results, "done".to_owned(), "trigger".to_owned()),
            (0, Root::Results, "page".to_owned(), "page".to_owned()),
        ]
    );
    assert!(matches!(
        &click.host.parameters,
        Parameters::Open { authored, has_expressions: false } if authored["waitFor"] == "visible"
    ));
}

#[test]
fn the_first_node_is_given_the_bytes_that_were_authored() {
    let program = program();
    let Parameters::Plain(bytes) = &program.graphs[0].nodes[0].host.parameters else {
        panic!("nothing flows into the first node")
    };
    let source = program.source.as_ptr_range();
    assert!(source.contains(&bytes.as_ptr()), "a slice of the definition, not a copy");
    assert!(bytes.starts_with(b"{\n") && bytes.ends_with(b"}"));
}

#[test]
fn workers_need_the_type_and_the_package() {
    let program = program();
    let Work::Task { spec, .. } = &program.graphs[0].nodes[1].host.work else {
        panic!("a worker clicks")
    };
    assert_eq!(spec.demand.task_type.as_str(), "playwright.click");
    assert_eq!(spec.demand.queue.as_str(), "default");
    let package = spec.demand.package.as_ref().expect("it has one");
    assert_eq!(
        (package.name.as_str(), package.version.as_str()),
        ("crawlerx_playwright", "2025.10.0")
    );
}

#[test]
fn the_example_names_a_client() {
    assert!(uuid::Uuid::try_parse(request().client).is_ok());
}
