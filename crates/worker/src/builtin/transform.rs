//! `core.transform`: makes JSON of other JSON, without a program.
//!
//! The steps are done in this order, each on what the one before left: `select` takes parts out,
//! `merge` puts others in (RFC 7396), then `expression` or `template` computes, with the engine and
//! the limits of expressions in a workflow. The result is `{"output": ...}`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{Executed, raw, read};
use crate::core::executor::{Outcome, PARAMETERS_INVALID};

const WANTED: &str = "core.transform wants {\"input\": ...} and some of select, merge, expression \
                      or template";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Transform {
    input: Value,
    /// A JSON pointer, or names and pointers.
    select: Option<Value>,
    merge: Option<Map<String, Value>>,
    expression: Option<String>,
    template: Option<String>,
}

pub(super) fn run(parameters: &RawValue) -> Executed {
    let output = apply(read(parameters, WANTED)?)
        .map_err(|why| Outcome::hopeless(PARAMETERS_INVALID, format!("core.transform: {why}")))?;
    Ok(Outcome::done(raw(&json!({ "output": output }))))
}

fn apply(transform: Transform) -> Result<Value, String> {
    let Transform { input, select, merge, expression, template } = transform;
    let mut value = input;
    if let Some(select) = select {
        value = selected(&value, select)?;
    }
    if let Some(merge) = merge {
        merge_into(&mut value, Value::Object(merge));
    }
    match (expression, template) {
        (None, None) => Ok(value),
        (Some(expression), None) => flow::evaluate_input(&expression, &value),
        (None, Some(template)) => flow::render_input(&template, &value).map(Value::String),
        (Some(_), Some(_)) => Err("give expression or template, not both".into()),
    }
}

fn selected(value: &Value, select: Value) -> Result<Value, String> {
    match select {
        Value::String(pointer) => at(value, &pointer),
        Value::Object(_) => {
            let wanted = "select wants a JSON pointer, or names and pointers";
            let pointers: BTreeMap<String, String> =
                serde_json::from_value(select).map_err(|why| format!("{wanted}: {why}"))?;
            let parts =
                pointers.into_iter().map(|(name, pointer)| Ok((name, at(value, &pointer)?)));
            parts.collect::<Result<Map<_, _>, _>>().map(Value::Object)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            Err("select wants a JSON pointer, or names and pointers".into())
        }
    }
}

fn at(value: &Value, pointer: &str) -> Result<Value, String> {
    let found = value.pointer(pointer).cloned();
    found.ok_or_else(|| format!("there is nothing at {pointer:?}; a pointer is like \"/a/0\""))
}

/// RFC 7396: objects are merged, `null` removes, all else replaces.
fn merge_into(value: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *value = patch;
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Value::Object(fields) = value else { return };
    for (name, change) in patch {
        if change.is_null() {
            fields.remove(&name);
        } else {
            merge_into(fields.entry(name).or_insert(Value::Null), change);
        }
    }
}
