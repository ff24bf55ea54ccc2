//! Schedules: keep, look at, change, pause, run now, take up what has passed.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use model::{TenantId, Timestamp};
use protocol::error_code::ErrorCode;
use protocol::rest::problem::Problem;
use protocol::rest::runs::RunRef;
use protocol::rest::schedules::{
    Backfill, Backfilled, NewSchedule, PatchSchedule, Schedule, SchedulePage,
};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::body::Json;
use super::convert::{moment, prose};
use super::gate::{Asker, AskerName, Coordinator};
use super::params::PathName;
use super::problem::{ApiError, json};
use super::run_starts::{Starter, accepted, inputs_of};
use crate::app::App;
use crate::clock::wall_now;
use crate::runs::start::{NewRunRequest, Source, start};
use crate::runs::view;
use crate::schedules::backfill::{self, BACKFILL_RUNS_MAX, BackfillError};
use crate::schedules::cron::{TimesError, ZONE_DEFAULT};
use crate::schedules::registry::{KeepError, ScheduleKey};
use crate::schedules::schedule::KeptSchedule;
use crate::workflows::save::find;

/// The name of a schedule or a webhook, in characters.
pub(crate) const SCHEDULE_NAME_CHARS_MAX: usize = 256;

/// Keep a schedule
///
/// Each run is given the inputs, and `scheduledFor`: the moment that it was due.
#[utoipa::path(
    post, path = "/api/v1/schedules", tag = "schedules", operation_id = "create_schedule",
    request_body = NewSchedule,
    responses(
        (status = 201, body = Schedule, description = "It is kept, and starts runs."),
        (status = 404, body = Problem, description = "E.WORKFLOW.NOT_FOUND"),
        (status = 422, body = Problem, description = "E.REQUEST.INVALID"),
        (status = 429, body = Problem, description = "E.LIMIT.SCHEDULES"),
        (status = 503, body = Problem, description = "E.STORE.UNAVAILABLE")
    )
)]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Asker(caller): Asker,
    AskerName(created_by): AskerName,
    Json(body): Json<NewSchedule>,
) -> Result<Response, ApiError> {
    let now = wall_now().as_millis();
    let kept = KeptSchedule {
        name: checked_name(body.name)?,
        workflow_id: workflow_of(&app, &caller.tenant, &body.workflow_id, body.version).await?,
        version: body.version,
        cron: body.cron,
        timezone: body.timezone.unwrap_or_else(|| ZONE_DEFAULT.to_owned()),
        inputs: checked_inputs(body.inputs)?,
        overlap: body.overlap,
        paused: body.paused,
        created_ms: now,
        created_by,
        handled_ms: now,
        starting_ms: None,
        waiting_ms: Vec::new(),
        backfill_ms: Vec::new(),
        newest_run: None,
        last: None,
    };
    kept.times()?;
    let id = Uuid::now_v7().to_string();
    let kept = app.schedules.add((caller.tenant, id.clone()), kept).await?;
    Ok(json(StatusCode::CREATED, &kept.shown(&id)))
}

/// A name for people, if it is not too long.
pub(super) fn checked_name(name: Option<String>) -> Result<Option<String>, ApiError> {
    if let Some(name) = &name {
        prose(&"name", name, SCHEDULE_NAME_CHARS_MAX)?;
    }
    Ok(name)
}

fn checked_inputs(inputs: Option<Box<RawValue>>) -> Result<Box<RawValue>, ApiError> {
    let bytes = inputs_of(inputs)?;
    serde_json::from_slice(&bytes).map_err(|_| ApiError::invalid("inputs", "is no JSON"))
}

/// The id of a workflow that is kept, in the one form in which it is.
pub(super) async fn workflow_of(
    app: &App,
    tenant: &TenantId,
    workflow_id: &str,
    version: Option<u64>,
) -> Result<String, ApiError> {
    let unknown = || {
        let message = format!("no workflow with the id {workflow_id}, or no such version");
        ApiError::new(ErrorCode::WorkflowNotFound, message)
    };
    let id = Uuid::try_parse(workflow_id).map_err(|_| unknown())?.to_string();
    find(app, tenant, &id, version).await?.ok_or_else(unknown)?;
    Ok(id)
}

