//! What is wrong with a definition.

mod place;
mod problems;

use serde::Serialize;

pub(crate) use place::Place;
pub use problems::PROBLEMS_TOLD_MAX;
pub(crate) use problems::{Problems, Quoted, SENTENCE_CHARACTERS_MAX, cut};

/// One thing that is wrong, or odd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// A short code, like `E.FLOW.CYCLE`.
    pub code: &'static str,
    /// Whether it keeps the workflow from running.
    pub severity: Severity,
    /// The node that it is about, as authored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Where in the document, as a JSON pointer.
    pub path: String,
    /// A sentence for people.
    pub message: String,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It runs all the same.
    Warning,
    /// It does not run.
    Error,
}

/// The codes, with one sentence each.
pub(crate) mod code {
    /// It is not shaped like a workflow: no JSON, a field of the wrong kind, an id that is no UUID.
    pub(crate) const INVALID: &str = "E.FLOW.INVALID";
    /// Two things of a graph have the same id or alias.
    pub(crate) const DUPLICATE_ID: &str = "E.FLOW.DUPLICATE_ID";
    /// An edge begins or ends at a node that is not there.
    pub(crate) const UNKNOWN_NODE: &str = "E.FLOW.UNKNOWN_NODE";
    /// An edge begins or ends at a port that is not there.
    pub(crate) const UNKNOWN_PORT: &str = "E.FLOW.UNKNOWN_PORT";
    /// Nodes wait for each other in a circle.
    pub(crate) const CYCLE: &str = "E.FLOW.CYCLE";
    /// Parameters do not fit the node's own schema.
    pub(crate) const PARAMETERS: &str = "E.FLOW.PARAMETERS";
    /// What flows along an edge does not fit where it goes.
    pub(crate) const WIRE_TYPE: &str = "E.FLOW.WIRE_TYPE";
    /// A node's package is missing or not fully named.
    pub(crate) const PACKAGE: &str = "E.FLOW.PACKAGE";
    /// A middleware is not there, or cannot be one.
    pub(crate) const MIDDLEWARE: &str = "E.FLOW.MIDDLEWARE";
    /// A container names no subgraph that could be executed.
    pub(crate) const SUBGRAPH: &str = "E.FLOW.SUBGRAPH";
    /// An expression cannot be read, or looks at a node that is not there.
    pub(crate) const EXPRESSION: &str = "E.FLOW.EXPRESSION";
    /// There is too much of something.
    pub(crate) const LIMIT: &str = "E.FLOW.LIMIT";
}
