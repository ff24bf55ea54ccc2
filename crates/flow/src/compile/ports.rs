//! Ports: what an edge means by the name at its end.

use crate::compile::Context;
use crate::compile::names::IdKey;
use crate::compile::sources::place_of;
use crate::definition::{List, Node, Port};
use crate::path;
use crate::problem::{Place, Problems, Quoted, code};
use crate::program::Root;

/// Whether an edge begins or ends at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// It begins here.
    Output,
    /// It ends here.
    Input,
}

impl Side {
    pub(crate) fn ports<'s>(self, node: &'s Node<'s>) -> &'s List<Port<'s>> {
        static NONE: List<Port<'static>> = List::Absent;
        match (node.ui.given(), self) {
            (Some(ui), Self::Output) => &ui.output_ports,
            (Some(ui), Self::Input) => &ui.input_ports,
            (None, _) => &NONE,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Output => "output",
            Self::Input => "input",
        }
    }
}

/// The value that a port stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
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
pub(crate) fn resolve(
    context: &Context<'_>,
    node: u32,
    (port, side): (&str, Side),
    at: &Place<'_>,
    problems: &mut Problems,
) -> Option<Bound> {
    let host = context.source().node(node as usize)?;
    if let Some(name) = port.strip_prefix("mw:") {
        let (level, side, key) = of_middleware(host, name, at, problems)?;
        let middleware = host.middlewares.items()[level].given()?;
        let port = find(middleware, side, key, at, problems)?;
        let mut bound = bound(context, node, (port, side), at, problems)?;
        // A prefix leads away from the middleware.
        if bound.node == node && bound.inside.is_none() {
            bound.middleware = Some(place_of(level));
        }
        return Some(bound);
    }
    let port = find(host, side, port, at, problems)?;
    bound(context, node, (port, side), at, problems)
}

/// `<middleware id>:<input|output>:<port>`.
fn of_middleware<'p>(
    host: &Node<'_>,
    name: &'p str,
    at: &Place<'_>,
    problems: &mut Problems,
) -> Option<(usize, Side, &'p str)> {
    let mut parts = name.splitn(3, ':');
    let (id, side, key) = (parts.next()?, parts.next(), parts.next());
    let side = match side {
        Some("input") => Some(Side::Input),
        Some("output") => Some(Side::Output),
        Some(_) | None => None,
    };
    let (Some(side), Some(key)) = (side, key) else {
        let message =
            "a port of a middleware is written mw:<middleware id>:<input or output>:<port>";
        problems.error(code::UNKNOWN_PORT, at, format_args!("{message}"));
        return None;
    };
    let is_it = |node: &Node<'_>| IdKey::from(node.id.text()) == IdKey::from(id);
    let middlewares = host.middlewares.items().iter();
    let level = middlewares.map(|one| one.given()).position(|one| one.is_some_and(|it| is_it(it)));
    if level.is_none() {
        let message = format_args!(
            "{} has no middleware {}; add it, or connect the edge to a port of the node",
            Quoted(super::sources::name_of(host)),
            Quoted(id),
        );
        problems.error(code::MIDDLEWARE, at, message);
    }
    Some((level?, side, key))
}

fn find<'s>(
    owner: &'s Node<'s>,
    side: Side,
    key: &str,
    at: &Place<'_>,
    problems: &mut Problems,
) -> Option<&'s Port<'s>> {
    if key.is_empty() {
        return None;
    }
    let ports = side.ports(owner).items().iter().filter_map(|port| port.given());
    if let Some(port) = ports.clone().find(|port| port.key.text() == key) {
        return Some(port);
    }
    let (name, side) = (Quoted(super::sources::name_of(owner)), side.word());
    let known: Vec<_> = ports.map(|port| port.key.text()).take(PORTS_TOLD_MAX).collect();
    let key = Quoted(key);
    if known.is_empty() {
        let message = format_args!(
            "{name} declares no {side} ports, so nothing flows through {key}; \
             the edge only says what comes first"
        );
        problems.warning(code::UNKNOWN_PORT, at, message);
    } else {
        let known = known.join(", ");
        let message = format_args!("{name} has no {side} port {key}; it has {}", Quoted(&known));
        problems.error(code::UNKNOWN_PORT, at, message);
    }
    None
}

/// So many ports are offered to who named one that is not there.
const PORTS_TOLD_MAX: usize = 10;

/// What a port is bound to, from the point of view of the node that it belongs to.
pub(crate) fn bound(
    context: &Context<'_>,
    node: u32,
    (port, side): (&Port<'_>, Side),
    at: &Place<'_>,
    problems: &mut Problems,
) -> Option<Bound> {
    let binding = port.binding.given()?;
    let (root, path) = path_of(binding.path.given()?, side, at, problems)?;
    let prefix = binding.prefix.text();
    if prefix.is_empty() {
        return Some(Bound { node, middleware: None, root, path, inside: None });
    }
    let Some((node, inner)) = retarget(context, node, prefix) else {
        let message = format_args!(
            "the port's prefix {} leads to no node here; the edge only says what comes first",
            Quoted(prefix)
        );
        problems.warning(code::UNKNOWN_PORT, at, message);
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

fn path_of(
    text: &str,
    side: Side,
    at: &Place<'_>,
    problems: &mut Problems,
) -> Option<(Root, Vec<String>)> {
    let why = match path::parse(text) {
        None => "which is no path below parameters or results",
        Some((Root::Results, _)) if side == Side::Input => "and nothing flows into results",
        Some(found) => return Some(found),
    };
    let text = Quoted(text);
    let message =
        format_args!("the port is bound to {text}, {why}; the edge only says what comes first");
    problems.warning(code::UNKNOWN_PORT, at, message);
    None
}

/// `#node` is another node of this graph, or one inside the container that has the port;
/// `@container.#node` is one inside that container.
fn retarget(context: &Context<'_>, owner: u32, prefix: &str) -> Option<(u32, Option<(u32, u32)>)> {
    let (container, id) = match prefix.strip_prefix('@') {
        None => (owner, prefix.strip_prefix('#')?),
        Some(rest) => {
            let (aliases, id) = rest.split_once('#')?;
            (context.names().by_name(aliases.trim_end_matches('.')).unwrap_or(owner), id)
        }
    };
    if container == owner
        && let Some(node) = context.names().by_id(id)
    {
        return Some((node, None));
    }
    let graph = *context.inner().get(&container)?;
    let node = context.names_of(graph).by_id(id)?;
    Some((container, Some((graph, node))))
}
