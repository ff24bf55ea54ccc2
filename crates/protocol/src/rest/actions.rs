//! Actions and jobs: plans at work.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::tasks::State;
use crate::plan::PlanTask;

/// `POST /actions`: one plan, many inputs, a job for each.
#[skip_serializing_none]
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitAction {
    /// Its name: 1 to 64 characters of `A-Z a-z 0-9 - _`. It is the run of its jobs.
    #[schema(example = "a1")]
    pub action_id: String,
    /// The plan that its jobs execute.
    #[schema(example = "dedupe")]
    pub plan_id: String,
    /// Any JSON, one for each job; at most 1000. Without any there is one job without input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<serde_json::Value>)]
    pub inputs: Vec<Box<RawValue>>,
    /// Variables for every step.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The queue of its jobs. Default `ready`; `default` for plans of one step.
    pub queue: Option<String>,
    /// From -1000 to 1000, higher first. Default 0.
    pub priority: Option<i64>,
    /// The longest that one attempt of a job may take. Default 3600.
    pub timeout_secs: Option<u64>,
    /// How often a failure is tried again, 0 to 100. Default 0.
    #[serde(default, alias = "retries")]
    pub max_retries: Option<u32>,
    /// Tools that a worker must have, beside the plan's programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// More such tools, under the name that some submitters use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agentic_units: Vec<String>,
    /// Tags that a worker must carry: a list of names, or an object of names and values.
    #[schema(value_type = Option<serde_json::Value>)]
    pub tags: Option<Box<RawValue>>,
    /// Not before this moment: RFC 3339, or seconds since 1970.
    #[serde(default, alias = "scheduled_at", alias = "not_before")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub run_at: Option<Box<RawValue>>,
    /// Not before so many seconds have passed.
    pub delay_secs: Option<u64>,
}

/// The answer to `POST /actions`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SubmittedAction {
    /// Its name.
    pub action_id: String,
    /// The plan.
    pub plan_id: String,
    /// What the plan says of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_description: Option<String>,
    /// How many jobs it has.
    pub jobs_created: u64,
    /// Their tasks, in the order of the inputs.
    pub job_ids: Vec<String>,
}

/// `GET /actions`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Actions {
    /// Newest first, without their jobs.
    pub actions: Vec<Action>,
    /// How many are remembered, on all pages.
    pub total: u64,
}

/// An action: how its jobs fare.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Action {
    /// Its name, and the run of its jobs.
    pub action_id: String,
    /// The plan.
    pub plan_id: String,
    /// One word for all jobs: QUEUED until the first one runs, RUNNING until the last one ends,
    /// then FAILED if any did not complete, STOPPED if any was stopped, or COMPLETED.
    pub state: State,
    /// When it was submitted.
    pub created_at: String,
    /// How many jobs stand where.
    pub counts: ActionCounts,
    /// Its jobs, in the order of the inputs. Only where one action is looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<Vec<ActionJob>>,
}

/// How many jobs of an action stand where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ActionCounts {
    /// All of them.
    pub total: u64,
    /// Not before a moment, or another job.
    pub waiting: u64,
    /// May run, or wait for their next attempt.
    pub queued: u64,
    /// Held by workers.
    pub running: u64,
    /// Done.
    pub completed: u64,
    /// Failed for good.
    pub failed: u64,
    /// Out of attempts.
    pub dead: u64,
    /// Stopped by a person.
    pub stopped: u64,
}

/// A job of an action.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ActionJob {
    /// What it is called over the Redis protocol; its task's id if it has no name of its own.
    pub job_id: String,
    /// Its task, for `GET /tasks/{task_id}`.
    pub task_id: String,
    /// Where it stands.
    pub state: State,
    /// Attempts so far.
    pub attempt: u32,
    /// Who has it, or had it last.
    pub worker_id: Option<String>,
    /// When it came to its end.
    pub settled_at: Option<String>,
    /// Why it did not complete.
    pub reason: Option<String>,
}

