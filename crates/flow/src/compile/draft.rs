//! Graphs on their way: their expressions are read, their names found, their nodes tied together.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use super::Context;
use super::ports::{Flow, Reached, edges};
use super::sources::{CONTAINER_KEY, is_container, place_of};
use crate::check;
use crate::definition::{Condition, Node};
use crate::expression;
use crate::problem::{Place, code, quoted};
use crate::program::{Expression, Map, Root};

/// So many aliases are offered to who mistyped one.
const ALIASES_TOLD_MAX: usize = 5;

/// A graph on its way.
#[derive(Debug)]
pub(crate) struct GraphDraft<'s> {
    /// Its nodes.
    pub(crate) nodes: Vec<NodeDraft<'s>>,
    /// What flows, by the step that it goes to; those of one step in the order of the edges.
    pub(crate) flows: Vec<Flow>,
    /// How each node is tied to the others.
    pub(super) links: Vec<Links>,
    /// What it gives.
    pub(super) outputs: BTreeMap<String, Value>,
    /// The nodes that it is made of.
    pub(super) outputs_read: Vec<u32>,
    /// Nodes into whose parameters containers put values, and where.
    pub(super) fed: &'s BTreeMap<u32, Vec<Vec<String>>>,
}

/// A node on its way.
#[derive(Debug)]
pub(crate) struct NodeDraft<'s> {
    /// What the node does itself.
    pub(crate) host: StepDraft<'s>,
    /// What is wrapped around it.
    pub(crate) middlewares: Vec<StepDraft<'s>>,
    /// Its condition.
    pub(super) when: Option<Expression>,
    /// The list that it is executed for.
    pub(super) map: Option<Map>,
    /// All nodes that it looks at, wherever.
    references: References,
}

/// A step on its way.
#[derive(Debug)]
pub(crate) struct StepDraft<'s> {
    /// As authored.
    pub(crate) node: &'s Node<'s>,
    /// The place of the node among those of its graph.
    pub(crate) index: u32,
    /// The place of a middleware around the node.
    pub(super) level: Option<u32>,
    /// A middleware stands in front.
    pub(crate) is_wrapped: bool,
    /// Its parameters, where they hold an expression.
    pub(crate) rendered: Option<Value>,
    /// Nodes that its parameters, its key and its affinity look at.
    pub(super) references: References,
}

/// How one node is tied to the others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links {
    /// Those that come first.
    pub(crate) waits_for: Vec<u32>,
    /// Those that come after.
    pub(crate) followers: Vec<u32>,
    /// How many look at it.
    pub(super) readers: u32,
    /// Whether someone looks at its parameters.
    pub(super) keeps_parameters: bool,
}

impl GraphDraft<'_> {
    /// Where values come into the parameters of a step from elsewhere.
    pub(crate) fn fed_paths(&self, step: &StepDraft<'_>) -> impl Iterator<Item = &Vec<String>> {
        let at = (step.index, step.level);
        let begin = self.flows.partition_point(|flow| flow.step() < at);
        let flows = self.flows[begin..].iter().take_while(move |flow| flow.step() == at);
        let fed = step.level.is_none().then(|| self.fed.get(&step.index)).flatten();
        flows.map(|flow| &flow.to.path).chain(fed.into_iter().flatten())
    }
}

