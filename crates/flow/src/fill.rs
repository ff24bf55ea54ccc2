//! The parameters of a step, when its turn comes.

use bytes::Bytes;
use serde_json::Value;

use crate::program::{Expression, Graph, Map, Step};
use crate::scope::{EvalError, Scope};

/// What the step is given: authored parameters, then what flows in, then expressions, then what
/// the middleware in front handed on.
pub fn fill(step: &Step, scope: &Scope<'_>) -> Result<Bytes, EvalError> {
    let _ = (step, scope);
    todo!("written next")
}

/// Whether a condition holds.
pub fn says_yes(when: &Expression, scope: &Scope<'_>) -> Result<bool, EvalError> {
    let _ = (when, scope);
    todo!("written next")
}

/// The elements that a node is executed for.
pub fn list_of(map: &Map, scope: &Scope<'_>) -> Result<Vec<Value>, EvalError> {
    let _ = (map, scope);
    todo!("written next")
}

/// What a graph gives when all its nodes have ended.
pub fn outputs_of(graph: &Graph, scope: &Scope<'_>) -> Result<Value, EvalError> {
    let _ = (graph, scope);
    todo!("written next")
}
