//! The worker that has the work of a run, changed by hand.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::runs::Binding;

/// `POST /scheduler/runs/{run_id}/rebind`
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RebindRun {
    /// Only the work of this package, or of this type where a node needs no package. Without it
    /// all that is bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// The worker that is asked first from here on. Without it the next one that asks.
    #[serde(default, alias = "worker_name", skip_serializing_if = "Option::is_none")]
    pub worker_name: Option<String>,
    /// What becomes of the worker that had the work.
    pub mode: RebindMode,
}

/// What becomes of the worker that had the work. What it is doing it finishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RebindMode {
    /// It is asked last.
    Move,
    /// It gets nothing more of this run.
    Drain,
}

/// Who has the work of the run from here on.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rebound {
    /// The run.
    pub run_id: String,
    /// Which worker has which package. Without an entry the next grant says it.
    pub bindings: Vec<Binding>,
}
