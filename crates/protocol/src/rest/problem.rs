//! How a refusal looks.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The body of every answer that is not a success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// What went wrong.
    pub error: ProblemDetail,
}

/// What went wrong, for programs and for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProblemDetail {
    /// A code of `docs/reference/error-codes.md`.
    #[schema(example = "E.TASK.NOT_FOUND")]
    pub code: String,
    /// What happened.
    pub message: String,
    /// What to do next.
    pub hint: String,
    /// Everything that is wrong with a workflow, where one was refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<FlowProblem>,
}

/// One thing that is wrong with a workflow, or odd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlowProblem {
    /// A short code, like `E.FLOW.CYCLE`.
    #[schema(example = "E.FLOW.CYCLE")]
    pub code: String,
    /// `error`: it does not run. `warning`: it runs all the same.
    pub severity: String,
    /// The node that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Where in the workflow, as a JSON pointer.
    pub path: String,
    /// A sentence.
    pub message: String,
}
