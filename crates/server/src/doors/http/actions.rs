//! Actions: one plan, many inputs, a job for each; and single jobs.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use coordinator::{TaskRecord, TaskState};
use model::Timestamp;
use protocol::error_code::ErrorCode;
use protocol::rest::actions::{
    Action, ActionCounts, ActionJob, Actions, StoppedAction, SubmitAction, SubmitJob,
    SubmittedAction,
};
use protocol::rest::tasks::Task;
use shard::documents::{ActionHead, Entry};

use super::answers;
use super::auth_layer::Coordinator;
use super::body::JsonBytes;
use super::params::{PathName, QueryPairs};
use super::tasks::load;
use crate::app::App;
use crate::plans::action::SubmitError;
use crate::plans::action::{self, ActionError, Counts};
use crate::plans::job::{JobProblem, job_id_in};
use crate::plans::kept;
use crate::wire_words::problem::{ApiError, json};

type KeptAction = Arc<Entry<ActionHead>>;

/// Limit: actions on a page.
const PAGE_ACTIONS_MAX: usize = 100;
const PAGE_ACTIONS_DEFAULT: i64 = 20;

/// Submit an action
///
/// Makes a job for each input, all or none. The same action again gives the same jobs.
#[utoipa::path(
    post, path = "/api/v1/actions", operation_id = "submit_action", request_body = SubmitAction,
    responses(
        (status = 201, body = SubmittedAction, description = "The jobs exist."),
        (status = 200, body = SubmittedAction, description = "They existed before."),
        (status = 404, description = "E.PLAN.NOT_FOUND"),
        (status = 409, description = "E.ACTION.CONFLICT: another action has the name."),
        (status = 429, description = "E.LIMIT.LIVE_TASKS, E.LIMIT.DEMANDS, E.LIMIT.OVERLOADED")
    )
)]
pub(super) async fn submit(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    body: JsonBytes,
) -> Result<Response, ApiError> {
    // Read once to name fields that are wrong or unknown; the jobs are made of the bytes.
    body.read::<SubmitAction>()?;
    let made = action::submit(&app, &coordinator.handle, body.bytes()).await?;
    let status = if made.existed { StatusCode::OK } else { StatusCode::CREATED };
    let submitted = SubmittedAction {
        action_id: made.action_id,
        plan_id: made.plan_id,
        plan_description: made.plan_description,
        jobs_created: made.jobs_created as u64,
        job_ids: made.job_ids,
    };
    Ok(json(status, &submitted))
}

/// List actions
#[utoipa::path(
    get, path = "/api/v1/actions", operation_id = "list_actions",
    params(
        ("limit" = Option<i64>, Query, description = "At most 100 are given. Default 20."),
        ("offset" = Option<i64>, Query, description = "So many are passed over. Default 0.")
    ),
    responses((status = 200, body = Actions, description = "Newest first."))
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    query: QueryPairs,
) -> Result<Response, ApiError> {
    let (skip, limit) = query.only(&["limit", "offset"])?.page(PAGE_ACTIONS_DEFAULT)?;
    let limit = limit.min(PAGE_ACTIONS_MAX);
    let (kept, total) = kept::actions(&coordinator.handle, skip, limit).await?;
    let mut actions = Vec::with_capacity(kept.len());
    for (name, kept) in kept {
        let records = action::records(&app, &coordinator.handle, &name).await?;
        actions.push(summary(name, &kept, &records));
    }
    Ok(json(StatusCode::OK, &Actions { actions, total: total as u64 }))
}

/// Look at an action
///
/// How its jobs fare, one by one and in numbers.
#[utoipa::path(
    get, path = "/api/v1/actions/{action_id}", operation_id = "get_action",
    responses((status = 200, body = Action, description = "With its jobs."))
)]
pub(super) async fn show(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    path: PathName,
) -> Result<Response, ApiError> {
    let kept = find(&coordinator, path.as_str()).await?;
    Ok(json(StatusCode::OK, &look(&app, &coordinator, path.as_str(), &kept).await?))
}

/// Stop an action
///
/// Stops every job of it that is not over. Stopping a stopped action changes nothing.
#[utoipa::path(
    post, path = "/api/v1/actions/{action_id}/cancel", operation_id = "cancel_action",
    responses((status = 200, body = StoppedAction, description = "No job of it is open."))
)]
pub(super) async fn cancel(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    path: PathName,
) -> Result<Response, ApiError> {
    let kept = find(&coordinator, path.as_str()).await?;
    let stopped = action::stop(&app, &coordinator.handle, path.as_str()).await? as u64;
    let action = look(&app, &coordinator, path.as_str(), &kept).await?;
    Ok(json(StatusCode::OK, &StoppedAction { stopped, action }))
}