/// Reads a graph, and says what is wrong with it.
pub(super) fn draft<'s>(context: &Context<'s>, reached: &'s Reached) -> GraphDraft<'s> {
    let root = context.place();
    let at = root.key("nodes");
    let n_nodes = context.source().workflow.nodes.items().len();
    let mut nodes = Vec::with_capacity(n_nodes);
    nodes.extend(context.source().nodes().map(|(index, node)| {
        node_draft(context, index, node, &at.index(index as usize).about(node.id.text()))
    }));
    let (order, flows) = edges(context);
    let mut links = links(n_nodes, order, &flows, &nodes);
    check::cycle::check(context, &links);
    let (outputs, references) = outputs(context);
    let mut outputs_read = references.nodes;
    if outputs.is_empty() {
        let ends = links.iter().enumerate().filter(|(_, links)| links.followers.is_empty());
        outputs_read = ends.map(|(index, _)| place_of(index)).collect();
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
    GraphDraft { nodes, flows, links, outputs, outputs_read, fed: &reached.fed }
}

fn outputs(context: &Context<'_>) -> (BTreeMap<String, Value>, References) {
    let mut references = References::default();
    let raw = context.source().workflow.outputs.map(RawValue::get);
    let outputs: BTreeMap<String, Value> =
        raw.and_then(|raw| serde_json::from_str(raw).ok()).unwrap_or_default();
    let root = context.place();
    let at = root.key("outputs");
    for (name, value) in &outputs {
        references.add_value(context, value, &at.key(name));
    }
    (outputs, references)
}

/// Ties the nodes of a graph together, by edges and by expressions.
fn links(
    n_nodes: usize,
    mut order: Vec<(u32, u32)>,
    flows: &[Flow],
    drafts: &[NodeDraft<'_>],
) -> Vec<Links> {
    let mut links = vec![Links::default(); n_nodes];
    let mut reads: Vec<(u32, u32)> = Vec::new();
    for flow in flows {
        reads.push((flow.from.node, flow.to.node));
        links[flow.from.node as usize].keeps_parameters |= flow.from.root == Root::Parameters;
    }
    for draft in drafts {
        reads.extend(draft.references.nodes.iter().map(|node| (*node, draft.host.index)));
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

fn node_draft<'s>(
    context: &Context<'s>,
    index: u32,
    node: &'s Node<'s>,
    at: &Place<'_>,
) -> NodeDraft<'s> {
    let is_wrapped = !node.middlewares.items().is_empty();
    let host = StepDraft { index, is_wrapped, ..step(context, node, at) };
    let mut references = host.references.clone();
    let inner = at.key("middlewares");
    let mut middlewares = Vec::new();
    for (level, middleware) in node.levels() {
        let step = step(context, middleware, &inner.index(level));
        references.extend(&step.references);
        let is_wrapped = level > 0;
        middlewares.push(StepDraft { index, level: Some(place_of(level)), is_wrapped, ..step });
    }
    let when = when(context, node, &at.key("when"), &mut references);
    let map = map(context, node, at, &mut references);
    NodeDraft { host, middlewares, when, map, references }
}

fn step<'s>(context: &Context<'s>, node: &'s Node<'s>, at: &Place<'_>) -> StepDraft<'s> {
    let mut references = References::default();
    let rendered = rendered(context, node, &mut references, &at.key("parameters"));
    let key = if node.is_snake { "concurrency_key" } else { "concurrencyKey" };
    references.add_if_open(context, node.concurrency_key.text(), &at.key(key));
    let affinity = node.affinity.given().map_or("", |affinity| affinity.key.text());
    references.add_if_open(context, affinity, &at.key("affinity").key("key"));
    StepDraft { node, index: 0, level: None, is_wrapped: false, rendered, references }
}

/// The parameters, if there is an expression in them.
fn rendered(
    context: &Context<'_>,
    node: &Node<'_>,
    references: &mut References,
    at: &Place<'_>,
) -> Option<Value> {
    // Outside of texts two braces cannot stand side by side; inside they can be written as escapes.
    let may_hold_expression = |text: &&str| text.contains("{{") || text.contains("\\u007");
    let text = node.parameters.map(RawValue::get).filter(may_hold_expression)?;
    match serde_json::from_str(text) {
        Ok(value) => {
            let value = without_subgraph(node, value);
            references.add_value(context, &value, at).then_some(value)
        }
        Err(error) => {
            at.error(code::INVALID, format_args!("the parameters cannot be read: {error}"));
            None
        }
    }
}

/// Parameters as a value; those of a container without the name of its subgraph.
pub(crate) fn inputs(node: &Node<'_>) -> Value {
    let text = node.parameters.map_or("{}", RawValue::get);
    without_subgraph(node, serde_json::from_str(text).unwrap_or_default())
}

fn without_subgraph(node: &Node<'_>, mut parameters: Value) -> Value {
    if is_container(node)
        && let Value::Object(fields) = &mut parameters
    {
        fields.remove(CONTAINER_KEY);
    }
    parameters
}

fn when(
    context: &Context<'_>,
    node: &Node<'_>,
    at: &Place<'_>,
    references: &mut References,
) -> Option<Expression> {
    let text = match node.when.given()? {
        Condition::Constant(true) => "true",
        Condition::Constant(false) => "false",
        Condition::Expression(text) => text,
    };
    let mut own = References::default();
    let source = expression::bare(text);
    if source.contains("{{") {
        let message = "a condition is one expression; write {{ a and b }}, not {{ a }} and {{ b }}";
        at.error(code::EXPRESSION, message);
        return None;
    }
    own.add_text(context, source, at);
    references.extend(&own);
    Some(Expression { source: source.to_owned(), references: own.nodes })
}

fn map(
    context: &Context<'_>,
    node: &Node<'_>,
    at: &Place<'_>,
    references: &mut References,
) -> Option<Map> {
    let map = node.map.given()?;
    let at = at.key("map");
    let at = at.key("over");
    let over: Value = serde_json::from_str(map.over?.get()).ok()?;
    let mut own = References::default();
    if let Value::String(text) = &over {
        own.add_text(context, text, &at);
    } else {
        own.add_value(context, &over, &at);
    }
    references.extend(&own);
    let max_parallel = map.max_parallel.given().and_then(|n| u32::try_from(*n).ok());
    Some(Map { over, references: own.nodes, max_parallel })
}

/// Nodes that someone looks at, each once.
#[derive(Clone, Debug, Default)]
pub(super) struct References {
    /// The nodes, in the order in which they were first named.
    pub(super) nodes: Vec<u32>,
    /// Those whose parameters may be looked at, too.
    parameters: Vec<u32>,
}

impl References {
    /// Adds those of another place.
    fn extend(&mut self, other: &Self) {
        other.nodes.iter().for_each(|node| add(&mut self.nodes, *node));
        other.parameters.iter().for_each(|node| add(&mut self.parameters, *node));
    }

    /// Adds the nodes that a text looks at where it holds an expression.
    fn add_if_open(&mut self, context: &Context<'_>, text: &str, at: &Place<'_>) {
        if text.contains("{{") {
            self.add_text(context, text, at);
        }
    }

    /// Adds the nodes that a text looks at: a text with `{{ }}`, or an expression on its own.
    fn add_text(&mut self, context: &Context<'_>, text: &str, at: &Place<'_>) {
        let names = match expression::references(text) {
            Ok(names) => names,
            Err(reason) => return at.error(code::EXPRESSION, reason),
        };
        // More than is needed is kept rather than less: only the engine knows what is looked at.
        let keeps_parameters = text.contains("parameters");
        for name in names {
            let Some(node) = context.source().by_name(&name) else {
                unknown(context, &name, at);
                continue;
            };
            add(&mut self.nodes, node);
            if keeps_parameters {
                add(&mut self.parameters, node);
            }
        }
    }

    /// Adds the nodes that any expression in a value looks at; says whether there was one.
    fn add_value(&mut self, context: &Context<'_>, value: &Value, at: &Place<'_>) -> bool {
        let mut found = false;
        each_expression(value, at, &mut |at, text| {
            found = true;
            self.add_text(context, text, at);
        });
        found
    }
}

/// Goes through all texts with an expression in a value.
pub(crate) fn each_expression(
    value: &Value,
    at: &Place<'_>,
    visit: &mut impl FnMut(&Place<'_>, &str),
) {
    match value {
        Value::String(text) if text.contains("{{") => visit(at, text),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                each_expression(item, &at.index(index), visit);
            }
        }
        Value::Object(fields) => {
            for (key, field) in fields {
                each_expression(field, &at.key(key), visit);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn add(list: &mut Vec<u32>, node: u32) {
    if !list.contains(&node) {
        list.push(node);
    }
}

fn unknown(context: &Context<'_>, name: &str, at: &Place<'_>) {
    let name = quoted(name);
    let aliases: Vec<_> = context.source().aliases.keys().copied().take(ALIASES_TOLD_MAX).collect();
    if aliases.is_empty() {
        let message = format_args!(
            "no node of this graph has the id {name}; give the node that you mean an alias, or \
             use its id"
        );
        at.error(code::EXPRESSION, message);
    } else {
        let aliases = aliases.join(", ");
        let message = format_args!(
            "no node of this graph has the alias or id {name}; there are {}",
            quoted(&aliases)
        );
        at.error(code::EXPRESSION, message);
    }
}
