//! The graphs of a definition: the workflow itself, and its subgraphs, however deep they stand; who
//! is meant by a name in them, and which subgraph a container stands for.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use uuid::Uuid;

use crate::definition::{Node, Text, Workflow};
use crate::problem::{Place, Problems, code, quoted};

/// How long a UUID is as people write it.
const UUID_LENGTH: usize = 36;
/// The type of a node that stands for a subgraph.
const CONTAINER_TYPE: &str = "workflow.container";
/// The role that says the same.
const CONTAINER_ROLE: &str = "container";
/// The parameter that names the subgraph.
pub(crate) const CONTAINER_KEY: &str = "__container";

/// A UUID in its usual form, with hyphens.
pub(crate) fn uuid(text: &str) -> Option<Uuid> {
    if text.len() == UUID_LENGTH { Uuid::try_parse(text).ok() } else { None }
}

/// What makes two ids the same. Letters of a UUID may be large or small; what is no UUID is told
/// as a problem, and still found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum IdKey<'a> {
    Uuid(Uuid),
    Text(&'a str),
}

impl<'a> From<&'a str> for IdKey<'a> {
    fn from(text: &'a str) -> Self {
        uuid(text).map_or(Self::Text(text), Self::Uuid)
    }
}

/// One graph as authored.
#[derive(Debug)]
pub(crate) struct Source<'s> {
    /// Its nodes and edges.
    pub(crate) workflow: &'s Workflow<'s>,
    /// Its own id: of the workflow, or of the subgraph.
    pub(crate) id: &'s str,
    /// A name for people.
    pub(crate) name: &'s str,
    /// Where it stands in the document.
    pub(crate) pointer: String,
    /// The graph that it stands in.
    above: Option<usize>,
    /// Subgraphs that stand in it.
    subgraphs: BTreeMap<IdKey<'s>, u32>,
    ids: BTreeMap<IdKey<'s>, u32>,
    /// Nodes by their names in expressions.
    pub(crate) aliases: BTreeMap<&'s str, u32>,
    /// The subgraph of each container, by the place of the node.
    pub(crate) inner: BTreeMap<u32, u32>,
}

/// Finds all graphs of a definition; the workflow itself stands first.
pub(crate) fn sources<'s>(workflow: &'s Workflow<'s>, problems: &Problems) -> Vec<Source<'s>> {
    let name = workflow.metadata.given().map_or("", |metadata| metadata.name.text());
    let mut sources = vec![Source::new(workflow, workflow.id.text(), name)];
    let mut at = 0;
    while at < sources.len() {
        add_subgraphs(&mut sources, at, problems);
        at += 1;
    }
    for source in &mut sources {
        source.gather_names(problems);
    }
    for graph in 0..sources.len() {
        sources[graph].inner = inner(&sources, graph, problems);
    }
    sources
}

fn add_subgraphs(sources: &mut Vec<Source<'_>>, above: usize, problems: &Problems) {
    for (position, subgraph) in sources[above].workflow.subgraphs.items().iter().enumerate() {
        let Some(subgraph) = subgraph.given() else { continue };
        let Some(definition) = subgraph.definition.given() else { continue };
        let pointer = format!("{}/subgraphs/{position}", sources[above].pointer);
        let id = subgraph.id.text();
        let index = place_of(sources.len());
        match sources[above].subgraphs.entry(IdKey::from(id)) {
            Entry::Vacant(entry) => {
                entry.insert(index);
            }
            Entry::Occupied(_) if id.is_empty() => {}
            Entry::Occupied(_) => {
                let id = quoted(id);
                let message =
                    format_args!("the id {id} is used by two subgraphs; give each its own");
                problems.at(&pointer).key("id").error(code::DUPLICATE_ID, message);
            }
        }
        let labels = [&subgraph.metadata, &definition.metadata];
        let mut labels = labels.into_iter().filter_map(|metadata| metadata.given());
        let name = labels.find_map(|metadata| {
            [metadata.label.text(), metadata.name.text()].into_iter().find(|it| !it.is_empty())
        });
        let source = Source::new(definition, id, name.unwrap_or(""));
        let (pointer, above) = (pointer + "/definition", Some(above));
        sources.push(Source { pointer, above, ..source });
    }
}

impl<'s> Source<'s> {
    fn new(workflow: &'s Workflow<'s>, id: &'s str, name: &'s str) -> Self {
        Self {
            workflow,
            id,
            name,
            pointer: String::new(),
            above: None,
            subgraphs: BTreeMap::new(),
            ids: BTreeMap::new(),
            aliases: BTreeMap::new(),
            inner: BTreeMap::new(),
        }
    }