async fn find(coordinator: &Coordinator, name: &str) -> Result<KeptAction, ApiError> {
    kept::action(&coordinator.handle, name).await?.ok_or_else(|| {
        ApiError::new(ErrorCode::ActionNotFound, format!("no action with the name {name}"))
    })
}

async fn look(
    app: &App,
    coordinator: &Coordinator,
    name: &str,
    kept: &KeptAction,
) -> Result<Action, ApiError> {
    let records = action::records(app, &coordinator.handle, name).await?;
    let jobs = records.iter().map(job).collect();
    Ok(Action { jobs: Some(jobs), ..summary(name.to_owned(), kept, &records) })
}

fn summary(action_id: String, kept: &KeptAction, records: &[TaskRecord]) -> Action {
    let counts = Counts::of(records);
    Action {
        action_id,
        plan_id: kept.head.plan_id.clone(),
        state: counts.state(),
        created_at: Timestamp::from_millis(kept.at_ms).to_string(),
        counts: ActionCounts {
            total: counts.total() as u64,
            waiting: counts.scheduled as u64,
            queued: counts.pending as u64,
            running: counts.running as u64,
            completed: counts.completed as u64,
            failed: counts.failed as u64,
            dead: counts.dead as u64,
            stopped: counts.cancelled as u64,
        },
        jobs: None,
    }
}

fn job(record: &TaskRecord) -> ActionJob {
    let task_id = record.id.to_string();
    let own_name = job_id_in(&record.parameters).map(str::to_owned);
    let mut job = ActionJob {
        job_id: own_name.unwrap_or_else(|| task_id.clone()),
        task_id,
        state: record.progress.state.word(),
        attempt: record.progress.attempt,
        worker_id: None,
        settled_at: None,
        reason: None,
    };
    match &record.progress.state {
        TaskState::Leased(lease) => job.worker_id = Some(lease.holder.to_string()),
        TaskState::Settled(settlement) => {
            job.worker_id = settlement.holder.as_ref().map(ToString::to_string);
            job.settled_at = Some(settlement.at.to_string());
            job.reason = settlement.failure.as_ref().map(|failure| failure.reason.clone());
        }
        TaskState::Waiting { .. } | TaskState::Ready => {}
    }
    job
}

impl From<JobProblem> for ApiError {
    fn from(problem: JobProblem) -> Self {
        match problem {
            JobProblem::Invalid(text) => Self::new(ErrorCode::RequestInvalid, text),
            JobProblem::Plan(error) => error.into(),
        }
    }
}

impl From<ActionError> for ApiError {
    fn from(error: ActionError) -> Self {
        match error {
            ActionError::Invalid(problem) => problem.into(),
            ActionError::Keep(error) => error.into(),
            ActionError::Ask(error) => error.into(),
            ActionError::Store(error) => error.into(),
        }
    }
}

/// Submit a job
///
/// A job is a task that executes a plan, a command, or what its own worker makes of it.
#[utoipa::path(
    post, path = "/api/v1/jobs", operation_id = "submit_job", request_body = SubmitJob,
    responses(
        (status = 201, body = Task, description = "The job's task exists."),
        (status = 200, body = Task, description = "It existed before."),
        (status = 404, description = "E.PLAN.NOT_FOUND, E.TASK.NOT_FOUND: a job in `after`."),
        (status = 409, description = "E.TASK.IDEMPOTENCY: another job has the name."),
        (status = 429, description = "E.LIMIT.LIVE_TASKS, E.LIMIT.DEMANDS, E.LIMIT.OVERLOADED")
    )
)]
pub(super) async fn submit_job(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    body: JsonBytes,
) -> Result<Response, ApiError> {
    // Read once to name fields that are wrong; the job is made of the bytes.
    body.read::<SubmitJob>()?;
    let made = action::submit_job(&app, &coordinator.handle, body.bytes()).await?;
    let status = if made.existed { StatusCode::OK } else { StatusCode::CREATED };
    Ok(json(status, &answers::task(&load(&app, made.task).await?)?))
}

impl From<SubmitError> for ApiError {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Invalid(problem) => problem.into(),
            SubmitError::NoJob(name) => {
                Self::new(ErrorCode::TaskNotFound, format!("after: no job with the name {name}"))
            }
            SubmitError::Exists(name) => {
                let message = format!("the job {name} was submitted with other content");
                Self::new(ErrorCode::TaskIdempotency, message)
                    .with_hint("use a new job_id, or send the same job again")
            }
            SubmitError::Ask(error) => error.into(),
            SubmitError::Store(error) => error.into(),
        }
    }
}
