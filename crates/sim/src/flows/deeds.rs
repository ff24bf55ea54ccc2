//! What steps do. The result depends on the type and the parameters alone, so it does not matter
//! who executes a step, how often, and after which failures.

use serde_json::{Value, json};

/// What comes of a step.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Deed {
    /// It gives this.
    Gives(Value),
    /// It finds nothing to do.
    Skips,
    /// It fails, and would again.
    Fails,
    /// It fails the first time, and gives this the next time.
    Stumbles(Value),
    /// It calls the next in line so often; a strict one fails when a call does.
    Calls { times: u64, is_strict: bool },
}

pub(super) fn deed(step_type: &str, parameters: &Value) -> Deed {
    let n = (sum(parameters) + step_type.len() as u64) % 7;
    let gives = json!({ "n": n, "list": (0..n % 4).collect::<Vec<u64>>() });
    match step_type.split('.').collect::<Vec<_>>().as_slice() {
        ["fail"] => Deed::Fails,
        ["skip"] => Deed::Skips,
        ["flaky"] => Deed::Stumbles(gives),
        ["m", times, how] => {
            Deed::Calls { times: times.parse().unwrap_or(1), is_strict: *how == "strict" }
        }
        _ => Deed::Gives(gives),
    }
}

/// What a middleware gives after so many good calls.
pub(super) fn after_calls(good: u64) -> Value {
    json!({ "m": good })
}

fn sum(value: &Value) -> u64 {
    match value {
        Value::Number(number) => number.as_u64().unwrap_or(1),
        Value::Array(items) => items.iter().map(sum).sum(),
        Value::Object(fields) => fields.values().map(sum).sum(),
        Value::Bool(_) | Value::Null | Value::String(_) => 1,
    }
}