/// List schedules
#[utoipa::path(
    get, path = "/api/v1/schedules", tag = "schedules", operation_id = "list_schedules",
    responses((status = 200, body = SchedulePage, description = "Oldest first."))
)]
pub(super) async fn list(State(app): State<Arc<App>>, Asker(caller): Asker) -> Response {
    let kept = app.schedules.of_tenant(&caller.tenant);
    let items = kept.iter().map(|(id, kept)| kept.shown(id)).collect();
    json(StatusCode::OK, &SchedulePage { items, next_cursor: None })
}

/// Look at a schedule
#[utoipa::path(
    get, path = "/api/v1/schedules/{schedule_id}", tag = "schedules",
    operation_id = "get_schedule",
    params(("schedule_id" = String, Path, description = "The schedule.")),
    responses(
        (status = 200, body = Schedule, description = "With its next times."),
        (status = 404, body = Problem, description = "E.SCHEDULE.NOT_FOUND")
    )
)]
pub(super) async fn show(
    State(app): State<Arc<App>>,
    Asker(caller): Asker,
    path: PathName,
) -> Result<Response, ApiError> {
    let key = key(caller.tenant, &path);
    let kept = app.schedules.get(&key).ok_or(KeepError::Unknown)?;
    Ok(json(StatusCode::OK, &kept.shown(&key.1)))
}

fn key(tenant: TenantId, path: &PathName) -> ScheduleKey {
    (tenant, path.as_str().to_owned())
}

/// Change a schedule
///
/// What is given is changed. With another `cron` or `timezone`, times that have passed are
/// forgotten.
#[utoipa::path(
    patch, path = "/api/v1/schedules/{schedule_id}", tag = "schedules",
    operation_id = "change_schedule", request_body = PatchSchedule,
    params(("schedule_id" = String, Path, description = "The schedule.")),
    responses(
        (status = 200, body = Schedule, description = "As it is from here on."),
        (status = 404, body = Problem, description = "E.SCHEDULE.NOT_FOUND, E.WORKFLOW.NOT_FOUND"),
        (status = 422, body = Problem, description = "E.REQUEST.INVALID"),
        (status = 503, body = Problem, description = "E.STORE.UNAVAILABLE")
    )
)]
pub(super) async fn change(
    State(app): State<Arc<App>>,
    Asker(caller): Asker,
    path: PathName,
    Json(body): Json<PatchSchedule>,
) -> Result<Response, ApiError> {
    let key = key(caller.tenant, &path);
    let mut new = app.schedules.get(&key).ok_or(KeepError::Unknown)?.as_ref().clone();
    let has_new_times = body.cron.is_some() || body.timezone.is_some();
    let has_new_workflow = body.workflow_id.is_some() || body.version.is_some();
    patch(&mut new, body)?;
    if has_new_times {
        new.times()?;
    }
    if has_new_workflow {
        new.workflow_id = workflow_of(&app, &key.0, &new.workflow_id, new.version).await?;
    }
    let apply = |kept: &mut KeptSchedule| {
        let is_resumed = kept.paused && !new.paused;
        // What the clockwork noted in the meantime stays.
        *kept = KeptSchedule {
            handled_ms: kept.handled_ms,
            starting_ms: kept.starting_ms,
            waiting_ms: std::mem::take(&mut kept.waiting_ms),
            backfill_ms: std::mem::take(&mut kept.backfill_ms),
            newest_run: kept.newest_run,
            last: kept.last.take(),
            ..new
        };
        if has_new_times {
            kept.begin_with_new_times();
        } else if is_resumed {
            kept.begin_anew();
        }
    };
    let kept = app.schedules.change(&key, apply).await?;
    Ok(json(StatusCode::OK, &kept.shown(&key.1)))
}

fn patch(kept: &mut KeptSchedule, body: PatchSchedule) -> Result<(), ApiError> {
    let PatchSchedule { workflow_id, version, cron, timezone, inputs, overlap, paused, name } =
        body;
    if name.is_some() {
        kept.name = checked_name(name)?;
    }
    if inputs.is_some() {
        kept.inputs = checked_inputs(inputs)?;
    }
    if let Some(version) = version {
        kept.version = Some(version).filter(|version| *version > 0);
    }
    kept.workflow_id = workflow_id.unwrap_or_else(|| kept.workflow_id.clone());
    kept.cron = cron.unwrap_or_else(|| kept.cron.clone());
    kept.timezone = timezone.unwrap_or_else(|| kept.timezone.clone());
    kept.overlap = overlap.unwrap_or(kept.overlap);
    kept.paused = paused.unwrap_or(kept.paused);
    Ok(())
}

