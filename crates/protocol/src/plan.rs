//! Plans of Unix tools: what is submitted, what a worker is given, what it gives back.
//!
//! A job over the Redis protocol is a task of type [`PLAN`] or [`PLAN_STEP`]; its parameters are a
//! [`PlanJob`], its result is a [`PlanResult`]. [`check`] says what makes a plan, [`fill`] puts
//! fields of the input into arguments, [`needs`] is what a job asks of a worker.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

pub mod check;
pub mod fill;
pub mod needs;

/// The type of a task that executes a whole plan on one worker.
pub const PLAN: &str = "plan";
/// The type of a task that executes a plan of one step which needs no input.
pub const PLAN_STEP: &str = "plan.step";

/// Steps in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Its name: 1 to 64 characters of `A-Z a-z 0-9 - _`.
    pub plan_id: String,
    /// For people.
    #[serde(default, alias = "description", skip_serializing_if = "Option::is_none")]
    pub plan_description: Option<String>,
    /// 1 to 100, numbered from 1 without gaps.
    pub tasks: Vec<PlanTask>,
}

/// One step: a program with its arguments, never a shell.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanTask {
    /// Its number, from 1.
    pub task_number: u32,
    /// The program.
    pub command: String,
    /// Its arguments; `{{input.field}}` stands for a field of the job's input.
    #[serde(default)]
    pub args: Vec<String>,
    /// 1 to 86400; 300 where it is absent.
    pub timeout_secs: Option<u32>,
    /// The earlier step whose standard output this one reads.
    pub input_from_task: Option<u32>,
}

/// The parameters of a task of type [`PLAN`] or [`PLAN_STEP`].
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlanJob {
    /// The submitter's own name of the job.
    pub job_id: Option<String>,
    /// The group of jobs that it belongs to.
    pub action_id: Option<String>,
    /// The plan.
    pub plan_id: String,
    /// For people.
    pub plan_description: Option<String>,
    /// The plan's steps, as they were when the job was submitted.
    pub tasks: Vec<PlanTask>,
    /// Any JSON. Its text (a string, or the field `text` or `stdin` of an object) is the standard
    /// input of steps without `input_from_task`.
    pub input: Option<Box<RawValue>>,
    /// Which of the action's inputs it is, from 0.
    pub input_index: Option<u32>,
    /// Variables for every step.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// So often a step that fails is worth another attempt.
    #[serde(default)]
    pub max_retries: u32,
}

/// What a plan gave: every step that was begun, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanResult {
    /// The steps.
    pub task_results: Vec<TaskResult>,
}

/// How one step ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskResult {
    /// Its number.
    pub task_number: u32,
    /// Its program.
    pub command: String,
    /// -1 where a signal ended it or it never started.
    pub exit_code: i32,
    /// What it wrote; bytes that are no text are replaced.
    #[serde(default)]
    pub stdout: String,
    /// The same for standard error.
    #[serde(default)]
    pub stderr: String,
    /// How long it took.
    #[serde(default)]
    pub duration_ms: u64,
    /// Whether output was cut.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}
