//! Leases: ask for work, stay alive, report.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use coordinator::{Judgement, Renewal};
use model::{Failure, LeaseId, Report, ReportKey, ReportedOutcome, ShardId, WorkerId};
use protocol::error_code::ErrorCode;
use protocol::rest::leases::{
    self as wire, Complete, Fail, GrantedLeases, Heartbeat, HeartbeatAnswer, ReportOutcome,
    Reports, RequestLeases, VerdictAnswer, Verdicts,
};
use protocol::session::payload::resource::Artifact;
use serde_json::value::RawValue;
use shard::artifacts;
use shard::report_key::{CODE_CHARS_MAX, REASON_CHARS_MAX, content_key, extra, named_key};
use shard::verdict_words::verdict_answer;

use super::answers::{NoLease, granted_leases, heartbeat_answer};
use super::auth_layer::Coordinator;
use super::body::Json;
use super::convert::{lease_request, prose, text};
use super::params::PathName;
use crate::app::App;
use crate::wire_words::payload::{RESULT_BYTES_MAX, payload};
use crate::wire_words::problem::{ApiError, json, json_bytes};

/// Ask for work
///
/// Waits up to `wait_ms` for the first lease, then gives what there is, up to `max`. The list is
/// empty when the wait is over. A request that is given up while it waits gets nothing.
#[utoipa::path(
    post, path = "/api/v1/leases", operation_id = "request_leases", request_body = RequestLeases,
    responses(
        (status = 200, body = GrantedLeases, description = "Leases, best first."),
        (status = 422, description = "E.REQUEST.INVALID, E.LIMIT.BATCH"),
        (status = 429, description = "E.LIMIT.WORKERS, E.LIMIT.OVERLOADED")
    )
)]
pub(super) async fn request(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    Json(body): Json<RequestLeases>,
) -> Result<Response, ApiError> {
    let request = lease_request(&body, app.clock.now())?;
    coordinator.speaks_for(request.worker.as_str())?;
    let grants = coordinator.handle.request_leases(request).await?;
    Ok(json_bytes(StatusCode::OK, granted_leases(&grants)))
}

/// Stay alive
///
/// Extends the lease, or says at once that it is over.
#[utoipa::path(
    post, path = "/api/v1/leases/{lease_id}/heartbeat", operation_id = "heartbeat",
    request_body = Heartbeat,
    responses((status = 200, body = HeartbeatAnswer, description = "The verdict, whatever it is."))
)]
pub(super) async fn heartbeat(
    coordinator: Coordinator,
    path: PathName,
    Json(body): Json<Heartbeat>,
) -> Result<Response, ApiError> {
    let worker: WorkerId = text(&"", &body.worker_id)?;
    coordinator.speaks_for(worker.as_str())?;
    let lease = match lease(path.as_str(), coordinator.handle.shard()) {
        Ok(lease) => lease,
        Err(no_lease) => return Ok(json(StatusCode::OK, &no_lease.heartbeat())),
    };
    let beaten = coordinator.handle.heartbeat(worker, Renewal::Listed(vec![lease])).await?;
    match beaten.verdicts.as_slice() {
        [verdict] => Ok(json(StatusCode::OK, &heartbeat_answer(*verdict))),
        _ => Err(ApiError::internal("one lease got several verdicts")),
    }
}

/// Report that the work is done
///
/// Every judged report is answered with 200; the verdict says what it is worth.
#[utoipa::path(
    post, path = "/api/v1/leases/{lease_id}/complete", operation_id = "complete",
    request_body = Complete,
    responses((status = 200, body = VerdictAnswer, description = "The verdict, whatever it is."))
)]
pub(super) async fn complete(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    path: PathName,
    Json(body): Json<Complete>,
) -> Result<Response, ApiError> {
    coordinator.speaks_for(&body.worker_id)?;
    let lease = lease(path.as_str(), coordinator.handle.shard());
    one(&app, &coordinator, read_complete(lease, body)?).await
}

