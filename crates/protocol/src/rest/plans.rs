//! Plans: pipelines of Unix tools that are kept by name.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use crate::plan::PlanTask;

/// `POST /plans`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitPlan {
    /// Its name: 1 to 64 characters of `A-Z a-z 0-9 - _`.
    #[schema(example = "dedupe")]
    pub plan_id: String,
    /// For people.
    #[serde(default, alias = "description", skip_serializing_if = "Option::is_none")]
    pub plan_description: Option<String>,
    /// 1 to 100 steps, numbered from 1 without gaps.
    pub tasks: Vec<StepToSubmit>,
}

/// One step of a plan: a program with its arguments, never a shell.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StepToSubmit {
    /// Its number, from 1.
    pub task_number: u32,
    /// The program.
    #[schema(example = "sort")]
    pub command: String,
    /// Its arguments; `{{input.field}}` stands for a field of the job's input.
    #[serde(default)]
    pub args: Vec<String>,
    /// 1 to 86400. Default 300.
    pub timeout_secs: Option<u32>,
    /// The earlier step whose standard output this one reads.
    pub input_from_task: Option<u32>,
}

/// A plan that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Plan {
    /// Its name.
    pub plan_id: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_description: Option<String>,
    /// Its steps, in order.
    pub tasks: Vec<PlanTask>,
    /// When it was submitted first.
    pub created_at: String,
}

/// `GET /plans`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Plans {
    /// By name.
    pub plans: Vec<PlanSummary>,
    /// How many there are that fit the pattern, on all pages.
    pub total: u64,
}

/// A plan in short.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PlanSummary {
    /// Its name.
    pub plan_id: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_description: Option<String>,
    /// How many steps it has.
    pub task_count: u64,
    /// When it was submitted first.
    pub created_at: String,
}

/// `DELETE /plans/{plan_id}`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct DeletedPlan {
    /// The name, which is free again.
    pub plan_id: String,
}
