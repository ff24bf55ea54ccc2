//! Leases: ask for work, stay alive, report.

use axum::http::StatusCode;
use bytes::Bytes;
use coordinator::Renewal;
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
use super::auth_layer::Context;
use super::convert::{lease_request, prose, text};
use super::request::{Json, PathName};
use crate::wire_words::payload::{RESULT_BYTES_MAX, payload};
use crate::wire_words::problem::{Answer, ApiError, json_bytes, ok};

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
pub(super) async fn request(context: Context, Json(body): Json<RequestLeases>) -> Answer {
    let request = lease_request(&body, context.app.clock.now())?;
    context.speaks_for(request.worker.as_str())?;
    let grants = context.handle.request_leases(request).await?;
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
    context: Context,
    path: PathName,
    Json(body): Json<Heartbeat>,
) -> Answer {
    let worker: WorkerId = text(&"", &body.worker_id)?;
    context.speaks_for(worker.as_str())?;
    let lease = match lease(path.as_str(), context.shard()) {
        Ok(lease) => lease,
        Err(no_lease) => return ok(&no_lease.heartbeat()),
    };
    let beaten = context.handle.heartbeat(worker, Renewal::Listed(vec![lease])).await?;
    match beaten.verdicts.as_slice() {
        [verdict] => ok(&heartbeat_answer(*verdict)),
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
    context: Context,
    path: PathName,
    Json(body): Json<Complete>,
) -> Answer {
    context.speaks_for(&body.worker_id)?;
    let lease = lease(path.as_str(), context.shard());
    one(&context, completed(lease, text(&"", &body.worker_id)?, body)?).await
}

/// Report that the work failed
///
/// A failure that counts is COMMITTED too; `task_state` says what became of the task.
#[utoipa::path(
    post, path = "/api/v1/leases/{lease_id}/fail", operation_id = "fail", request_body = Fail,
    responses((status = 200, body = VerdictAnswer, description = "The verdict, whatever it is."))
)]
pub(super) async fn fail(context: Context, path: PathName, Json(body): Json<Fail>) -> Answer {
    context.speaks_for(&body.worker_id)?;
    let lease = lease(path.as_str(), context.shard());
    one(&context, failed(lease, text(&"", &body.worker_id)?, body)?).await
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
pub(super) async fn many(context: Context, Json(body): Json<Reports>) -> Answer {
    for report in &body.reports {
        context.speaks_for(&report.worker_id)?;
    }
    let reports = reports(body.reports, context.shard())?;
    let verdicts = judge(&context, reports).await?;
    ok(&Verdicts { verdicts })
}

async fn one(context: &Context, report: Judgeable) -> Answer {
    let verdicts = judge(context, vec![report]).await?;
    match verdicts.as_slice() {
        [verdict] => ok(verdict),
        _ => Err(ApiError::internal("one report got several verdicts")),
    }
}

/// One verdict per report, in order. Those without a lease are judged here, the rest by the
/// coordinator.
async fn judge(context: &Context, reports: Vec<Judgeable>) -> Result<Vec<VerdictAnswer>, ApiError> {
    let places: Vec<Option<NoLease>> =
        reports.iter().map(|one| one.as_ref().err().copied()).collect();
    let reports: Vec<_> = reports.into_iter().flatten().collect();
    let n_refused = places.len() - reports.len();
    if n_refused > 0 {
        context.app.metrics.observe_refused_reports(&context.caller.tenant, n_refused);
    }
    let judgements =
        if reports.is_empty() { Vec::new() } else { context.handle.report(reports).await? };
    let mut judgements = judgements.into_iter().map(verdict_answer);
    let verdicts = places.into_iter().map(|place| match place {
        Some(no_lease) => Some(no_lease.verdict()),
        None => judgements.next(),
    });
    let verdicts: Option<Vec<_>> = verdicts.collect();
    verdicts.ok_or_else(|| ApiError::internal("a report got no verdict"))
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
    let wire::Report { lease_id, worker_id, result, artifacts, skipped, report_id, .. } = report;
    let wire::Report { reason, code, retryable, details, .. } = report;
    let worker = match last_worker {
        Some(last) if last.as_str() == worker_id => last.clone(),
        Some(_) | None => last_worker.insert(text(&"", &worker_id)?).clone(),
    };
    let lease = lease(&lease_id, shard);
    match report.outcome {
        ReportOutcome::Complete => {
            refuse("reason", reason.is_some())?;
            refuse("code", code.is_some())?;
            refuse("retryable", retryable.is_some())?;
            refuse("details", details.is_some())?;
            let body = Complete { worker_id, result, artifacts, skipped, report_id };
            completed(lease, worker, body)
        }
        ReportOutcome::Fail => {
            refuse("result", result.is_some())?;
            refuse("artifacts", artifacts.is_some())?;
            refuse("skipped", skipped.is_some())?;
            let reason = reason.ok_or_else(|| {
                ApiError::invalid("reason", "is missing; a failed attempt says why")
            })?;
            failed(lease, worker, Fail { worker_id, reason, code, retryable, details, report_id })
        }
    }
}

/// Fields of the other outcome are a misunderstanding, and not silently dropped.
fn refuse(field: &str, is_given: bool) -> Result<(), ApiError> {
    if is_given {
        return Err(ApiError::invalid(field, "does not go with this outcome"));
    }
    Ok(())
}

fn completed(
    lease: Result<LeaseId, NoLease>,
    worker: WorkerId,
    body: Complete,
) -> Result<Judgeable, ApiError> {
    let result = match body.result {
        Some(result) => payload("result", result, RESULT_BYTES_MAX)?,
        None => Bytes::from_static(b"null"),
    };
    let artifacts = read_artifacts(&body.artifacts.unwrap_or_default())?;
    let extra = extra(body.skipped.unwrap_or(false), artifacts);
    let outcome = ReportedOutcome::Completed { result, extra };
    let key = key(body.report_id.as_deref(), &outcome)?;
    Ok(lease.map(|lease| Report { lease, worker, key, outcome }))
}

fn read_artifacts(given: &[Box<RawValue>]) -> Result<Option<Bytes>, ApiError> {
    let read = |(position, raw): (usize, &RawValue)| {
        Artifact::decode(raw).map_err(|error| {
            ApiError::new(ErrorCode::RequestInvalid, format!("artifacts[{position}]: {error}"))
        })
    };
    let given = given.iter().map(AsRef::as_ref).enumerate();
    let artifacts = given.map(read).collect::<Result<Vec<_>, _>>()?;
    artifacts::kept(&artifacts).map_err(|error| {
        ApiError::new(ErrorCode::RequestTooLarge, error.to_string()).with_hint(artifacts::HINT)
    })
}

fn failed(
    lease: Result<LeaseId, NoLease>,
    worker: WorkerId,
    body: Fail,
) -> Result<Judgeable, ApiError> {
    let Fail { reason, code, retryable, details, report_id, .. } = body;
    prose(&"reason", &reason, REASON_CHARS_MAX)?;
    let code = code.unwrap_or_else(|| DEFAULT_CODE.to_owned());
    prose(&"code", &code, CODE_CHARS_MAX)?;
    let details = details.map(|given| payload("details", given, RESULT_BYTES_MAX)).transpose()?;
    let failure = Failure { code, reason, details };
    let outcome = ReportedOutcome::Failed { failure, retryable: retryable.unwrap_or(true) };
    let key = key(report_id.as_deref(), &outcome)?;
    Ok(lease.map(|lease| Report { lease, worker, key, outcome }))
}

/// Recognises the report when it is sent again: by the worker's own name for it, or by content.
fn key(report_id: Option<&str>, outcome: &ReportedOutcome) -> Result<ReportKey, ApiError> {
    let Some(report_id) = report_id else { return Ok(content_key(outcome)) };
    prose(&"report_id", report_id, REPORT_ID_CHARS_MAX)?;
    Ok(named_key(report_id))
}

#[cfg(test)]
mod tests;
