//! Plans, and the actions and jobs that execute them: keep, look at, list, forget; submit, stop.

use std::sync::Arc;

use axum::http::StatusCode;
use coordinator::{TaskRecord, TaskState};
use model::Timestamp;
use protocol::error_code::ErrorCode;
use protocol::rest::actions::{
    Action, ActionJob, Actions, StoppedAction, SubmitAction, SubmitJob, SubmittedAction,
};
use protocol::rest::plans::{DeletedPlan, Plan, PlanSummary, Plans, SubmitPlan};
use protocol::rest::tasks::Task;
use shard::documents::{ActionHead, Entry};

use super::answers;
use super::auth_layer::Context;
use super::request::{JsonBytes, PathName, QueryPairs};
use super::tasks::load;
use crate::plans::job::job_id_in;
use crate::plans::kept::{KeptPlan, ListedPlan, PlanError, delete};
use crate::plans::{action, kept};
use crate::wire_words::problem::{Answer, ApiError, json, ok};

const PAGE_PLANS_DEFAULT: i64 = 50;

/// Keep a plan
///
/// The same plan again changes nothing. A plan never changes: another one needs another name.
#[utoipa::path(
    post, path = "/api/v1/plans", operation_id = "submit_plan", request_body = SubmitPlan,
    responses(
        (status = 201, body = Plan, description = "The plan is kept."),
        (status = 200, body = Plan, description = "It was kept before."),
        (status = 409, description = "E.PLAN.CONFLICT: another plan has the name."),
        (status = 429, description = "E.LIMIT.PLANS")
    )
)]
pub(super) async fn submit(context: Context, body: JsonBytes) -> Answer {
    // Read once to refuse fields that are unknown; a kept plan may have some.
    body.read::<SubmitPlan>()?;
    let plan: protocol::plan::Plan = body.read()?;
    plan.check()
        .map_err(|problem| ApiError::new(ErrorCode::RequestInvalid, problem.to_string()))?;
    let is_new = kept::add_plan(&context.handle, &plan, context.app.clock.now()).await?;
    let kept = find(&context, &plan.plan_id).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok(json(status, &whole(&kept)))
}

/// List plans
#[utoipa::path(
    get, path = "/api/v1/plans", operation_id = "list_plans",
    params(
        ("pattern" = Option<String>, Query, description = "Only names like this: `*` and `?`."),
        ("limit" = Option<i64>, Query, description = "1 to 500. Default 50."),
        ("offset" = Option<i64>, Query, description = "So many are passed over. Default 0.")
    ),
    responses((status = 200, body = Plans, description = "By name."))
)]
pub(super) async fn list(context: Context, query: QueryPairs) -> Answer {
    let query = query.only(&["pattern", "limit", "offset"])?;
    let (skip, limit) = query.page(PAGE_PLANS_DEFAULT)?;
    let pattern = query.first("pattern").unwrap_or("*");
    let mut plans = kept::plans(&context.handle).await?;
    plans.retain(|(name, _)| keyspace::matches(pattern.as_bytes(), name.as_bytes()));
    let page = plans.iter().skip(skip).take(limit).map(summary);
    ok(&Plans { plans: page.collect(), total: plans.len() as u64 })
}

/// Look at a plan
#[utoipa::path(
    get, path = "/api/v1/plans/{plan_id}", operation_id = "get_plan",
    responses((status = 200, body = Plan, description = "The plan."))
)]
pub(super) async fn show(context: Context, path: PathName) -> Answer {
    ok(&whole(&find(&context, path.as_str()).await?))
}

async fn find(context: &Context, plan_id: &str) -> Result<KeptPlan, ApiError> {
    let kept = kept::plan(&*context.app.store, &context.handle, plan_id).await?;
    kept.ok_or_else(|| PlanError::NoPlan(plan_id.to_owned()).into())
}

/// Forget a plan
///
/// Refused while jobs of it are open. Jobs that are over keep their own copy.
#[utoipa::path(
    delete, path = "/api/v1/plans/{plan_id}", operation_id = "delete_plan",
    responses(
        (status = 200, body = DeletedPlan, description = "The name is free again."),
        (status = 409, description = "E.PLAN.CONFLICT: jobs of it are open.")
    )
)]
pub(super) async fn remove(context: Context, path: PathName) -> Answer {
    let plan_id = path.as_str().to_owned();
    delete(&context.app, &context.handle, &plan_id).await?;
    ok(&DeletedPlan { plan_id })
}

fn whole(kept: &KeptPlan) -> Plan {
    Plan {
        plan_id: kept.plan.plan_id.clone(),
        plan_description: kept.plan.plan_description.clone(),
        tasks: kept.plan.tasks.clone(),
        created_at: Timestamp::from_millis(kept.created_ms).to_string(),
    }
}

fn summary((plan_id, kept): &ListedPlan) -> PlanSummary {
    PlanSummary {
        plan_id: plan_id.clone(),
        plan_description: kept.head.description.clone(),
        task_count: kept.head.task_count,
        created_at: Timestamp::from_millis(kept.at_ms).to_string(),
    }
}

