//! Reports about leases.

use bytes::Bytes;
use model::{Failure, LeaseId, Report, ReportKey, ReportedOutcome, ShardId, WorkerId};
use protocol::error_code::ErrorCode;
use protocol::rest::leases::{self as wire, Complete, Fail, ReportOutcome};
use protocol::session::payload::resource::Artifact;
use serde_json::value::RawValue;
use shard::artifacts;
use shard::report_key::{CODE_CHARS_MAX, REASON_CHARS_MAX, content_key, extra, named_key};

use super::super::answers::NoLease;
use super::{ApiError, prose, text};
use crate::wire_words::limits::RESULT_BYTES_MAX;
use crate::wire_words::payload::payload;

/// Reports in one call.
pub(crate) const REPORTS_PER_CALL_MAX: usize = 10_000;
/// A worker's own name for a report, in characters.
pub(crate) const REPORT_ID_CHARS_MAX: usize = 256;
const DEFAULT_CODE: &str = "E.RUNNER.FAILURE";

/// The lease that a text names, if it can be one of this shard.
pub(crate) fn lease(text: &str, shard: ShardId) -> Result<LeaseId, NoLease> {
    let lease: LeaseId = text.parse().map_err(|_| NoLease::Malformed)?;
    if lease.task.shard() == shard { Ok(lease) } else { Err(NoLease::Foreign) }
}

/// A report, or why no coordinator needs to see it.
pub(crate) type Judgeable = Result<Report, NoLease>;

pub(crate) fn complete(
    lease: Result<LeaseId, NoLease>,
    body: Complete,
) -> Result<Judgeable, ApiError> {
    let worker = text(&"", &body.worker_id)?;
    let words =
        CompletedWords { result: body.result, artifacts: body.artifacts, skipped: body.skipped };
    let outcome = completed(words)?;
    let key = key(body.report_id.as_deref(), &outcome)?;
    Ok(lease.map(|lease| Report { lease, worker, key, outcome }))
}

pub(crate) fn fail(lease: Result<LeaseId, NoLease>, body: Fail) -> Result<Judgeable, ApiError> {
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
