//! Edges: who comes first, and what flows.

use crate::compile::Context;
use crate::compile::ports::{Bound, Side, resolve};
use crate::definition::End;
use crate::problem::{Place, Problems, Quoted, code};
use crate::program::{Endpoint, Root, Wire};

/// A value that flows from one place to another.
#[derive(Debug)]
pub(crate) struct Flow {
    /// Where it comes from.
    pub(crate) from: Bound,
    /// Where it goes.
    pub(crate) to: Bound,
    /// The edge that says so.
    pub(crate) edge: usize,
}

impl Flow {
    /// Where it goes.
    pub(crate) fn step(&self) -> (u32, Option<u32>) {
        (self.to.node, self.to.middleware)
    }

    /// The same, as it is executed.
    pub(crate) fn into_wire(self) -> Wire {
        let Bound { node, middleware, root, path, inside: _ } = self.from;
        Wire { from: Endpoint { node, middleware, root, path }, to: self.to.path }
    }
}

/// What the edges of a graph say.
#[derive(Debug, Default)]
pub(crate) struct Edges {
    /// (who comes first, who comes after), as often as it is said.
    pub(crate) order: Vec<(u32, u32)>,
    /// By the step that they go to; those of one step in the order of the edges.
    pub(crate) flows: Vec<Flow>,
}

impl Edges {
    /// What flows into one step: a node, or one of its middlewares.
    pub(crate) fn flows_into(&self, node: u32, middleware: Option<u32>) -> &[Flow] {
        let step = (node, middleware);
        let begin = self.flows.partition_point(|flow| flow.step() < step);
        let n = self.flows[begin..].partition_point(|flow| flow.step() == step);
        &self.flows[begin..begin + n]
    }
}

/// Reads the edges of a graph.
pub(crate) fn edges(context: &Context<'_>, problems: &mut Problems) -> Edges {
    let source = context.source();
    let n_edges = source.workflow.edges.items().len();
    let mut made = Edges { order: Vec::with_capacity(n_edges), flows: Vec::new() };
    let root = source.place();
    let list = root.key("edges");
    for (position, edge) in source.workflow.edges.items().iter().enumerate() {
        let Some(edge) = edge.given() else { continue };
        let place = list.index(position);
        let (Some(from), Some(to)) = (edge.source.given(), edge.target.given()) else { continue };
        let at_source = place.key("source");
        let at_target = place.key("target");
        let from_node = node_of(context, from, &at_source, problems);
        let to_node = node_of(context, to, &at_target, problems);
        let from = from_node
            .and_then(|node| end(context, node, (from, Side::Output), &at_source, problems));
        let to =
            to_node.and_then(|node| end(context, node, (to, Side::Input), &at_target, problems));
        if let (Some(from), Some(to)) = (from_node, to_node) {
            made.order.push((from, to));
        }
        if let (Some(from), Some(to)) = (from, to) {
            if Some(from.node) != from_node || Some(to.node) != to_node {
                made.order.push((from.node, to.node));
            }
            made.flows.push(Flow { from, to, edge: position });
        }
    }
    made.flows.sort_by_key(Flow::step);
    made
}

fn node_of(
    context: &Context<'_>,
    end: &End<'_>,
    at: &Place<'_>,
    problems: &mut Problems,
) -> Option<u32> {
    let id = end.node.given()?;
    let found = context.names().by_id(id);
    if found.is_none() {
        let id = Quoted(id);
        let message = format_args!(
            "there is no node {id} in this graph; remove the edge, or name \
                                    the id of a node"
        );
        problems.error(code::UNKNOWN_NODE, &at.key("node").about(end.node.text()), message);
    }
    found
}

fn end(
    context: &Context<'_>,
    node: u32,
    (end, side): (&End<'_>, Side),
    at: &Place<'_>,
    problems: &mut Problems,
) -> Option<Bound> {
    let port = end.port.text();
    if port.is_empty() {
        return None;
    }
    let at = at.key("port").about(end.node.text());
    let bound = resolve(context, node, (port, side), &at, problems)?;
    if side == Side::Output && bound.middleware.is_some() && bound.root == Root::Parameters {
        let message = "the port is bound to parameters of a middleware, which nobody else sees; \
                       the edge only says what comes first";
        problems.warning(code::UNKNOWN_PORT, &at, format_args!("{message}"));
        return None;
    }
    Some(bound)
}
