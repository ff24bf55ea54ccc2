//! Plans: keep, look at, list, forget.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use model::Timestamp;
use protocol::error_code::ErrorCode;
use protocol::rest::plans::{DeletedPlan, Plan, PlanSummary, Plans, SubmitPlan};

use super::auth_layer::Coordinator;
use super::body::Json;
use super::params::{PathName, QueryPairs};
use crate::app::App;
use crate::plans::kept::{self, KeepError, KeptPlan, ListedPlan};
use crate::plans::kept::{DeleteError, delete};
use crate::wire_words::problem::{ApiError, json};

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
pub(super) async fn submit(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    Json(body): Json<SubmitPlan>,
) -> Result<Response, ApiError> {
    let plan = protocol::plan::Plan::from(body);
    plan.check()
        .map_err(|problem| ApiError::new(ErrorCode::RequestInvalid, problem.to_string()))?;
    let is_new = kept::add_plan(&coordinator.handle, &plan, app.clock.now()).await?;
    let kept = find(&app, &coordinator, &plan.plan_id).await?;
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
pub(super) async fn list(
    coordinator: Coordinator,
    query: QueryPairs,
) -> Result<Response, ApiError> {
    let query = query.only(&["pattern", "limit", "offset"])?;
    let (skip, limit) = query.page(PAGE_PLANS_DEFAULT)?;
    let pattern = query.first("pattern").unwrap_or("*");
    let mut plans = kept::plans(&coordinator.handle).await?;
    plans.retain(|(name, _)| keyspace::matches(pattern.as_bytes(), name.as_bytes()));
    let page = plans.iter().skip(skip).take(limit).map(summary);
    Ok(json(StatusCode::OK, &Plans { plans: page.collect(), total: plans.len() as u64 }))
}

/// Look at a plan
#[utoipa::path(
    get, path = "/api/v1/plans/{plan_id}", operation_id = "get_plan",
    responses((status = 200, body = Plan, description = "The plan."))
)]
pub(super) async fn show(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    path: PathName,
) -> Result<Response, ApiError> {
    Ok(json(StatusCode::OK, &whole(&find(&app, &coordinator, path.as_str()).await?)))
}

async fn find(app: &App, coordinator: &Coordinator, plan_id: &str) -> Result<KeptPlan, ApiError> {
    let kept = kept::plan(&*app.store, &coordinator.handle, plan_id).await?;
    kept.ok_or_else(|| KeepError::NoPlan(plan_id.to_owned()).into())
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
pub(super) async fn remove(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    path: PathName,
) -> Result<Response, ApiError> {
    let plan_id = path.as_str().to_owned();
    delete(&app, &coordinator.handle, &plan_id).await?;
    Ok(json(StatusCode::OK, &DeletedPlan { plan_id }))
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

impl From<KeepError> for ApiError {
    fn from(error: KeepError) -> Self {
        match error {
            KeepError::PlanExists(name) => {
                let message = format!("the plan {name} has other steps");
                Self::new(ErrorCode::PlanConflict, message)
            }
            KeepError::ActionExists(name) => {
                let message = format!("the action {name} was submitted with other content");
                Self::new(ErrorCode::ActionConflict, message)
            }
            KeepError::NoPlan(name) => no_plan(&name),
            KeepError::PlanTooLarge(_) => Self::new(ErrorCode::RequestInvalid, error.to_string()),
            KeepError::PlansFull => Self::new(ErrorCode::LimitPlans, error.to_string()),
            KeepError::Ask(error) => error.into(),
            KeepError::Store(error) => error.into(),
        }
    }
}

impl From<DeleteError> for ApiError {
    fn from(error: DeleteError) -> Self {
        match error {
            DeleteError::Keep(error) => error.into(),
            DeleteError::Active(name) => {
                let message = format!("jobs of the plan {name} are open");
                let hint = "wait for them, or stop them with `astra action cancel`";
                Self::new(ErrorCode::PlanConflict, message).with_hint(hint)
            }
        }
    }
}

/// The same words for a plan that never was and for one of another tenant.
fn no_plan(name: &str) -> ApiError {
    ApiError::new(ErrorCode::PlanNotFound, format!("no plan with the name {name}"))
}
