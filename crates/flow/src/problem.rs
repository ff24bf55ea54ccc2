//! What is wrong with a definition.

use serde::Serialize;

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