/// Report that the work failed
///
/// A failure that counts is COMMITTED too; `task_state` says what became of the task.
#[utoipa::path(
    post, path = "/api/v1/leases/{lease_id}/fail", operation_id = "fail", request_body = Fail,
    responses((status = 200, body = VerdictAnswer, description = "The verdict, whatever it is."))
)]
pub(super) async fn fail(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    path: PathName,
    Json(body): Json<Fail>,
) -> Result<Response, ApiError> {
    coordinator.speaks_for(&body.worker_id)?;
    let lease = lease(path.as_str(), coordinator.handle.shard());
    one(&app, &coordinator, read_fail(lease, body)?).await
}

/// Report many attempts
///
/// Judged one by one, in order; one verdict each.
#[utoipa::path(
    post, path = "/api/v1/reports", operation_id = "report_many", request_body = Reports,
    responses(
        (status = 200, body = Verdicts, description = "One verdict per report, in order."),
        (status = 422, description = "E.REQUEST.INVALID, E.LIMIT.BATCH")
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
    let reports = reports(body.reports, coordinator.handle.shard())?;
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

/// Limit: reports in one call.
const REPORTS_PER_CALL_MAX: usize = 10_000;
/// Limit: a worker's own name for a report, in characters.
const REPORT_ID_CHARS_MAX: usize = 256;
const DEFAULT_CODE: &str = "E.RUNNER.FAILURE";

/// The lease that a text names, if it can be one of this shard.
pub(crate) fn lease(text: &str, shard: ShardId) -> Result<LeaseId, NoLease> {
    let lease: LeaseId = text.parse().map_err(|_| NoLease::Malformed)?;
    if lease.task.shard() == shard { Ok(lease) } else { Err(NoLease::Foreign) }
}

/// A report, or why no coordinator needs to see it.
pub(crate) type Judgeable = Result<Report, NoLease>;

fn read_complete(lease: Result<LeaseId, NoLease>, body: Complete) -> Result<Judgeable, ApiError> {
    let worker = text(&"", &body.worker_id)?;
    let words =
        CompletedWords { result: body.result, artifacts: body.artifacts, skipped: body.skipped };
    let outcome = completed(words)?;
    let key = key(body.report_id.as_deref(), &outcome)?;
    Ok(lease.map(|lease| Report { lease, worker, key, outcome }))
}

fn read_fail(lease: Result<LeaseId, NoLease>, body: Fail) -> Result<Judgeable, ApiError> {
    let worker = text(&"", &body.worker_id)?;
    let outcome = failed(FailedWords {
        reason: body.reason,
        code: body.code,
        retryable: body.retryable,
        details: body.details,
    })?;
    let key = key(body.report_id.as_deref(), &outcome)?;
    Ok(lease.map(|lease| Report { lease, worker, key, outcome }))
}

/// All reports of one call. One that cannot be read refuses the call; one whose lease cannot be
/// found does not.
pub(crate) fn reports(
    reports: Vec<wire::Report>,
    shard: ShardId,
) -> Result<Vec<Judgeable>, ApiError> {
    if reports.len() > REPORTS_PER_CALL_MAX {
        return Err(ApiError::batch("reports", reports.len(), REPORTS_PER_CALL_MAX));
    }
    let mut last_worker = None;
    let mut judgeable = Vec::with_capacity(reports.len());
    for (position, one) in reports.into_iter().enumerate() {
        let made = report(one, shard, &mut last_worker).map_err(|mut error| {
            error.message.insert_str(0, &format!("reports[{position}]."));
            error
        });
        judgeable.push(made?);
    }
    Ok(judgeable)
}

/// `last_worker` is who reported before: one call mostly speaks for one worker.
fn report(
    report: wire::Report,
    shard: ShardId,
    last_worker: &mut Option<WorkerId>,
) -> Result<Judgeable, ApiError> {
    let worker = match last_worker {
        Some(last) if last.as_str() == report.worker_id => last.clone(),
        Some(_) | None => last_worker.insert(text(&"", &report.worker_id)?).clone(),
    };
    let lease = lease(&report.lease_id, shard);
    let outcome = match report.outcome {
        ReportOutcome::Complete => {
            refuse("reason", report.reason.is_some())?;
            refuse("code", report.code.is_some())?;
            refuse("retryable", report.retryable.is_some())?;
            refuse("details", report.details.is_some())?;
            let (result, artifacts) = (report.result, report.artifacts);
            completed(CompletedWords { result, artifacts, skipped: report.skipped })?
        }
        ReportOutcome::Fail => {
            refuse("result", report.result.is_some())?;
            refuse("artifacts", report.artifacts.is_some())?;
            refuse("skipped", report.skipped.is_some())?;
            let reason = report.reason.ok_or_else(|| {
                ApiError::invalid("reason", "is missing; a failed attempt says why")
            })?;
            let (code, retryable, details) = (report.code, report.retryable, report.details);
            failed(FailedWords { reason, code, retryable, details })?
        }
    };
    let key = key(report.report_id.as_deref(), &outcome)?;
    Ok(lease.map(|lease| Report { lease, worker, key, outcome }))
}

/// Fields of the other outcome are a misunderstanding, and not silently dropped.
fn refuse(field: &str, is_given: bool) -> Result<(), ApiError> {
    if is_given {
        return Err(ApiError::invalid(field, "does not go with this outcome"));
    }
    Ok(())
}

/// What a completed attempt says of itself.
struct CompletedWords {
    result: Option<Box<RawValue>>,
    artifacts: Option<Vec<Box<RawValue>>>,
    skipped: Option<bool>,
}

fn completed(words: CompletedWords) -> Result<ReportedOutcome, ApiError> {
    let result = match words.result {
        Some(result) => payload("result", result, RESULT_BYTES_MAX)?,
        None => Bytes::from_static(b"null"),
    };
    let artifacts = read_artifacts(&words.artifacts.unwrap_or_default())?;
    let is_skipped = words.skipped.unwrap_or(false);
    Ok(ReportedOutcome::Completed { result, extra: extra(is_skipped, artifacts) })
}

fn read_artifacts(given: &[Box<RawValue>]) -> Result<Option<Bytes>, ApiError> {
    let read = |(position, raw): (usize, &RawValue)| {
        Artifact::decode(raw).map_err(|error| {
            ApiError::new(ErrorCode::RequestInvalid, format!("artifacts[{position}]: {error}"))
        })
    };
    let artifacts =
        given.iter().map(AsRef::as_ref).enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
    artifacts::kept(&artifacts).map_err(|error| {
        ApiError::new(ErrorCode::RequestTooLarge, error.to_string()).with_hint(artifacts::HINT)
    })
}

/// What a failed attempt says of itself.
struct FailedWords {
    reason: String,
    code: Option<String>,
    retryable: Option<bool>,
    details: Option<Box<RawValue>>,
}

fn failed(words: FailedWords) -> Result<ReportedOutcome, ApiError> {
    let FailedWords { reason, code, retryable, details } = words;
    prose(&"reason", &reason, REASON_CHARS_MAX)?;
    let code = code.unwrap_or_else(|| DEFAULT_CODE.to_owned());
    prose(&"code", &code, CODE_CHARS_MAX)?;
    let details = details.map(|given| payload("details", given, RESULT_BYTES_MAX)).transpose()?;
    let failure = Failure { code, reason, details };
    Ok(ReportedOutcome::Failed { failure, retryable: retryable.unwrap_or(true) })
}

/// Recognises the report when it is sent again: by the worker's own name for it, or by content.
fn key(report_id: Option<&str>, outcome: &ReportedOutcome) -> Result<ReportKey, ApiError> {
    let Some(report_id) = report_id else { return Ok(content_key(outcome)) };
    prose(&"report_id", report_id, REPORT_ID_CHARS_MAX)?;
    Ok(named_key(report_id))
}

#[cfg(test)]
mod tests;