/// Forget a schedule
///
/// Runs that it started go on.
#[utoipa::path(
    delete, path = "/api/v1/schedules/{schedule_id}", tag = "schedules",
    operation_id = "delete_schedule",
    params(("schedule_id" = String, Path, description = "The schedule.")),
    responses(
        (status = 204, description = "It is gone."),
        (status = 404, body = Problem, description = "E.SCHEDULE.NOT_FOUND"),
        (status = 503, body = Problem, description = "E.STORE.UNAVAILABLE")
    )
)]
pub(super) async fn remove(
    State(app): State<Arc<App>>,
    Asker(caller): Asker,
    path: PathName,
) -> Result<StatusCode, ApiError> {
    app.schedules.remove(&key(caller.tenant, &path)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Pause a schedule
///
/// It starts nothing until it is resumed.
#[utoipa::path(
    post, path = "/api/v1/schedules/{schedule_id}/pause", tag = "schedules",
    operation_id = "pause_schedule",
    params(("schedule_id" = String, Path, description = "The schedule.")),
    responses(
        (status = 200, body = Schedule, description = "It is paused."),
        (status = 404, body = Problem, description = "E.SCHEDULE.NOT_FOUND"),
        (status = 503, body = Problem, description = "E.STORE.UNAVAILABLE")
    )
)]
pub(super) async fn pause(
    State(app): State<Arc<App>>,
    Asker(caller): Asker,
    path: PathName,
) -> Result<Response, ApiError> {
    let key = key(caller.tenant, &path);
    let kept = app.schedules.change(&key, |kept| kept.paused = true).await?;
    Ok(json(StatusCode::OK, &kept.shown(&key.1)))
}

/// Resume a schedule
///
/// Times that passed during the pause are forgotten; `backfill` takes them up.
#[utoipa::path(
    post, path = "/api/v1/schedules/{schedule_id}/resume", tag = "schedules",
    operation_id = "resume_schedule",
    params(("schedule_id" = String, Path, description = "The schedule.")),
    responses(
        (status = 200, body = Schedule, description = "It starts runs again."),
        (status = 404, body = Problem, description = "E.SCHEDULE.NOT_FOUND"),
        (status = 503, body = Problem, description = "E.STORE.UNAVAILABLE")
    )
)]
pub(super) async fn resume(
    State(app): State<Arc<App>>,
    Asker(caller): Asker,
    path: PathName,
) -> Result<Response, ApiError> {
    let key = key(caller.tenant, &path);
    let resume = |kept: &mut KeptSchedule| {
        if std::mem::take(&mut kept.paused) {
            kept.begin_anew();
        }
    };
    let kept = app.schedules.change(&key, resume).await?;
    Ok(json(StatusCode::OK, &kept.shown(&key.1)))
}

/// Run a schedule now
///
/// Whatever its times say, paused or not. The next times stay as they are.
#[utoipa::path(
    post, path = "/api/v1/schedules/{schedule_id}/run", tag = "schedules",
    operation_id = "run_schedule",
    params(
        ("schedule_id" = String, Path, description = "The schedule."),
        ("wait" = Option<i64>, Query, description = "Seconds, 0 to 60. Default 0."),
        ("Idempotency-Key" = Option<String>, Header,
            description = "The same request with the same key starts no second run.")
    ),
    responses(
        (status = 202, body = RunRef, description = "The run."),
        (status = 404, body = Problem, description = "E.SCHEDULE.NOT_FOUND, E.WORKFLOW.NOT_FOUND"),
        (status = 409, body = Problem, description = "E.RUN.CONFLICT: another request had the key."),
        (status = 422, body = Problem, description = "E.FLOW.INVALID, E.REQUEST.INVALID"),
        (status = 429, body = Problem,
            description = "E.LIMIT.RUNS, E.LIMIT.LIVE_TASKS, E.LIMIT.DEMANDS, E.LIMIT.OVERLOADED"),
        (status = 503, body = Problem, description = "E.STORE.UNAVAILABLE, E.SERVER.STOPPING")
    )
)]
pub(super) async fn run(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    path: PathName,
    starter: Starter,
) -> Result<Response, ApiError> {
    let key = key(coordinator.caller.tenant.clone(), &path);
    let kept = app.schedules.get(&key).ok_or(KeepError::Unknown)?;
    let request = NewRunRequest {
        source: Source::Kept { workflow_id: kept.workflow_id.clone(), version: kept.version },
        inputs: kept.inputs.get().to_owned().into(),
        client_id: None,
        mark: None,
        started_by: starter.name,
        retry: None,
    };
    let made = start(&app, &key.0, request.under(starter.key)).await?;
    accepted(&app, &coordinator, made, starter.wait).await
}

