//! One graph on its way.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::check;
use crate::check::parameters::OpenPlaces;
use crate::compile::Context;
use crate::compile::draft::{NodeDraft, drafts};
use crate::compile::edges::{Edges, edges};
use crate::compile::links::{Links, ends, links};
use crate::compile::reach::Reached;
use crate::compile::references::References;
use crate::problem::Problems;

/// A graph on its way.
#[derive(Debug)]
pub(crate) struct GraphDraft<'s> {
    /// Its nodes.
    pub(crate) nodes: Vec<NodeDraft<'s>>,
    /// Its edges.
    pub(crate) edges: Edges,
    /// How each node is tied to the others.
    pub(crate) links: Vec<Links>,
    /// What it gives.
    pub(crate) outputs: BTreeMap<String, Value>,
    /// The nodes that it is made of.
    pub(crate) outputs_read: Vec<u32>,
    /// Nodes into whose parameters containers put values, and where.
    fed: &'s BTreeMap<u32, Vec<Vec<String>>>,
}

impl GraphDraft<'_> {
    /// Where values come into the parameters of a step from elsewhere.
    pub(crate) fn open_places(
        &self,
        node: u32,
        middleware: Option<u32>,
        is_wrapped: bool,
    ) -> OpenPlaces {
        let mut open = OpenPlaces::new(is_wrapped);
        for flow in self.edges.flows_into(node, middleware) {
            open.add(&flow.to.path);
        }
        if middleware.is_none() {
            self.fed.get(&node).into_iter().flatten().for_each(|path| open.add(path));
        }
        open
    }
}

/// Reads a graph, and says what is wrong with it.
pub(crate) fn draft<'s>(
    context: &Context<'s>,
    reached: &'s Reached,
    problems: &mut Problems,
) -> GraphDraft<'s> {
    let nodes = drafts(context, problems);
    let edges = edges(context, problems);
    let n_nodes = context.source().workflow.nodes.items().len();
    let mut links = links(n_nodes, &edges, &nodes);
    check::cycle::check(context, &links, problems);
    let (outputs, references) = outputs(context, problems);
    let mut outputs_read = references.nodes;
    if outputs.is_empty() {
        outputs_read = ends(&links);
    }
    for (node, parameters) in &reached.read {
        links[*node as usize].keeps_parameters |= *parameters;
        outputs_read.push(*node);
    }
    outputs_read.sort_unstable();
    outputs_read.dedup();
    for node in &outputs_read {
        links[*node as usize].readers += 1;
    }
    for node in &references.parameters {
        links[*node as usize].keeps_parameters = true;
    }
    GraphDraft { nodes, edges, links, outputs, outputs_read, fed: &reached.fed }
}

fn outputs(
    context: &Context<'_>,
    problems: &mut Problems,
) -> (BTreeMap<String, Value>, References) {
    let source = context.source();
    let mut references = References::default();
    let raw = source.workflow.outputs.map(RawValue::get);
    let outputs: BTreeMap<String, Value> =
        raw.and_then(|raw| serde_json::from_str(raw).ok()).unwrap_or_default();
    let root = source.place();
    let at = root.key("outputs");
    for (name, value) in &outputs {
        references.add_value(context, value, &at.key(name), problems);
    }
    (outputs, references)
}
