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
}