/// Take up times that have passed
///
/// A run for each of them that has none yet, whether the schedule is paused or not. Where runs
/// may overlap (`allow`), all of them start at once. Otherwise they start one after another, each
/// when the one before has ended; none is skipped. The same call again makes no second runs.
#[utoipa::path(
    post, path = "/api/v1/schedules/{schedule_id}/backfill", tag = "schedules",
    operation_id = "backfill_schedule", request_body = Backfill,
    params(("schedule_id" = String, Path, description = "The schedule.")),
    responses(
        (status = 202, body = Backfilled,
            description = "The runs, and the times that wait for theirs."),
        (status = 404, body = Problem, description = "E.SCHEDULE.NOT_FOUND, E.WORKFLOW.NOT_FOUND"),
        (status = 422, body = Problem,
            description = "E.REQUEST.INVALID, E.FLOW.INVALID, E.LIMIT.BATCH: more than 1000 times."),
        (status = 429, body = Problem,
            description = "E.LIMIT.RUNS: also when 1000 times wait for their runs already. \
                E.LIMIT.LIVE_TASKS, E.LIMIT.DEMANDS, E.LIMIT.OVERLOADED"),
        (status = 503, body = Problem, description = "E.STORE.UNAVAILABLE, E.SERVER.STOPPING")
    )
)]
pub(super) async fn backfill(
    State(app): State<Arc<App>>,
    Asker(caller): Asker,
    path: PathName,
    Json(body): Json<Backfill>,
) -> Result<Response, ApiError> {
    let key = key(caller.tenant, &path);
    let kept = app.schedules.get(&key).ok_or(KeepError::Unknown)?;
    let (from, to) = (moment(&"from", &body.from)?, moment(&"to", &body.to)?);
    let moments = backfill::moments(&kept.times()?, from, to)?;
    let taken = backfill::backfill(&app, &key, &kept, moments).await?;
    let runs = taken.started.iter().map(view::started).collect();
    let waiting = taken.waiting.iter().map(Timestamp::to_string).collect();
    Ok(json(StatusCode::ACCEPTED, &Backfilled { runs, waiting }))
}

impl From<KeepError> for ApiError {
    fn from(error: KeepError) -> Self {
        match error {
            KeepError::Full => Self::new(ErrorCode::LimitSchedules, error.to_string()),
            KeepError::Unknown => Self::new(ErrorCode::ScheduleNotFound, error.to_string()),
            KeepError::Store(error) => error.into(),
        }
    }
}

impl From<TimesError> for ApiError {
    fn from(error: TimesError) -> Self {
        let hint = match error {
            TimesError::Rule(..) => "minute hour day month weekday, like `0 3 * * MON-FRI`",
            TimesError::Never(_) => "look at the day and the month",
            TimesError::Zone(_) => "a name of the IANA list, like Europe/Berlin",
        };
        Self::new(ErrorCode::RequestInvalid, error.to_string()).with_hint(hint)
    }
}

impl From<BackfillError> for ApiError {
    fn from(error: BackfillError) -> Self {
        let message = error.to_string();
        match error {
            BackfillError::Backwards | BackfillError::Ahead => {
                Self::new(ErrorCode::RequestInvalid, message)
            }
            BackfillError::TooMany => Self::new(ErrorCode::LimitBatch, message)
                .with_hint(format!("split it: {BACKFILL_RUNS_MAX} runs at a time")),
            BackfillError::TooManyWait => Self::new(ErrorCode::LimitRuns, message),
            BackfillError::Run(error) => error.into(),
            BackfillError::Keep(error) => error.into(),
        }
    }
}