impl From<PlanError> for ApiError {
    fn from(error: PlanError) -> Self {
        let message = error.to_string();
        match error {
            PlanError::Invalid(_) | PlanError::PlanTooLarge(_) => {
                Self::new(ErrorCode::RequestInvalid, message)
            }
            PlanError::PlanExists(name) => {
                let message = format!("the plan {name} has other steps");
                Self::new(ErrorCode::PlanConflict, message)
            }
            PlanError::PlansFull => Self::new(ErrorCode::LimitPlans, message),
            // The same words for a plan that never was and for one of another tenant.
            PlanError::NoPlan(name) => {
                Self::new(ErrorCode::PlanNotFound, format!("no plan with the name {name}"))
            }
            PlanError::PlanActive(name) => {
                Self::new(ErrorCode::PlanConflict, format!("jobs of the plan {name} are open"))
                    .with_hint("wait for them, or stop them with `astra action cancel`")
            }
            PlanError::ActionExists(name) => {
                let message = format!("the action {name} was submitted with other content");
                Self::new(ErrorCode::ActionConflict, message)
            }
            PlanError::JobExists(name) => {
                let message = format!("the job {name} was submitted with other content");
                Self::new(ErrorCode::TaskIdempotency, message)
                    .with_hint("use a new job_id, or send the same job again")
            }
            PlanError::NoJob(name) => {
                Self::new(ErrorCode::TaskNotFound, format!("after: no job with the name {name}"))
            }
            PlanError::Ask(error) => error.into(),
            PlanError::Store(error) => error.into(),
        }
    }
}

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
pub(super) async fn submit_action(context: Context, body: JsonBytes) -> Answer {
    // Read once to name fields that are wrong or unknown; the jobs are made of the bytes.
    body.read::<SubmitAction>()?;
    let (made, existed) = action::submit(&context.app, &context.handle, body.bytes()).await?;
    Ok(json(if existed { StatusCode::OK } else { StatusCode::CREATED }, &made))
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
pub(super) async fn list_actions(context: Context, query: QueryPairs) -> Answer {
    let (skip, limit) = query.only(&["limit", "offset"])?.page(PAGE_ACTIONS_DEFAULT)?;
    let limit = limit.min(PAGE_ACTIONS_MAX);
    let (kept, total) = kept::actions(&context.handle, skip, limit).await?;
    let mut actions = Vec::with_capacity(kept.len());
    for (name, kept) in kept {
        let records = action::records(&context.app, &context.handle, &name).await?;
        actions.push(action_summary(name, &kept, &records));
    }
    ok(&Actions { actions, total: total as u64 })
}

/// Look at an action
///
/// How its jobs fare, one by one and in numbers.
#[utoipa::path(
    get, path = "/api/v1/actions/{action_id}", operation_id = "get_action",
    responses((status = 200, body = Action, description = "With its jobs."))
)]
pub(super) async fn show_action(context: Context, path: PathName) -> Answer {
    let kept = find_action(&context, path.as_str()).await?;
    ok(&look(&context, path.as_str(), &kept).await?)
}

/// Stop an action
///
/// Stops every job of it that is not over. Stopping a stopped action changes nothing.
#[utoipa::path(
    post, path = "/api/v1/actions/{action_id}/cancel", operation_id = "cancel_action",
    responses((status = 200, body = StoppedAction, description = "No job of it is open."))
)]
pub(super) async fn cancel_action(context: Context, path: PathName) -> Answer {
    let kept = find_action(&context, path.as_str()).await?;
    let stopped = action::stop(&context.app, &context.handle, path.as_str()).await? as u64;
    let action = look(&context, path.as_str(), &kept).await?;
    ok(&StoppedAction { stopped, action })
}

async fn find_action(context: &Context, name: &str) -> Result<KeptAction, ApiError> {
    kept::action(&context.handle, name).await?.ok_or_else(|| {
        ApiError::new(ErrorCode::ActionNotFound, format!("no action with the name {name}"))
    })
}

async fn look(context: &Context, name: &str, kept: &KeptAction) -> Result<Action, ApiError> {
    let records = action::records(&context.app, &context.handle, name).await?;
    let jobs = records.iter().map(job).collect();
    Ok(Action { jobs: Some(jobs), ..action_summary(name.to_owned(), kept, &records) })
}

fn action_summary(action_id: String, kept: &KeptAction, records: &[TaskRecord]) -> Action {
    let counts = action::counts(records);
    Action {
        action_id,
        plan_id: kept.head.plan_id.clone(),
        state: action::state(&counts),
        created_at: Timestamp::from_millis(kept.at_ms).to_string(),
        counts,
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
pub(super) async fn submit_job(context: Context, body: JsonBytes) -> Answer {
    // Read once to name fields that are wrong; the job is made of the bytes.
    body.read::<SubmitJob>()?;
    let made = action::submit_job(&context.app, &context.handle, body.bytes()).await?;
    let status = if made.existed { StatusCode::OK } else { StatusCode::CREATED };
    Ok(json(status, &answers::task(&load(&context.app, made.task).await?)?))
}
