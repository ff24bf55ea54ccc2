//! The graphs of a definition: the workflow itself, and its subgraphs, however deep they stand.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::compile::names::IdKey;
use crate::definition::{Node, Text, Workflow};
use crate::problem::{Place, Problems, Quoted, code};

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
    pointer: String,
    /// The graph that it stands in.
    above: Option<u32>,
    /// Subgraphs that stand in it.
    subgraphs: BTreeMap<IdKey<'s>, u32>,
}

impl<'s> Source<'s> {
    /// Where it stands in the document.
    pub(crate) fn place(&self) -> Place<'_> {
        Place::root(&self.pointer)
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
}

/// The name that people know a node by: its label, else its alias, else its id.
pub(crate) fn name_of<'s>(node: &'s Node<'_>) -> &'s str {
    let names = [&node.label, &node.alias, &node.id];
    names.into_iter().map(Text::text).find(|name| !name.is_empty()).unwrap_or("")
}

/// All graphs; the workflow itself stands first.
#[derive(Debug)]
pub(crate) struct Sources<'s>(pub(crate) Vec<Source<'s>>);

impl<'s> Sources<'s> {
    /// Finds all graphs of a definition.
    pub(crate) fn of(workflow: &'s Workflow<'s>, problems: &mut Problems) -> Self {
        let name = workflow.metadata.given().map_or("", |metadata| metadata.name.text());
        let root = Source {
            workflow,
            id: workflow.id.text(),
            name,
            pointer: String::new(),
            above: None,
            subgraphs: BTreeMap::new(),
        };
        let mut sources = Self(vec![root]);
        let mut at = 0;
        while at < sources.0.len() {
            sources.add_inner(at, problems);
            at += 1;
        }
        sources
    }

    fn add_inner(&mut self, above: usize, problems: &mut Problems) {
        let workflow = self.0[above].workflow;
        for (position, subgraph) in workflow.subgraphs.items().iter().enumerate() {
            let Some(subgraph) = subgraph.given() else { continue };
            let Some(definition) = subgraph.definition.given() else { continue };
            let pointer = format!("{}/subgraphs/{position}", self.0[above].pointer);
            let id = subgraph.id.text();
            let index = place_of(self.0.len());
            match self.0[above].subgraphs.entry(IdKey::from(id)) {
                Entry::Vacant(entry) => {
                    entry.insert(index);
                }
                Entry::Occupied(_) if id.is_empty() => {}
                Entry::Occupied(_) => {
                    let id = Quoted(id);
                    let message =
                        format_args!("the id {id} is used by two subgraphs; give each its own");
                    problems.error(code::DUPLICATE_ID, &Place::root(&pointer).key("id"), message);
                }
            }
            let labels = [&subgraph.metadata, &definition.metadata];
            let mut labels = labels.into_iter().filter_map(|metadata| metadata.given());
            let name = labels.find_map(|metadata| {
                [metadata.label.text(), metadata.name.text()].into_iter().find(|it| !it.is_empty())
            });
            self.0.push(Source {
                workflow: definition,
                id,
                name: name.unwrap_or(""),
                pointer: pointer + "/definition",
                above: Some(place_of(above)),
                subgraphs: BTreeMap::new(),
            });
        }
    }

    /// The graph that a container means: a subgraph of its own graph, else of those around it.
    pub(crate) fn find(&self, from: usize, id: &str) -> Option<u32> {
        let mut at = Some(from);
        while let Some(source) = at.and_then(|at| self.0.get(at)) {
            if let Some(found) = source.subgraphs.get(&IdKey::from(id)) {
                return Some(*found);
            }
            at = source.above.map(|above| above as usize);
        }
        None
    }
}

/// Places are small numbers: there are far fewer things in a definition than bytes.
pub(crate) fn place_of(index: usize) -> u32 {
    u32::try_from(index).expect("the size of a definition is limited")
}
