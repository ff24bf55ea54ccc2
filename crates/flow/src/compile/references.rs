//! Which nodes the expressions of a step look at.

use serde_json::Value;

use crate::compile::Context;
use crate::expression;
use crate::problem::{Place, Problems, Quoted, code};

/// Nodes that someone looks at, each once.
#[derive(Clone, Debug, Default)]
pub(crate) struct References {
    /// The nodes, in the order in which they were first named.
    pub(crate) nodes: Vec<u32>,
    /// Those whose parameters may be looked at, too.
    pub(crate) parameters: Vec<u32>,
}

impl References {
    /// Adds those of another place.
    pub(crate) fn extend(&mut self, other: &Self) {
        other.nodes.iter().for_each(|node| add(&mut self.nodes, *node));
        other.parameters.iter().for_each(|node| add(&mut self.parameters, *node));
    }

    /// Adds the nodes that a text looks at: a text with `{{ }}`, or an expression on its own.
    pub(crate) fn add_text(
        &mut self,
        context: &Context<'_>,
        text: &str,
        at: &Place<'_>,
        problems: &mut Problems,
    ) {
        let names = match expression::references(text) {
            Ok(names) => names,
            Err(reason) => {
                problems.error(code::EXPRESSION, at, format_args!("{reason}"));
                return;
            }
        };
        // More than is needed is kept rather than less: only the engine knows what is looked at.
        let keeps_parameters = text.contains("parameters");
        for name in names {
            let Some(node) = context.names().by_name(&name) else {
                unknown(context, &name, at, problems);
                continue;
            };
            add(&mut self.nodes, node);
            if keeps_parameters {
                add(&mut self.parameters, node);
            }
        }
    }

    /// Adds the nodes that any text in a value looks at; says whether there was an expression.
    pub(crate) fn add_value(
        &mut self,
        context: &Context<'_>,
        value: &Value,
        at: &Place<'_>,
        problems: &mut Problems,
    ) -> bool {
        match value {
            Value::String(text) if text.contains("{{") => {
                self.add_text(context, text, at, problems);
                true
            }
            Value::Array(items) => {
                let mut found = false;
                for (index, item) in items.iter().enumerate() {
                    found |= self.add_value(context, item, &at.index(index), problems);
                }
                found
            }
            Value::Object(fields) => {
                let mut found = false;
                for (key, field) in fields {
                    found |= self.add_value(context, field, &at.key(key), problems);
                }
                found
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }
}

fn add(list: &mut Vec<u32>, node: u32) {
    if !list.contains(&node) {
        list.push(node);
    }
}

fn unknown(context: &Context<'_>, name: &str, at: &Place<'_>, problems: &mut Problems) {
    let name = Quoted(name);
    let aliases = context.names().some_aliases();
    if aliases.is_empty() {
        let message = format_args!(
            "no node of this graph has the id {name}; give the node that you mean an alias, or \
             use its id"
        );
        problems.error(code::EXPRESSION, at, message);
    } else {
        let aliases = aliases.join(", ");
        let message = format_args!(
            "no node of this graph has the alias or id {name}; there are {}",
            Quoted(&aliases)
        );
        problems.error(code::EXPRESSION, at, message);
    }
}
