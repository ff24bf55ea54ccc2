//! Puts a program together, once nothing is wrong with it.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::compile::Context;
use crate::compile::containers::{CONTAINER_KEY, is_container};
use crate::compile::draft::{NodeDraft, StepDraft};
use crate::compile::edges::Flow;
use crate::compile::graph::GraphDraft;
use crate::compile::links::Links;
use crate::compile::names;
use crate::compile::spec::Specs;
use crate::compile::work::{container, work};
use crate::program::{ContainerPorts, Graph, Node, OnError, OnSkip, Parameters, Step, Work};

/// What is needed to put one graph together.
pub(crate) struct Workshop<'s, 'w> {
    /// The definition.
    pub(crate) source: &'s Bytes,
    /// What nodes ask of workers.
    pub(crate) specs: &'w mut Specs<'s>,
    /// The ports of its containers.
    pub(crate) ports: BTreeMap<u32, ContainerPorts>,
    /// Nodes that are fed from outside, through a container.
    pub(crate) fed: &'w BTreeMap<u32, Vec<Vec<String>>>,
    /// What flows, by the node and the level that it goes to; last first.
    wires: Vec<Flow>,
}

impl<'s, 'w> Workshop<'s, 'w> {
    /// For one graph.
    pub(crate) fn new(
        source: &'s Bytes,
        specs: &'w mut Specs<'s>,
        ports: BTreeMap<u32, ContainerPorts>,
        fed: &'w BTreeMap<u32, Vec<Vec<String>>>,
    ) -> Self {
        Self { source, specs, ports, fed, wires: Vec::new() }
    }

    /// Makes a graph of its draft.
    pub(crate) fn graph(mut self, context: &Context<'s>, draft: GraphDraft<'s>) -> Graph {
        self.wires = draft.edges.flows;
        self.wires.reverse();
        let nodes = draft.nodes.into_iter().zip(draft.links);
        let nodes: Vec<_> = nodes.map(|(node, links)| self.node(context, node, links)).collect();
        let roots = nodes.iter().zip(0_u32..);
        let roots = roots.filter(|(node, _)| node.waits_for.is_empty()).map(|(_, index)| index);
        let source = context.source();
        Graph {
            id: names::uuid(source.id).unwrap_or_default(),
            name: source.name.to_owned(),
            roots: roots.collect(),
            nodes,
            outputs: draft.outputs,
            outputs_read: draft.outputs_read,
        }
    }

    fn node(&mut self, context: &Context<'s>, draft: NodeDraft<'s>, links: Links) -> Node {
        let NodeDraft { index, host, middlewares, when, map, references: _ } = draft;
        let authored = host.node;
        let is_fed = self.fed.contains_key(&index);
        let own_work = match context.inner().get(&index) {
            Some(graph) => container(*graph, index, &mut self.ports),
            None => work(authored, self.specs),
        };
        let host = self.step(host, (index, None), own_work, is_fed);
        let middlewares = middlewares.into_iter().zip(0_u32..).map(|(middleware, level)| {
            let work = work(middleware.node, self.specs);
            self.step(middleware, (index, Some(level)), work, false)
        });
        Node {
            id: names::uuid(authored.id.text()).unwrap_or_default(),
            alias: authored.alias.given().map(|alias| alias.as_ref().to_owned()),
            label: authored.label.text().to_owned(),
            middlewares: middlewares.collect(),
            host,
            waits_for: links.waits_for,
            followers: links.followers,
            readers: links.readers,
            keeps_parameters: links.keeps_parameters,
            on_error: on_error(authored.on_error.text()),
            on_skip: on_skip(authored.on_skip.text()),
            when,
            map,
            results: self.results(authored),
        }
    }

    fn results(&self, node: &crate::definition::Node<'s>) -> Option<Bytes> {
        let schema = node.schema.given()?.results?.get();
        Some(self.source.slice_ref(schema.as_bytes()))
    }

    fn step(
        &mut self,
        draft: StepDraft<'s>,
        (index, level): (u32, Option<u32>),
        work: Work,
        is_fed: bool,
    ) -> Step {
        let mut wires = Vec::new();
        while let Some(flow) = self.wires.pop_if(|flow| flow.step() == (index, level)) {
            wires.push(flow.into_wire());
        }
        let StepDraft { node, rendered, references } = draft;
        let is_open = is_fed || !wires.is_empty();
        Step {
            id: names::uuid(node.id.text()).unwrap_or_default(),
            work,
            parameters: self.parameters(node, rendered, is_open),
            wires,
            references: references.nodes,
        }
    }

    fn parameters(
        &self,
        node: &crate::definition::Node<'s>,
        rendered: Option<Value>,
        is_open: bool,
    ) -> Parameters {
        if let Some(authored) = rendered {
            return Parameters::Open { authored, has_expressions: true };
        }
        let text = node.parameters.map_or(EMPTY, RawValue::get);
        if is_open {
            return Parameters::Open { authored: inputs(node, text), has_expressions: false };
        }
        if is_container(node) {
            return Parameters::Plain(inputs(node, text).to_string().into());
        }
        if node.parameters.is_none() {
            return Parameters::Plain(Bytes::from_static(EMPTY.as_bytes()));
        }
        Parameters::Plain(self.source.slice_ref(text.as_bytes()))
    }
}

const EMPTY: &str = "{}";

/// Parameters as a value; those of a container without the name of its subgraph.
fn inputs(node: &crate::definition::Node<'_>, text: &str) -> Value {
    let mut value = serde_json::from_str(text).unwrap_or_default();
    if is_container(node)
        && let Value::Object(fields) = &mut value
    {
        fields.remove(CONTAINER_KEY);
    }
    value
}

fn on_error(text: &str) -> OnError {
    match text {
        "continue" => OnError::Continue,
        "skip" => OnError::Skip,
        _ => OnError::Fail,
    }
}

fn on_skip(text: &str) -> OnSkip {
    match text {
        "skip" => OnSkip::Skip,
        _ => OnSkip::Run,
    }
}
