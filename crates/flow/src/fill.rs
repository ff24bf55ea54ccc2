//! The parameters of a step, when its turn comes.

mod limits;
mod render;
mod wires;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::expression::{View, evaluate, kind_of};
use crate::program::{Expression, Graph, Map as MapOver, Parameters, Step};
use crate::scope::{EvalError, Scope};
pub use limits::{
    LIST_BYTES_MAX, MAP_ITEMS_MAX, NESTING_MAX, OUTPUTS_BYTES_MAX, PARAMETERS_BYTES_MAX,
};
use limits::{Room, is_too_deep};
use render::Renderer;
use wires::arrivals;

/// What the step is given: authored parameters, then what flows in, then expressions, then what
/// the middleware in front handed on.
pub fn fill(step: &Step, scope: &Scope<'_>) -> Result<Bytes, EvalError> {
    let arrivals = arrivals(step, scope);
    let payload = scope.payload.and_then(Value::as_object);
    let mut room = Room::new("parameters", PARAMETERS_BYTES_MAX);
    let mut filled = match &step.parameters {
        Parameters::Plain(bytes) if arrivals.is_empty() && payload.is_none() => {
            return Ok(bytes.clone());
        }
        Parameters::Plain(bytes) => authored(bytes)?,
        Parameters::Open { authored, has_expressions: false } => authored.clone(),
        Parameters::Open { authored, has_expressions: true } => {
            // What flows in takes the place of an expression before that is worked out; but what
            // flowed in is never taken for an expression. Hence this order.
            let taken: Vec<&[String]> = arrivals.iter().map(|arrival| arrival.to).collect();
            let view = View { scope, references: &step.references };
            Renderer::new(view, &taken, &mut room).render("parameters", authored)?
        }
    };
    for arrival in arrivals {
        room.take(arrival.value).map_err(|reason| wrong("parameters", reason))?;
        crate::path::set(&mut filled, arrival.to, arrival.value.clone());
    }
    if let Some(payload) = payload {
        lay_over(&mut filled, payload, &mut room)?;
    }
    let bytes =
        serde_json::to_vec(&filled).map_err(|error| wrong("parameters", error.to_string()))?;
    if bytes.len() > PARAMETERS_BYTES_MAX {
        return Err(wrong("parameters", room.too_large()));
    }
    if is_too_deep(&filled) {
        let reason = format!("they nest more than {NESTING_MAX} levels deep");
        return Err(wrong("parameters", reason));
    }
    Ok(Bytes::from(bytes))
}

/// What a text of a step gives, like the key of its affinity.
pub fn text_of(text: &str, step: &Step, scope: &Scope<'_>) -> Result<String, EvalError> {
    if !text.contains("{{") {
        return Ok(text.to_owned());
    }
    let view = View { scope, references: &step.references };
    match crate::expression::render(text, view).map_err(|reason| wrong(text, reason))? {
        Value::String(text) => Ok(text),
        other => Ok(other.to_string()),
    }
}

/// Whether a condition holds.
pub fn says_yes(when: &Expression, scope: &Scope<'_>) -> Result<bool, EvalError> {
    let view = View { scope, references: &when.references };
    let value = evaluate(&when.source, view).map_err(|reason| wrong("when", reason))?;
    Ok(match value {
        Value::Null => false,
        Value::Bool(bool) => bool,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    })
}

/// The elements that a node is executed for: those of a list; of an object its fields, as
/// `{"key", "value"}` each.
pub fn list_of(map: &MapOver, scope: &Scope<'_>) -> Result<Vec<Value>, EvalError> {
    let at = "map.over";
    let view = View { scope, references: &map.references };
    let over = match &map.over {
        Value::String(text) if !text.contains("{{") => {
            evaluate(text, view).map_err(|reason| wrong(at, reason))?
        }
        other => {
            let mut room = Room::new("the list", LIST_BYTES_MAX);
            Renderer::new(view, &[], &mut room).render(at, other)?
        }
    };
    let items: Vec<Value> = match over {
        Value::Array(items) => items,
        Value::Object(fields) => fields.into_iter().map(as_item).collect(),
        other => {
            let reason = format!("it is {}, and neither a list nor an object", kind_of(&other));
            return Err(wrong(at, reason));
        }
    };
    if items.len() > MAP_ITEMS_MAX {
        let reason = format!("it has {} elements; at most {MAP_ITEMS_MAX} go", items.len());
        return Err(wrong(at, reason));
    }
    Ok(items)
}

fn as_item((key, value): (String, Value)) -> Value {
    let key = ("key".to_owned(), Value::String(key));
    Value::Object(Map::from_iter([key, ("value".to_owned(), value)]))
}

/// What a graph gives when all its nodes have ended.
pub fn outputs_of(graph: &Graph, scope: &Scope<'_>) -> Result<Value, EvalError> {
    let mut room = Room::new("outputs", OUTPUTS_BYTES_MAX);
    let mut outputs = Map::new();
    if !graph.outputs.is_empty() {
        let view = View { scope, references: &graph.outputs_read };
        for (name, output) in &graph.outputs {
            let at = format!("outputs.{name}");
            let value = Renderer::new(view, &[], &mut room).render(&at, output)?;
            outputs.insert(name.clone(), value);
        }
        return Ok(Value::Object(outputs));
    }
    for &end in &graph.outputs_read {
        let results = scope.nodes.facts(end).and_then(|facts| facts.results);
        let (Some(results), Some(node)) = (results, graph.nodes.get(end as usize)) else {
            continue;
        };
        let name = node.alias.clone().unwrap_or_else(|| node.id.to_string());
        room.take(results).map_err(|reason| wrong(&format!("outputs.{name}"), reason))?;
        outputs.insert(name, results.clone());
    }
    Ok(Value::Object(outputs))
}

/// Parameters that were authored without anything to fill in.
fn authored(bytes: &Bytes) -> Result<Value, EvalError> {
    if bytes.is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    serde_json::from_slice(bytes).map_err(|error| wrong("parameters", error.to_string()))
}

/// Puts each field of a payload over the parameters. Parameters that have no fields stay.
fn lay_over(
    filled: &mut Value,
    payload: &Map<String, Value>,
    room: &mut Room,
) -> Result<(), EvalError> {
    if filled.is_null() {
        *filled = Value::Object(Map::new());
    }
    let Value::Object(fields) = filled else { return Ok(()) };
    for (name, value) in payload {
        room.take(value).map_err(|reason| wrong("parameters", reason))?;
        fields.insert(name.clone(), value.clone());
    }
    Ok(())
}

fn wrong(path: &str, reason: impl Into<String>) -> EvalError {
    EvalError::new(path, reason)
}
