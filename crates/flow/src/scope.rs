//! What a step may look at when its parameters are filled.

use serde_json::Value;

use crate::program::Graph;

/// What the expressions and wires of a step see.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// The graph that the step belongs to.
    pub graph: &'a Graph,
    /// The run's id, as people see it: `run.id`.
    pub run_id: &'a str,
    /// What the run was given: `run.inputs`.
    pub run_inputs: &'a Value,
    /// What the graph was given: `inputs`; for the workflow itself the same as `run.inputs`.
    pub inputs: &'a Value,
    /// The nodes of the graph: `nodes.<id or alias>`.
    pub nodes: &'a dyn NodesView,
    /// The element of a list that the step is executed for: `item` and `index`.
    pub item: Option<Item<'a>>,
    /// What the middleware in front handed on: its keys are laid over the parameters.
    pub payload: Option<&'a Value>,
}

/// One element of a list.
#[derive(Clone, Copy)]
pub struct Item<'a> {
    /// The element.
    pub value: &'a Value,
    /// Its place, from 0.
    pub index: u32,
}

/// What is known of nodes that have come to their end.
pub trait NodesView {
    /// `None` while the node has not ended.
    fn facts(&self, node: u32) -> Option<NodeFacts<'_>>;
}

/// One node that has ended.
#[derive(Clone, Copy)]
pub struct NodeFacts<'a> {
    /// `succeeded`, `failed`, `skipped` or `cancelled`: `nodes.x.status`.
    pub status: &'static str,
    /// `nodes.x.results`; `None` where it gave none.
    pub results: Option<&'a Value>,
    /// What it was given, where someone looks at it: `nodes.x.parameters`.
    pub parameters: Option<&'a Value>,
    /// The results of its middlewares, by place; shorter when not all of them ran.
    pub middlewares: &'a [Value],
    /// `{"code", "message"}` of a failure: `nodes.x.error`.
    pub error: Option<&'a Value>,
    /// Which node of the graph it was that ended so-manieth. Of two wires to one place the later
    /// one wins.
    pub order: u32,
}

/// Why something could not be filled in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct EvalError {
    /// Where the expression stands, like `parameters.url` or `when`.
    pub path: String,
    /// What is wrong with it.
    pub reason: String,
}

/// The most characters of a reason: it may hold names and paths that others have made up.
const REASON_CHARS_MAX: usize = 1000;

impl EvalError {
    /// An error with a reason of bounded length.
    pub(crate) fn new(path: impl Into<String>, reason: impl Into<String>) -> Self {
        let mut reason = reason.into();
        if let Some((end, _)) = reason.char_indices().nth(REASON_CHARS_MAX) {
            reason.truncate(end);
            reason.push_str("...");
        }
        Self { path: path.into(), reason }
    }
}
