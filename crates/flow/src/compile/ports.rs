//! Edges and ports: who comes first, what flows, and what containers reach in their subgraphs.

use std::collections::BTreeMap;

use super::Context;
use super::sources::{IdKey, name_of, place_of};
use crate::definition::{End, Node, Port};
use crate::path;
use crate::problem::{Place, Problems, code, quoted};
use crate::program::{ContainerPorts, Endpoint, Root, Wire};

/// So many ports are offered to who named one that is not there.
const PORTS_TOLD_MAX: usize = 10;

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
    /// The node or the middleware that it goes to.
    pub(super) fn step(&self) -> (u32, Option<u32>) {
        (self.to.node, self.to.middleware)
    }

    /// The same, as it is executed.
    pub(super) fn into_wire(self) -> Wire {
        let Bound { node, middleware, root, path, inside: _ } = self.from;
        Wire { from: Endpoint { node, middleware, root, path }, to: self.to.path }
    }
}

/// Reads the edges of a graph: which node comes before which, as often as it is said; and what
/// flows, by the step that it goes to, those of one step in the order of the edges.
pub(super) fn edges(context: &Context<'_>) -> (Vec<(u32, u32)>, Vec<Flow>) {
    let edges = context.source().workflow.edges.items();
    let (mut order, mut flows) = (Vec::with_capacity(edges.len()), Vec::new());
    let root = context.place();
    let list = root.key("edges");
    for (position, edge) in edges.iter().enumerate() {
        let Some(edge) = edge.given() else { continue };
        let place = list.index(position);
        let (Some(from), Some(to)) = (edge.source.given(), edge.target.given()) else { continue };
        let (at_source, at_target) = (place.key("source"), place.key("target"));
        let from_node = node_of(context, from, &at_source);
        let to_node = node_of(context, to, &at_target);
        let from = from_node.and_then(|node| end(context, node, (from, Side::Output), &at_source));
        let to = to_node.and_then(|node| end(context, node, (to, Side::Input), &at_target));
        if let (Some(from), Some(to)) = (from_node, to_node) {
            order.push((from, to));
        }
        if let (Some(from), Some(to)) = (from, to) {
            if Some(from.node) != from_node || Some(to.node) != to_node {
                order.push((from.node, to.node));
            }
            flows.push(Flow { from, to, edge: position });
        }
    }
    flows.sort_by_key(Flow::step);
    (order, flows)
}

fn node_of(context: &Context<'_>, end: &End<'_>, at: &Place<'_>) -> Option<u32> {
    let id = end.node.given()?;
    let found = context.source().by_id(id);
    if found.is_none() {
        let message = format_args!(
            "there is no node {} in this graph; remove the edge, or name the id of a node",
            quoted(id)
        );
        at.key("node").about(id).error(code::UNKNOWN_NODE, message);
    }
    found
}

fn end(
    context: &Context<'_>,
    node: u32,
    (end, side): (&End<'_>, Side),
    at: &Place<'_>,
) -> Option<Bound> {
    let port = end.port.text();
    if port.is_empty() {
        return None;
    }
    let at = at.key("port").about(end.node.text());
    let bound = resolve(context, node, (port, side), &at)?;
    if side == Side::Output && bound.middleware.is_some() && bound.root == Root::Parameters {
        let message = "the port is bound to parameters of a middleware, which nobody else sees; \
                       the edge only says what comes first";
        at.warning(code::UNKNOWN_PORT, message);
        return None;
    }
    Some(bound)
}

/// Whether an edge begins or ends at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Output,
    Input,
}

impl Side {
    fn ports<'s>(self, node: &'s Node<'s>) -> impl Iterator<Item = &'s Port<'s>> + Clone {
        let ports = node.ui.given().map(|ui| match self {
            Self::Output => ui.output_ports.items(),
            Self::Input => ui.input_ports.items(),
        });
        ports.unwrap_or_default().iter().filter_map(|port| port.given())
    }
}

