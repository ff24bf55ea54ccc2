//! Reports: what workers say, and the coordinator's word about it.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use coordinator::Judgement;
use protocol::rest::leases::{Complete, Fail, Reports, VerdictAnswer, Verdicts};
use protocol::rest::problem::Problem;
use shard::verdict_words::verdict_answer;

use super::answers::NoLease;
use super::body::Json;
use super::convert::reports::{self as convert, Judgeable};
use super::gate::Coordinator;
use super::params::PathName;
use crate::app::App;
use crate::wire_words::problem::{ApiError, json};

/// Report that the work is done
///
/// Every judged report is answered with 200; the verdict says what it is worth.
#[utoipa::path(
    post, path = "/api/v1/leases/{lease_id}/complete", tag = "leases",
    operation_id = "complete", request_body = Complete,
    params(("lease_id" = String, Path, description = "The lease.")),
    responses(
        (status = 200, body = VerdictAnswer, description = "The verdict, whatever it is."),
        (status = 422, body = Problem, description = "E.REQUEST.INVALID"),
        (status = 429, body = Problem, description = "E.LIMIT.OVERLOADED"),
        (status = 503, body = Problem, description = "E.STORE.UNAVAILABLE, E.SERVER.STOPPING")
    )
)]
pub(super) async fn complete(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    path: PathName,
    Json(body): Json<Complete>,
) -> Result<Response, ApiError> {
    coordinator.speaks_for(&body.worker_id)?;
    let lease = convert::lease(path.as_str(), coordinator.handle.shard());
    one(&app, &coordinator, convert::complete(lease, body)?).await
}

/// Report that the work failed
///
/// A failure that counts is COMMITTED too; `task_state` says what became of the task.
#[utoipa::path(
    post, path = "/api/v1/leases/{lease_id}/fail", tag = "leases",
    operation_id = "fail", request_body = Fail,
    params(("lease_id" = String, Path, description = "The lease.")),
    responses(
        (status = 200, body = VerdictAnswer, description = "The verdict, whatever it is."),
        (status = 422, body = Problem, description = "E.REQUEST.INVALID"),
        (status = 429, body = Problem, description = "E.LIMIT.OVERLOADED"),
        (status = 503, body = Problem, description = "E.STORE.UNAVAILABLE, E.SERVER.STOPPING")
    )
)]
pub(super) async fn fail(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    path: PathName,
    Json(body): Json<Fail>,
) -> Result<Response, ApiError> {
    coordinator.speaks_for(&body.worker_id)?;
    let lease = convert::lease(path.as_str(), coordinator.handle.shard());
    one(&app, &coordinator, convert::fail(lease, body)?).await
}

/// Report many attempts
///
/// Judged one by one, in order; one verdict each.
#[utoipa::path(
    post, path = "/api/v1/reports", tag = "leases",
    operation_id = "report_many", request_body = Reports,
    responses(
        (status = 200, body = Verdicts, description = "One verdict per report, in order."),
        (status = 422, body = Problem, description = "E.REQUEST.INVALID, E.LIMIT.BATCH"),
        (status = 429, body = Problem, description = "E.LIMIT.OVERLOADED"),
        (status = 503, body = Problem, description = "E.STORE.UNAVAILABLE, E.SERVER.STOPPING")
    )
)]
pub(super) async fn many(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    Json(body): Json<Reports>,
) -> Result<Response, ApiError> {
    for report in &body.reports {
        coordinator.speaks_for(&report.worker_id)?;
    }
    let reports = convert::reports(body.reports, coordinator.handle.shard())?;
    let verdicts = judge(&app, &coordinator, reports).await?;
    Ok(json(StatusCode::OK, &Verdicts { verdicts }))
}

async fn one(
    app: &App,
    coordinator: &Coordinator,
    report: Judgeable,
) -> Result<Response, ApiError> {
    let verdicts = judge(app, coordinator, vec![report]).await?;
    match verdicts.as_slice() {
        [verdict] => Ok(json(StatusCode::OK, verdict)),
        _ => Err(ApiError::internal("one report got several verdicts")),
    }
}

/// One verdict per report, in order. Those without a lease are judged here, the rest by the
/// coordinator.
async fn judge(
    app: &App,
    coordinator: &Coordinator,
    reports: Vec<Judgeable>,
) -> Result<Vec<VerdictAnswer>, ApiError> {
    let places: Vec<Option<NoLease>> =
        reports.iter().map(|one| one.as_ref().err().copied()).collect();
    let reports: Vec<_> = reports.into_iter().flatten().collect();
    let n_refused = places.len() - reports.len();
    if n_refused > 0 {
        app.metrics.observe_refused_reports(&coordinator.caller.tenant, n_refused);
    }
    let judgements = ask(coordinator, reports).await?;
    let mut judgements = judgements.into_iter().map(verdict_answer);
    let verdicts = places.into_iter().map(|place| match place {
        Some(no_lease) => Some(no_lease.verdict()),
        None => judgements.next(),
    });
    let verdicts: Option<Vec<_>> = verdicts.collect();
    verdicts.ok_or_else(|| ApiError::internal("a report got no verdict"))
}

async fn ask(
    coordinator: &Coordinator,
    reports: Vec<model::Report>,
) -> Result<Vec<Judgement>, ApiError> {
    if reports.is_empty() {
        return Ok(Vec::new());
    }
    Ok(coordinator.handle.report(reports).await?)
}
