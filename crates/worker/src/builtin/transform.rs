//! `core.transform`: makes JSON of other JSON, without a program.
//!
//! The steps are done in this order, each on what the one before left: `select` takes parts out,
//! `merge` puts others in (RFC 7396), then `expression` or `template` computes. The result is
//! `{"output": ...}`.

use std::collections::BTreeMap;

use minijinja::{Environment, Error, UndefinedBehavior};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{raw, read};
use crate::executor::{Outcome, PARAMETERS_INVALID};

const WANTED: &str = "core.transform wants {\"input\": ...} and some of select, merge, expression \
                      or template";
/// How many steps a template may take; a loop that never ends does.
const FUEL: u64 = 100_000;

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

pub(super) fn run(parameters: &RawValue) -> Outcome {
    let transform = match read(parameters, WANTED) {
        Ok(transform) => transform,
        Err(outcome) => return outcome,
    };
    match apply(transform) {
        Ok(output) => Outcome::done(raw(&json!({ "output": output }))),
        Err(why) => Outcome::hopeless(PARAMETERS_INVALID, format!("core.transform: {why}")),
    }
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
        (Some(expression), None) => computed(|| evaluate(&expression, &value)),
        (None, Some(template)) => computed(|| render(&template, &value)),
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

fn computed(work: impl FnOnce() -> Result<Value, Error>) -> Result<Value, String> {
    flow::guarded(work).map_err(|why| explain(&why))
}

fn evaluate(expression: &str, input: &Value) -> Result<Value, Error> {
    let environment = environment();
    let value = environment.compile_expression(expression)?.eval(scope(input))?;
    serde_json::to_value(value).map_err(|why| {
        Error::new(minijinja::ErrorKind::InvalidOperation, format!("the value is no JSON: {why}"))
    })
}

fn render(template: &str, input: &Value) -> Result<Value, Error> {
    environment().render_str(template, scope(input)).map(Value::String)
}

fn scope(input: &Value) -> minijinja::Value {
    minijinja::Value::from(minijinja::value::Serde(json!({ "input": input })))
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    environment
}

fn explain(error: &Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}
