//! Who waits for whom in a graph, and who looks at whom.

use crate::compile::draft::NodeDraft;
use crate::compile::edges::Edges;
use crate::compile::sources::place_of;
use crate::program::Root;

/// How one node is tied to the others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links {
    /// Those that come first.
    pub(crate) waits_for: Vec<u32>,
    /// Those that come after.
    pub(crate) followers: Vec<u32>,
    /// How many look at it.
    pub(crate) readers: u32,
    /// Whether someone looks at its parameters.
    pub(crate) keeps_parameters: bool,
}

/// Ties the nodes of a graph together, by edges and by expressions.
pub(crate) fn links(n_nodes: usize, edges: &Edges, drafts: &[NodeDraft<'_>]) -> Vec<Links> {
    let mut links = vec![Links::default(); n_nodes];
    let mut order = edges.order.clone();
    let mut reads: Vec<(u32, u32)> = Vec::new();
    for flow in &edges.flows {
        reads.push((flow.from.node, flow.to.node));
        links[flow.from.node as usize].keeps_parameters |= flow.from.root == Root::Parameters;
    }
    for draft in drafts {
        reads.extend(draft.references.nodes.iter().map(|node| (*node, draft.index)));
        for node in &draft.references.parameters {
            links[*node as usize].keeps_parameters = true;
        }
    }
    order.extend(&reads);
    for (first, then) in each_once(order) {
        links[first as usize].followers.push(then);
        links[then as usize].waits_for.push(first);
    }
    for (read, _) in each_once(reads) {
        links[read as usize].readers += 1;
    }
    links
}

fn each_once(mut pairs: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// The nodes that nobody waits for.
pub(crate) fn ends(links: &[Links]) -> Vec<u32> {
    let ends = links.iter().enumerate().filter(|(_, links)| links.followers.is_empty());
    ends.map(|(index, _)| place_of(index)).collect()
}
