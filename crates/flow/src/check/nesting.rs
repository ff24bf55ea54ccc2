//! Graphs in graphs: none contains itself, and all of them together stay within bounds.

use super::cycle;
use crate::compile::{Inner, Links, Sources, place_of};
use crate::problem::{Place, Problems, Quoted, code};

/// Containers in containers in containers.
pub const NESTING_MAX: usize = 16;
/// Nodes of the workflow and of everything that its containers stand for, each as often as it
/// is executed.
pub const NODES_EXECUTED_MAX: u64 = 1_000_000;

/// Tells subgraphs that contain themselves, and what nests too deep or multiplies too much.
pub(crate) fn check(sources: &Sources<'_>, inner: &[Inner], problems: &mut Problems) {
    let links = links(inner);
    let order = cycle::order(&links);
    for cycle in cycle::cycles(&links, &order) {
        tell(sources, inner, &cycle, problems);
    }
    let root = Place::root("");
    let mut depth = vec![0; inner.len()];
    let mut n_executed = vec![0_u64; inner.len()];
    // Those inside come first.
    for graph in order {
        let inside = inner[graph].values().map(|inside| *inside as usize);
        depth[graph] = inside.clone().map(|inside| depth[inside] + 1).max().unwrap_or(0);
        let own = sources.0[graph].workflow.nodes.items().len() as u64;
        n_executed[graph] =
            inside.fold(own, |sum: u64, inside| sum.saturating_add(n_executed[inside]));
    }
    if depth[0] > NESTING_MAX {
        let depth = depth[0];
        let message = format_args!(
            "containers nest {depth} levels deep; at most {NESTING_MAX} are taken, so flatten some"
        );
        problems.error(code::SUBGRAPH, &root.key("nodes"), message);
    }
    if n_executed[0] > NODES_EXECUTED_MAX {
        let n = n_executed[0];
        let message = format_args!(
            "with all that its containers stand for the workflow has {n} nodes; at most \
             {NODES_EXECUTED_MAX} are taken"
        );
        problems.error(code::LIMIT, &root.key("nodes"), message);
    }
}

/// A graph can be measured when all graphs inside it are.
fn links(inner: &[Inner]) -> Vec<Links> {
    let mut links = vec![Links::default(); inner.len()];
    for (graph, inner) in inner.iter().enumerate() {
        let mut inside: Vec<u32> = inner.values().copied().collect();
        inside.sort_unstable();
        inside.dedup();
        for inside in &inside {
            links[*inside as usize].followers.push(place_of(graph));
        }
        links[graph].waits_for = inside;
    }
    links
}

fn tell(sources: &Sources<'_>, inner: &[Inner], cycle: &[usize], problems: &mut Problems) {
    let name = |graph: usize| {
        let source = &sources.0[graph];
        let name = if source.name.is_empty() { source.id } else { source.name };
        Quoted(name).to_string()
    };
    // From the outside in; the circle of those who wait runs the other way.
    let graph = cycle[0];
    let mut names: Vec<String> = cycle.iter().rev().map(|graph| name(*graph)).collect();
    names.insert(0, name(graph));
    let inside = cycle.last().copied().unwrap_or(graph);
    let container = inner[graph].iter().find(|(_, found)| **found as usize == inside);
    let container = container.map_or(0, |(node, _)| *node as usize);
    let source = &sources.0[graph];
    let root = source.place();
    let nodes = root.key("nodes");
    let id = source.node(container).map_or("", |node| node.id.text());
    let names = cycle::path_of(names);
    let message = format_args!(
        "a subgraph contains itself: {names}; it would never end, so let this container stand for \
         another subgraph"
    );
    problems.error(code::SUBGRAPH, &nodes.index(container).about(id), message);
}