/// The value that a port stands for.
#[derive(Debug)]
pub(crate) struct Bound {
    /// The node whose value it is.
    pub(crate) node: u32,
    /// One of its middlewares.
    pub(crate) middleware: Option<u32>,
    /// Parameters or results.
    pub(crate) root: Root,
    /// Where below.
    pub(crate) path: Vec<String>,
    /// For a port that reaches into a container's subgraph: what it means there.
    pub(crate) inside: Option<Inside>,
}

/// A value inside a container's subgraph.
#[derive(Debug)]
pub(crate) struct Inside {
    /// The subgraph.
    pub(crate) graph: u32,
    /// The node there.
    pub(crate) node: u32,
    /// Parameters or results.
    pub(crate) root: Root,
    /// Where below.
    pub(crate) path: Vec<String>,
}

/// The value behind the name of a port; `None` when the edge only says what comes first.
fn resolve(
    context: &Context<'_>,
    node: u32,
    (port, side): (&str, Side),
    at: &Place<'_>,
) -> Option<Bound> {
    let host = context.source().node(node as usize)?;
    let Some(name) = port.strip_prefix("mw:") else {
        return bound(context, node, (find(host, side, port, at)?, side), at);
    };
    let (level, side, key) = of_middleware(host, name, at)?;
    let middleware = host.middlewares.items()[level].given()?;
    let port = find(middleware, side, key, at)?;
    let mut bound = bound(context, node, (port, side), at)?;
    // A prefix leads away from the middleware.
    if bound.node == node && bound.inside.is_none() {
        bound.middleware = Some(place_of(level));
    }
    Some(bound)
}

/// `<middleware id>:<input|output>:<port>`.
fn of_middleware<'p>(
    host: &Node<'_>,
    name: &'p str,
    at: &Place<'_>,
) -> Option<(usize, Side, &'p str)> {
    let mut parts = name.splitn(3, ':');
    let (id, side, key) = (parts.next()?, parts.next(), parts.next());
    let (side, key) = match (side, key) {
        (Some("input"), Some(key)) => (Side::Input, key),
        (Some("output"), Some(key)) => (Side::Output, key),
        _ => {
            let message =
                "a port of a middleware is written mw:<middleware id>:<input or output>:<port>";
            at.error(code::UNKNOWN_PORT, message);
            return None;
        }
    };
    let is_it = |node: &Node<'_>| IdKey::from(node.id.text()) == IdKey::from(id);
    let Some((level, _)) = host.levels().find(|(_, middleware)| is_it(middleware)) else {
        let (name, id) = (quoted(name_of(host)), quoted(id));
        let message = format_args!(
            "{name} has no middleware {id}; add it, or connect the edge to a port of the node"
        );
        at.error(code::MIDDLEWARE, message);
        return None;
    };
    Some((level, side, key))
}

fn find<'s>(owner: &'s Node<'s>, side: Side, key: &str, at: &Place<'_>) -> Option<&'s Port<'s>> {
    if key.is_empty() {
        return None;
    }
    let ports = side.ports(owner);
    if let Some(port) = ports.clone().find(|port| port.key.text() == key) {
        return Some(port);
    }
    let side = if side == Side::Output { "output" } else { "input" };
    let (name, key) = (quoted(name_of(owner)), quoted(key));
    let known: Vec<_> = ports.map(|port| port.key.text()).take(PORTS_TOLD_MAX).collect();
    if known.is_empty() {
        let message = format_args!(
            "{name} declares no {side} ports, so nothing flows through {key}; \
             the edge only says what comes first"
        );
        at.warning(code::UNKNOWN_PORT, message);
    } else {
        let known = known.join(", ");
        let known = quoted(&known);
        let message = format_args!("{name} has no {side} port {key}; it has {known}");
        at.error(code::UNKNOWN_PORT, message);
    }
    None
}