/// The answer to `POST /actions/{action_id}/cancel`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct StoppedAction {
    /// Jobs that this call stopped.
    pub stopped: u64,
    /// How the action stands now.
    pub action: Action,
}

/// `POST /jobs`: one job, as `JOB.SUBMIT` takes it. What is executed is `plan_id`, `plan`, `tasks`
/// or `command`; a job with none of them may carry any other fields, and its worker gets them all.
#[derive(Debug, Deserialize, ToSchema)]
pub struct SubmitJob<'a> {
    /// Its own name: 1 to 64 characters of `A-Z a-z 0-9 - _`. The same job again is the same job.
    #[serde(borrow, default, alias = "id")]
    pub job_id: Option<Cow<'a, str>>,
    /// The action that it belongs to.
    #[serde(borrow, default)]
    pub action_id: Option<Cow<'a, str>>,
    /// A plan that is kept; or the name of the steps in `tasks`.
    pub plan_id: Option<String>,
    /// For people.
    #[serde(default, alias = "description")]
    pub plan_description: Option<String>,
    /// A plan in place.
    pub plan: Option<JobPlan>,
    /// Steps.
    pub tasks: Option<Vec<PlanTask>>,
    /// A single program.
    pub command: Option<String>,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Any JSON.
    #[serde(borrow, default)]
    #[schema(value_type = Option<serde_json::Value>)]
    pub input: Option<&'a RawValue>,
    /// Which of its action's inputs that is, from 0. Actions say it, not their submitters.
    #[schema(ignore)]
    pub input_index: Option<u32>,
    /// Variables for every step.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The queue. Default `ready`; `default` for single programs.
    #[serde(borrow, default)]
    pub queue: Option<Cow<'a, str>>,
    /// From -1000 to 1000, higher first. Default 0.
    pub priority: Option<i64>,
    /// The longest that one attempt may take. Default 3600.
    pub timeout_secs: Option<u64>,
    /// How often a failure is tried again, 0 to 100. Default 0.
    #[serde(default, alias = "retries")]
    pub max_retries: Option<u32>,
    /// Tools that a worker must have, beside the programs.
    #[serde(default)]
    pub tools: Vec<String>,
    /// More such tools, under the name that some submitters use.
    #[serde(default)]
    pub agentic_units: Vec<String>,
    /// Tags that a worker must carry: a list of names, or an object of names and values.
    #[serde(default)]
    #[schema(value_type = Option<serde_json::Value>)]
    pub tags: JobTags,
    /// Not before this moment: RFC 3339, or seconds since 1970.
    #[serde(default, alias = "scheduled_at", alias = "not_before")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub run_at: Option<JobMoment>,
    /// Not before so many seconds have passed.
    pub delay_secs: Option<u64>,
    /// Jobs that must be completed first: names, or ids of their tasks.
    #[serde(default, alias = "dependencies")]
    pub after: Vec<String>,
}

/// `["gpu"]`, or `{"gpu": true, "zone": "a"}`.
#[derive(Debug, Default, Deserialize)]
#[serde(untagged)]
pub enum JobTags {
    /// The job says nothing of tags.
    #[default]
    None,
    /// Bare tags.
    List(Vec<String>),
    /// Tags with values.
    Map(BTreeMap<String, serde_json::Value>),
    /// Neither; it is taken in so that the refusal can name the field.
    Other(IgnoredAny),
}

/// RFC 3339, or seconds since 1970.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum JobMoment {
    /// RFC 3339, if it is right.
    Text(String),
    /// Seconds since 1970.
    Seconds(u64),
    /// Neither; it is taken in so that the refusal can name the field.
    Other(IgnoredAny),
}

/// A plan inside a job.
#[derive(Debug, Deserialize, ToSchema)]
pub struct JobPlan {
    /// Its name.
    pub plan_id: Option<String>,
    /// For people.
    #[serde(default, alias = "description")]
    pub plan_description: Option<String>,
    /// Its steps.
    pub tasks: Vec<PlanTask>,
}
