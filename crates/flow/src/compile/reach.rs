//! Ports of containers that reach into their subgraphs.

use std::collections::BTreeMap;

use crate::compile::Context;
use crate::compile::ports::{Side, bound};
use crate::problem::Problems;
use crate::program::{ContainerPorts, Root};

/// What containers do with the nodes of a graph, from outside.
#[derive(Debug, Default)]
pub(crate) struct Reached {
    /// Nodes whose values they give on, and whether parameters are among these.
    pub(crate) read: BTreeMap<u32, bool>,
    /// Nodes into whose parameters they put values, and where.
    pub(crate) fed: BTreeMap<u32, Vec<Vec<String>>>,
}

/// The ports of all containers of a graph, by the container's place. What they reach is noted
/// with the graph that it stands in.
pub(crate) fn ports(
    context: &Context<'_>,
    reached: &mut [Reached],
) -> BTreeMap<u32, ContainerPorts> {
    let mut made = BTreeMap::new();
    for index in context.inner().keys() {
        let mut ports = ContainerPorts::default();
        for side in [Side::Input, Side::Output] {
            one_side(context, *index, side, &mut ports, reached);
        }
        made.insert(*index, ports);
    }
    made
}

fn one_side(
    context: &Context<'_>,
    index: u32,
    side: Side,
    ports: &mut ContainerPorts,
    reached: &mut [Reached],
) {
    let Some(node) = context.source().node(index as usize) else { return };
    // What is odd about a port is told where an edge uses it.
    let mut untold = Problems::default();
    let root = context.source().place();
    for port in side.ports(node).items().iter().filter_map(|port| port.given()) {
        let found = bound(context, index, (port, side), &root, &mut untold);
        let Some((node, path, inside)) =
            found.and_then(|bound| Some((bound.node, bound.path, bound.inside?)))
        else {
            continue;
        };
        if node != index {
            continue;
        }
        let reached = &mut reached[inside.graph as usize];
        match side {
            Side::Input => {
                reached.fed.entry(inside.node).or_default().push(inside.path.clone());
                ports.inputs.push((path, inside.node, inside.path));
            }
            Side::Output => {
                let parameters = reached.read.entry(inside.node).or_default();
                *parameters |= inside.root == Root::Parameters;
                ports.outputs.push((inside.node, inside.root, inside.path, path));
            }
        }
    }
}
