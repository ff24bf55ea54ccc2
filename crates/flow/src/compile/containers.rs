//! Containers, and the subgraphs that they stand for.

use serde::Deserialize;
use std::borrow::Cow;

use crate::compile::sources::Sources;
use crate::definition::Node;
use crate::problem::{Place, Problems, Quoted, code};

/// The type of a node that stands for a subgraph.
pub(crate) const CONTAINER_TYPE: &str = "workflow.container";
/// The role that says the same.
pub(crate) const CONTAINER_ROLE: &str = "container";
/// The parameter that names the subgraph.
pub(crate) const CONTAINER_KEY: &str = "__container";

/// Whether a node stands for a subgraph.
pub(crate) fn is_container(node: &Node<'_>) -> bool {
    node.kind.text() == CONTAINER_TYPE || node.role.text() == CONTAINER_ROLE
}

/// The container's own parameters, as far as they name the subgraph.
#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow, rename = "__container", default)]
    container: Option<Target<'a>>,
}

#[derive(Deserialize)]
struct Target<'a> {
    #[serde(borrow, rename = "subgraphId", alias = "subgraph_id", default)]
    subgraph: Option<Cow<'a, str>>,
}

/// The subgraph of each container of a graph, by the node's place.
pub(crate) type Inner = std::collections::BTreeMap<u32, u32>;

/// Finds the subgraphs of all containers of one graph.
pub(crate) fn inner(sources: &Sources<'_>, graph: usize, problems: &mut Problems) -> Inner {
    let source = &sources.0[graph];
    let root = source.place();
    let nodes = root.key("nodes");
    let mut found = Inner::new();
    for (index, node) in source.nodes().filter(|(_, node)| is_container(node)) {
        let place = nodes.index(index as usize).about(node.id.text());
        let at = place.key("parameters");
        let at = at.key(CONTAINER_KEY);
        if let Some(subgraph) = subgraph_of(sources, graph, node, &at, problems) {
            found.insert(index, subgraph);
        }
    }
    found
}

fn subgraph_of(
    sources: &Sources<'_>,
    graph: usize,
    node: &Node<'_>,
    at: &Place<'_>,
    problems: &mut Problems,
) -> Option<u32> {
    let named = node.parameters.map(|raw| serde_json::from_str::<Named<'_>>(raw.get()));
    let named = named.and_then(Result::ok).and_then(|named| named.container);
    let Some(id) = named.and_then(|target| target.subgraph) else {
        let message = "a container names its subgraph in parameters.__container.subgraphId; \
                       it is missing here";
        problems.error(code::SUBGRAPH, at, format_args!("{message}"));
        return None;
    };
    let found = sources.find(graph, &id);
    if found.is_none() {
        let message = format_args!(
            "there is no subgraph {}; add it to subgraphs, or name another one",
            Quoted(&id)
        );
        problems.error(code::SUBGRAPH, &at.key("subgraphId"), message);
    }
    found
}