/// What a port is bound to, from the point of view of the node that it belongs to.
fn bound(
    context: &Context<'_>,
    node: u32,
    (port, side): (&Port<'_>, Side),
    at: &Place<'_>,
) -> Option<Bound> {
    let binding = port.binding.given()?;
    let (root, path) = path_of(binding.path.given()?, side, at)?;
    let prefix = binding.prefix.text();
    if prefix.is_empty() {
        return Some(Bound { node, middleware: None, root, path, inside: None });
    }
    let Some((node, inner)) = retarget(context, node, prefix) else {
        let message = format_args!(
            "the port's prefix {} leads to no node here; the edge only says what comes first",
            quoted(prefix)
        );
        at.warning(code::UNKNOWN_PORT, message);
        return None;
    };
    let Some((graph, inner)) = inner else {
        return Some(Bound { node, middleware: None, root, path, inside: None });
    };
    let inside = Some(Inside { graph, node: inner, root, path });
    // On the container itself the value has the name of the port.
    let root = if side == Side::Input { Root::Parameters } else { Root::Results };
    Some(Bound { node, middleware: None, root, path: vec![port.key.text().to_owned()], inside })
}

fn path_of(text: &str, side: Side, at: &Place<'_>) -> Option<(Root, Vec<String>)> {
    let why = match path::parse(text) {
        None => "which is no path below parameters or results",
        Some((Root::Results, _)) if side == Side::Input => "and nothing flows into results",
        Some(found) => return Some(found),
    };
    let text = quoted(text);
    let message =
        format_args!("the port is bound to {text}, {why}; the edge only says what comes first");
    at.warning(code::UNKNOWN_PORT, message);
    None
}

/// `#node` is another node of this graph, or one inside the container that has the port;
/// `@container.#node` is one inside that container.
fn retarget(context: &Context<'_>, owner: u32, prefix: &str) -> Option<(u32, Option<(u32, u32)>)> {
    let source = context.source();
    let (container, id) = match prefix.strip_prefix('@') {
        None => (owner, prefix.strip_prefix('#')?),
        Some(rest) => {
            let (aliases, id) = rest.split_once('#')?;
            (source.by_name(aliases.trim_end_matches('.')).unwrap_or(owner), id)
        }
    };
    if container == owner
        && let Some(node) = source.by_id(id)
    {
        return Some((node, None));
    }
    let graph = *source.inner.get(&container)?;
    let node = context.sources[graph as usize].by_id(id)?;
    Some((container, Some((graph, node))))
}

/// What containers do with the nodes of a graph, from outside.
#[derive(Debug, Default)]
pub(crate) struct Reached {
    /// Nodes whose values they give on, and whether parameters are among these.
    pub(super) read: BTreeMap<u32, bool>,
    /// Nodes into whose parameters they put values, and where.
    pub(super) fed: BTreeMap<u32, Vec<Vec<String>>>,
}

/// The ports of all containers of a graph, by the container's place. What they reach is noted
/// with the graph that it stands in.
pub(super) fn container_ports(
    context: &Context<'_>,
    reached: &mut [Reached],
) -> BTreeMap<u32, ContainerPorts> {
    // What is odd about a port is told where an edge uses it.
    let untold = Problems::default();
    let mut made = BTreeMap::new();
    for index in context.source().inner.keys() {
        let ports: &mut ContainerPorts = made.entry(*index).or_default();
        let Some(node) = context.source().node(*index as usize) else { continue };
        for side in [Side::Input, Side::Output] {
            for port in side.ports(node) {
                if let Some(bound) = bound(context, *index, (port, side), &untold.at(""))
                    && bound.node == *index
                    && let Some(inside) = bound.inside
                {
                    let reached = &mut reached[inside.graph as usize];
                    note_port(side, bound.path, inside, ports, reached);
                }
            }
        }
    }
    made
}

fn note_port(
    side: Side,
    path: Vec<String>,
    inside: Inside,
    ports: &mut ContainerPorts,
    reached: &mut Reached,
) {
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