    /// Its nodes with their places; those that are no objects are passed over.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (u32, &'s Node<'s>)> + use<'s> {
        let nodes = self.workflow.nodes.items().iter().zip(0_u32..);
        nodes.filter_map(|(node, index)| Some((index, node.given()?.as_ref())))
    }

    /// One of its nodes.
    pub(crate) fn node(&self, index: usize) -> Option<&'s Node<'s>> {
        self.workflow.nodes.items().get(index)?.given().map(Box::as_ref)
    }

    /// The name that people know a node by.
    pub(crate) fn name_of(&self, index: usize) -> &'s str {
        self.node(index).map_or("", name_of)
    }

    /// The node with this id.
    pub(crate) fn by_id(&self, id: &str) -> Option<u32> {
        self.ids.get(&IdKey::from(id)).copied()
    }

    /// The node with this alias, else with this id.
    pub(crate) fn by_name(&self, name: &str) -> Option<u32> {
        self.aliases.get(name).copied().or_else(|| self.by_id(name))
    }

    /// Gathers the names of the nodes; two of a kind are a problem. Nodes and middlewares share
    /// their ids: both are shown, and found, by them.
    fn gather_names(&mut self, problems: &Problems) {
        let mut seen = BTreeSet::new();
        let root = problems.at(&self.pointer);
        let nodes = root.key("nodes");
        for (node, index) in self.workflow.nodes.items().iter().zip(0_u32..) {
            let Some(node) = node.given() else { continue };
            let place = nodes.index(index as usize).about(node.id.text());
            self.ids.entry(IdKey::from(node.id.text())).or_insert(index);
            unique_id(node, &mut seen, &place);
            let alias = node.alias.text();
            if !alias.is_empty() && self.aliases.insert(alias, index).is_some() {
                duplicate(&place.key("alias"), "alias", alias);
            }
            let inner = place.key("middlewares");
            for (level, middleware) in node.levels() {
                unique_id(middleware, &mut seen, &inner.index(level));
            }
        }
    }
}

/// The name that people know a node by: its label, else its alias, else its id.
pub(crate) fn name_of<'s>(node: &'s Node<'_>) -> &'s str {
    let names = [&node.label, &node.alias, &node.id];
    names.into_iter().map(Text::text).find(|name| !name.is_empty()).unwrap_or("")
}

fn unique_id<'s>(node: &'s Node<'_>, seen: &mut BTreeSet<IdKey<'s>>, place: &Place<'_>) {
    let id = node.id.text();
    if !id.is_empty() && !seen.insert(IdKey::from(id)) {
        duplicate(&place.key("id"), "id", id);
    }
}

fn duplicate(place: &Place<'_>, what: &str, name: &str) {
    let name = quoted(name);
    let message = format_args!(
        "the {what} {name} is used twice in this graph; give each node and middleware its own"
    );
    place.error(code::DUPLICATE_ID, message);
}

/// Whether a node stands for a subgraph.
pub(crate) fn is_container(node: &Node<'_>) -> bool {
    node.kind.text() == CONTAINER_TYPE || node.role.text() == CONTAINER_ROLE
}

/// Finds the subgraphs of all containers of one graph.
fn inner(sources: &[Source<'_>], graph: usize, problems: &Problems) -> BTreeMap<u32, u32> {
    let root = problems.at(&sources[graph].pointer);
    let nodes = root.key("nodes");
    let containers = sources[graph].nodes().filter(|(_, node)| is_container(node));
    let found = containers.filter_map(|(index, node)| {
        let place = nodes.index(index as usize).about(node.id.text());
        let at = place.key("parameters");
        Some((index, subgraph_of(sources, graph, node, &at.key(CONTAINER_KEY))?))
    });
    found.collect()
}

/// The graph that a container means: a subgraph of its own graph, else of those around it.
fn subgraph_of(
    sources: &[Source<'_>],
    graph: usize,
    node: &Node<'_>,
    at: &Place<'_>,
) -> Option<u32> {
    let parameters = node.parameters.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok());
    let target = parameters.as_ref().and_then(|parameters| parameters.get(CONTAINER_KEY));
    let id = target.and_then(|target| target.get("subgraphId").or(target.get("subgraph_id")));
    let Some(id) = id.and_then(Value::as_str) else {
        let message = "a container names its subgraph in parameters.__container.subgraphId; \
                       it is missing here";
        at.error(code::SUBGRAPH, message);
        return None;
    };
    let around = std::iter::successors(Some(graph), |graph| sources[*graph].above);
    let mut found = around.filter_map(|graph| sources[graph].subgraphs.get(&IdKey::from(id)));
    let found = found.next().copied();
    if found.is_none() {
        let id = quoted(id);
        let message =
            format_args!("there is no subgraph {id}; add it to subgraphs, or name another one");
        at.key("subgraphId").error(code::SUBGRAPH, message);
    }
    found
}

/// Places are small numbers: there are far fewer things in a definition than bytes.
pub(crate) fn place_of(index: usize) -> u32 {
    u32::try_from(index).expect("the size of a definition is limited")
}
