//! Nodes on their way: their expressions are read, their names found.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::compile::Context;
use crate::compile::containers::{CONTAINER_KEY, is_container};
use crate::compile::references::References;
use crate::definition::{Condition, Node, Spelling};
use crate::expression;
use crate::problem::{Place, Problems, code};
use crate::program::{Expression, Map};

/// A node on its way.
#[derive(Debug)]
pub(crate) struct NodeDraft<'s> {
    /// Its place among the nodes of its graph.
    pub(crate) index: u32,
    /// What the node does itself.
    pub(crate) host: StepDraft<'s>,
    /// What is wrapped around it.
    pub(crate) middlewares: Vec<StepDraft<'s>>,
    /// Its condition.
    pub(crate) when: Option<Expression>,
    /// The list that it is executed for.
    pub(crate) map: Option<Map>,
    /// All nodes that it looks at, wherever.
    pub(crate) references: References,
}

/// A step on its way.
#[derive(Debug)]
pub(crate) struct StepDraft<'s> {
    /// As authored.
    pub(crate) node: &'s Node<'s>,
    /// Its parameters, where they hold an expression.
    pub(crate) rendered: Option<Value>,
    /// Nodes that its parameters, its key and its affinity look at.
    pub(crate) references: References,
}

/// Reads all nodes of a graph.
pub(crate) fn drafts<'s>(context: &Context<'s>, problems: &mut Problems) -> Vec<NodeDraft<'s>> {
    let root = context.source().place();
    let nodes = root.key("nodes");
    let mut drafts = Vec::with_capacity(context.source().workflow.nodes.items().len());
    for (index, node) in context.source().nodes() {
        let place = nodes.index(index as usize).about(node.id.text());
        drafts.push(draft(context, (index, node), &place, problems));
    }
    drafts
}

fn draft<'s>(
    context: &Context<'s>,
    (index, node): (u32, &'s Node<'s>),
    at: &Place<'_>,
    problems: &mut Problems,
) -> NodeDraft<'s> {
    let host = step(context, node, at, problems);
    let mut references = host.references.clone();
    let inner = at.key("middlewares");
    let mut middlewares = Vec::new();
    for (level, middleware) in node.middlewares.items().iter().enumerate() {
        let Some(middleware) = middleware.given() else { continue };
        let step = step(context, middleware, &inner.index(level), problems);
        references.extend(&step.references);
        middlewares.push(step);
    }
    let when = when(context, node, &at.key("when"), &mut references, problems);
    let map = map(context, node, at, &mut references, problems);
    NodeDraft { index, host, middlewares, when, map, references }
}

fn step<'s>(
    context: &Context<'s>,
    node: &'s Node<'s>,
    at: &Place<'_>,
    problems: &mut Problems,
) -> StepDraft<'s> {
    let mut references = References::default();
    let place = at.key("parameters");
    let rendered = rendered(context, node, &mut references, &place, problems);
    let key = at.key(node.spelling("concurrencyKey"));
    let affinity = at.key("affinity");
    let texts = [
        (node.concurrency_key.text(), key),
        (node.affinity.given().map_or("", |affinity| affinity.key.text()), affinity.key("key")),
    ];
    for (text, at) in texts.iter().filter(|(text, _)| text.contains("{{")) {
        references.add_text(context, text, at, problems);
    }
    StepDraft { node, rendered, references }
}

/// The parameters, if there is an expression in them.
fn rendered(
    context: &Context<'_>,
    node: &Node<'_>,
    references: &mut References,
    at: &Place<'_>,
    problems: &mut Problems,
) -> Option<Value> {
    let text = node.parameters.map(RawValue::get).filter(|text| may_hold_expression(text))?;
    let mut value: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) => {
            problems.error(
                code::INVALID,
                at,
                format_args!("the parameters cannot be read: {error}"),
            );
            return None;
        }
    };
    if is_container(node)
        && let Some(fields) = value.as_object_mut()
    {
        fields.remove(CONTAINER_KEY);
    }
    references.add_value(context, &value, at, problems).then_some(value)
}

/// Whether a text of the JSON could hold `{{`. Outside of texts two braces cannot stand side by
/// side; inside they can be written as escapes.
fn may_hold_expression(json: &str) -> bool {
    json.contains("{{") || json.contains("\\u007")
}

fn when(
    context: &Context<'_>,
    node: &Node<'_>,
    at: &Place<'_>,
    references: &mut References,
    problems: &mut Problems,
) -> Option<Expression> {
    let text = match node.when.given()? {
        Condition::Constant(flag) => Cow::Borrowed(if *flag { "true" } else { "false" }),
        Condition::Expression(text) => Cow::Borrowed(text.as_ref()),
    };
    let mut own = References::default();
    let source = expression::bare(&text);
    if source.contains("{{") {
        let message = "a condition is one expression; write {{ a and b }}, not {{ a }} and {{ b }}";
        problems.error(code::EXPRESSION, at, format_args!("{message}"));
        return None;
    }
    own.add_text(context, source, at, problems);
    references.extend(&own);
    Some(Expression { source: source.to_owned(), references: own.nodes })
}

fn map(
    context: &Context<'_>,
    node: &Node<'_>,
    at: &Place<'_>,
    references: &mut References,
    problems: &mut Problems,
) -> Option<Map> {
    let map = node.map.given()?;
    let at = at.key("map");
    let at = at.key("over");
    let over: Value = serde_json::from_str(map.over?.get()).ok()?;
    let mut own = References::default();
    if let Value::String(text) = &over {
        own.add_text(context, text, &at, problems);
    } else {
        own.add_value(context, &over, &at, problems);
    }
    references.extend(&own);
    let max_parallel = map.max_parallel.given().and_then(|n| u32::try_from(*n).ok());
    Some(Map { over, references: own.nodes, max_parallel })
}
