//! Which node stands below which: middlewares below their host, a subgraph below its container.
//!
//! A container that was entered many times has its nodes many times. They share a place in the
//! tree, as the elements of a fan-out do.

use std::collections::BTreeMap;

use protocol::rest::runs::RunNode;

/// A place in the tree, with all nodes that share it; at least one.
#[derive(Debug)]
pub(super) struct Place<'a> {
    /// How far in.
    pub(super) depth: usize,
    pub(super) nodes: Vec<&'a RunNode>,
}

/// A graph: the names of the containers on the way there, and the last container's id.
type Graph<'a> = (&'a [String], &'a str);

/// The places of a run, from top to bottom.
pub(super) fn places(nodes: &[RunNode]) -> Vec<Place<'_>> {
    let mut tree = Tree { graphs: BTreeMap::new(), places: Vec::new() };
    for node in nodes {
        tree.graphs.entry(graph_of(node)).or_default().push(node);
    }
    tree.walk((&[], ""), 0);
    // Whatever hangs on nothing that is here is shown all the same.
    while let Some(graph) = tree.graphs.keys().next().copied() {
        tree.walk(graph, 0);
    }
    tree.places
}

fn graph_of(node: &RunNode) -> Graph<'_> {
    match &node.metadata.frame {
        None => (&[], ""),
        Some(frame) => (&frame.alias_chain, &frame.container_node_id),
    }
}

struct Tree<'a> {
    /// What was not placed yet.
    graphs: BTreeMap<Graph<'a>, Vec<&'a RunNode>>,
    places: Vec<Place<'a>>,
}

impl<'a> Tree<'a> {
    fn walk(&mut self, graph: Graph<'a>, depth: usize) {
        let Some(nodes) = self.graphs.remove(&graph) else { return };
        let (hosts, middlewares): (Vec<_>, Vec<_>) =
            nodes.into_iter().partition(|node| node.metadata.host_node_id.is_none());
        let mut around: BTreeMap<&str, Vec<&RunNode>> = BTreeMap::new();
        for middleware in middlewares {
            let host = middleware.metadata.host_node_id.as_deref().unwrap_or_default();
            around.entry(host).or_default().push(middleware);
        }
        for place in shared(hosts) {
            let id = place[0].node_id.as_str();
            self.places.push(Place { depth, nodes: place });
            let mut chain = around.remove(id).unwrap_or_default();
            chain.sort_by_key(|middleware| middleware.metadata.chain_index);
            let chain = shared(chain).into_iter();
            self.places.extend(chain.map(|nodes| Place { depth: depth + 1, nodes }));
            let inner = self.graphs.keys().copied().filter(|inner| is_inside(*inner, id, graph));
            for inner in inner.collect::<Vec<_>>() {
                self.walk(inner, depth + 1);
            }
        }
        let lost = around.into_values().flat_map(shared);
        self.places.extend(lost.map(|nodes| Place { depth: depth + 1, nodes }));
    }
}

fn is_inside(inner: Graph<'_>, container: &str, graph: Graph<'_>) -> bool {
    inner.1 == container && inner.0.len() == graph.0.len() + 1 && inner.0.starts_with(graph.0)
}

/// Nodes with the same id together, in the order of the first of each.
fn shared(nodes: Vec<&RunNode>) -> Vec<Vec<&RunNode>> {
    let mut at: BTreeMap<&str, usize> = BTreeMap::new();
    let mut places: Vec<Vec<&RunNode>> = Vec::new();
    for node in nodes {
        let place = *at.entry(&node.node_id).or_insert_with(|| {
            places.push(Vec::new());
            places.len() - 1
        });
        places[place].push(node);
    }
    places
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn middlewares_and_subgraphs_hang_below_their_node() {
        let frame = |chain: &[&str], container: &str, number: u32| {
            json!({"__frame": {"frameId": number.to_string(), "frame": number,
                "containerNodeId": container, "subgraphId": "s", "aliasChain": chain,
                "subgraphName": "inner"}})
        };
        let nodes = [
            node("first", &json!({})),
            node("loop", &json!({"host_node_id": "box", "chain_index": 1})),
            node("retry", &json!({"host_node_id": "box", "chain_index": 0})),
            node("box", &json!({"role": "container"})),
            node("work", &frame(&["box"], "box", 1)),
            node("work", &frame(&["box"], "box", 2)),
            node("deep", &frame(&["box", "inner box"], "work", 3)),
            node("last", &json!({})),
            node("stray", &frame(&["gone"], "gone", 4)),
        ];
        let shown: Vec<_> = places(&nodes)
            .iter()
            .map(|place| (place.depth, place.nodes[0].node_id.clone(), place.nodes.len()))
            .collect();
        let expected = [
            (0, "first", 1),
            (0, "box", 1),
            (1, "retry", 1),
            (1, "loop", 1),
            (1, "work", 2),
            (2, "deep", 1),
            (0, "last", 1),
            (0, "stray", 1),
        ];
        assert_eq!(shown, expected.map(|(depth, id, n)| (depth, id.to_owned(), n)));
    }

    fn node(id: &str, metadata: &serde_json::Value) -> RunNode {
        let node = json!({"nodeId": id, "status": "queued", "type": "core.noop", "attempts": 0,
            "metadata": metadata});
        serde_json::from_value(node).expect("a node")
    }
}
