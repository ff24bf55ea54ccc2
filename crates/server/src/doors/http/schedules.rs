//! Schedules: keep, look at, change, pause, run now, take up what has passed.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use coordinator::{
    Calendar, CalendarError, FiredMoment, ScheduleEdit, ScheduleId, ScheduleRecord, ScheduleSpec,
};
use model::{RunId, Timestamp};
use protocol::error_code::ErrorCode;
use protocol::rest::runs::RunRef;
use protocol::rest::schedules::{
    Backfill, Backfilled, NewSchedule, PatchSchedule, Schedule, SchedulePage, ScheduledRun,
};
use uuid::Uuid;

use super::auth_layer::{AskerName, Coordinator};
use super::body::Json;
use super::convert::{moment, prose};
use super::params::PathName;
use super::run_starts::{Starter, accepted, inputs_of};
use crate::app::App;
use crate::clock::wall_now;
use crate::runs::start::{NewRunRequest, Source, start};
use crate::runs::view;
use crate::schedules::prepare;
use crate::schedules::prepare::{BACKFILL_RUNS_MAX, BackfillError};
use crate::wire_words::problem::{ApiError, json};
use crate::workflows::save::find;

/// Limit: the name of a schedule or a webhook, in characters.
const SCHEDULE_NAME_CHARS_MAX: usize = 256;
/// Moments that a look at a schedule shows.
const NEXT_RUNS_SHOWN: usize = 5;
/// The zone of whoever names none.
const ZONE_DEFAULT: &str = "UTC";

/// Keep a schedule
///
/// Each run is given the inputs, and `scheduledFor`: the moment that it was due.
#[utoipa::path(
    post, path = "/api/v1/schedules", operation_id = "create_schedule", request_body = NewSchedule,
    responses(
        (status = 201, body = Schedule, description = "It is kept, and starts runs."),
        (status = 404, description = "E.WORKFLOW.NOT_FOUND"),
        (status = 429, description = "E.LIMIT.SCHEDULES")
    )
)]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    AskerName(created_by): AskerName,
    Json(body): Json<NewSchedule>,
) -> Result<Response, ApiError> {
    let spec = ScheduleSpec {
        name: checked_name(body.name)?,
        workflow_id: workflow_of(&app, &coordinator, &body.workflow_id, body.version).await?,
        version: body.version,
        cron: body.cron,
        timezone: body.timezone.unwrap_or_else(|| ZONE_DEFAULT.to_owned()),
        inputs: inputs_of(body.inputs)?,
        overlap: body.overlap,
        paused: body.paused,
        created_at: wall_now(),
        created_by,
    };
    calendar(&spec)?;
    let kept = coordinator.handle.add_schedule(ScheduleId(Uuid::now_v7()), spec).await?;
    Ok(json(StatusCode::CREATED, &shown(&kept)?))
}

/// A name for people, if it is not too long.
pub(super) fn checked_name(name: Option<String>) -> Result<Option<String>, ApiError> {
    if let Some(name) = &name {
        prose(&"name", name, SCHEDULE_NAME_CHARS_MAX)?;
    }
    Ok(name)
}

/// The id of a workflow that is kept, in the one form in which it is.
pub(super) async fn workflow_of(
    app: &App,
    coordinator: &Coordinator,
    workflow_id: &str,
    version: Option<u64>,
) -> Result<String, ApiError> {
    let unknown = || {
        let message = format!("no workflow with the id {workflow_id}, or no such version");
        ApiError::new(ErrorCode::WorkflowNotFound, message)
    };
    let id = Uuid::try_parse(workflow_id).map_err(|_| unknown())?.to_string();
    find(&*app.store, coordinator.handle.shard(), &id, version).await?.ok_or_else(unknown)?;
    Ok(id)
}

/// List schedules
#[utoipa::path(
    get, path = "/api/v1/schedules", operation_id = "list_schedules",
    responses((status = 200, body = SchedulePage, description = "Oldest first."))
)]
pub(super) async fn list(coordinator: Coordinator) -> Result<Response, ApiError> {
    let mut kept = coordinator.handle.list_schedules().await?;
    kept.sort_by_key(|record| (record.spec.created_at, record.id));
    let items = kept.iter().map(shown).collect::<Result<_, _>>()?;
    Ok(json(StatusCode::OK, &SchedulePage { items, next_cursor: None }))
}

/// Look at a schedule
#[utoipa::path(
    get, path = "/api/v1/schedules/{schedule_id}", operation_id = "get_schedule",
    responses((status = 200, body = Schedule, description = "With its next times."))
)]
pub(super) async fn show(coordinator: Coordinator, path: PathName) -> Result<Response, ApiError> {
    Ok(json(StatusCode::OK, &shown(&find_one(&coordinator, &path).await?)?))
}

fn id_of(path: &PathName) -> Result<ScheduleId, ApiError> {
    let id = path.as_str().parse().ok().map(ScheduleId);
    // One spelling names it, as with every other id.
    let id = id.filter(|id| id.to_string() == path.as_str());
    id.ok_or_else(|| coordinator::Refusal::UnknownSchedule.into())
}

async fn find_one(coordinator: &Coordinator, path: &PathName) -> Result<ScheduleRecord, ApiError> {
    Ok(coordinator.handle.show_schedule(id_of(path)?).await?)
}

fn calendar(spec: &ScheduleSpec) -> Result<Calendar, CalendarError> {
    Calendar::read(&spec.cron, &spec.timezone, wall_now())
}

/// Change a schedule
///
/// What is given is changed. With another `cron` or `timezone`, times that have passed are
/// forgotten.
#[utoipa::path(
    patch, path = "/api/v1/schedules/{schedule_id}", operation_id = "change_schedule",
    request_body = PatchSchedule,
    responses(
        (status = 200, body = Schedule, description = "As it is from here on."),
        (status = 404, description = "E.SCHEDULE.NOT_FOUND, E.WORKFLOW.NOT_FOUND")
    )
)]
pub(super) async fn change(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    path: PathName,
    Json(body): Json<PatchSchedule>,
) -> Result<Response, ApiError> {
    let before = find_one(&coordinator, &path).await?;
    let mut edit = edit_of(body)?;
    let new = edit.clone().applied_to(&before.spec);
    if edit.cron.is_some() || edit.timezone.is_some() {
        calendar(&new)?;
    }
    if edit.workflow_id.is_some() || edit.version.is_some() {
        let id = workflow_of(&app, &coordinator, &new.workflow_id, new.version).await?;
        edit.workflow_id = Some(id);
    }
    edited(&coordinator, before.id, edit).await
}

fn edit_of(body: PatchSchedule) -> Result<ScheduleEdit, ApiError> {
    Ok(ScheduleEdit {
        name: checked_name(body.name)?,
        workflow_id: body.workflow_id,
        version: body.version.map(|version| Some(version).filter(|version| *version > 0)),
        cron: body.cron,
        timezone: body.timezone,
        inputs: body.inputs.map(|inputs| inputs_of(Some(inputs))).transpose()?,
        overlap: body.overlap,
        paused: body.paused,
    })
}

async fn edited(
    coordinator: &Coordinator,
    schedule: ScheduleId,
    edit: ScheduleEdit,
) -> Result<Response, ApiError> {
    let kept = coordinator.handle.edit_schedule(schedule, edit).await?;
    Ok(json(StatusCode::OK, &shown(&kept)?))
}

/// Forget a schedule
///
/// Runs that it started go on.
#[utoipa::path(
    delete, path = "/api/v1/schedules/{schedule_id}", operation_id = "delete_schedule",
    responses((status = 204, description = "It is gone."))
)]
pub(super) async fn remove(
    coordinator: Coordinator,
    path: PathName,
) -> Result<StatusCode, ApiError> {
    coordinator.handle.remove_schedule(id_of(&path)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Pause a schedule
///
/// It starts nothing until it is resumed.
#[utoipa::path(
    post, path = "/api/v1/schedules/{schedule_id}/pause", operation_id = "pause_schedule",
    responses((status = 200, body = Schedule, description = "It is paused."))
)]
pub(super) async fn pause(coordinator: Coordinator, path: PathName) -> Result<Response, ApiError> {
    let edit = ScheduleEdit { paused: Some(true), ..ScheduleEdit::default() };
    edited(&coordinator, id_of(&path)?, edit).await
}

/// Resume a schedule
///
/// Times that passed during the pause are forgotten; `backfill` takes them up.
#[utoipa::path(
    post, path = "/api/v1/schedules/{schedule_id}/resume", operation_id = "resume_schedule",
    responses((status = 200, body = Schedule, description = "It starts runs again."))
)]
pub(super) async fn resume(coordinator: Coordinator, path: PathName) -> Result<Response, ApiError> {
    let edit = ScheduleEdit { paused: Some(false), ..ScheduleEdit::default() };
    edited(&coordinator, id_of(&path)?, edit).await
}

/// Run a schedule now
///
/// Whatever its times say, paused or not. The next times stay as they are.
#[utoipa::path(
    post, path = "/api/v1/schedules/{schedule_id}/run", operation_id = "run_schedule",
    params(
        ("wait" = Option<i64>, Query, description = "Seconds, 0 to 60. Default 0."),
        ("Idempotency-Key" = Option<String>, Header,
            description = "The same request with the same key starts no second run.")
    ),
    responses(
        (status = 202, body = RunRef, description = "The run."),
        (status = 404, description = "E.SCHEDULE.NOT_FOUND, E.WORKFLOW.NOT_FOUND"),
        (status = 409, description = "E.RUN.CONFLICT: another request had the key."),
        (status = 422, description = "E.FLOW.INVALID, E.REQUEST.INVALID"),
        (status = 429,
            description = "E.LIMIT.RUNS, E.LIMIT.LIVE_TASKS, E.LIMIT.DEMANDS, E.LIMIT.OVERLOADED")
    )
)]
pub(super) async fn run(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    path: PathName,
    starter: Starter,
) -> Result<Response, ApiError> {
    let spec = find_one(&coordinator, &path).await?.spec;
    let request = NewRunRequest {
        source: Source::Kept { workflow_id: spec.workflow_id.clone(), version: spec.version },
        inputs: spec.inputs.clone(),
        client_id: None,
        mark: None,
        started_by: starter.name,
        retry: None,
    };
    let tenant = &coordinator.caller.tenant;
    let made = start(&app, tenant, request.under(starter.key)).await?;
    accepted(&app, &coordinator, made, starter.wait).await
}

/// Take up times that have passed
///
/// A run for each of them that has none yet, whether the schedule is paused or not. Where runs
/// may overlap (`allow`), all of them start at once. Otherwise they start one after another, each
/// when the one before has ended; none is skipped. The same call again makes no second runs.
#[utoipa::path(
    post, path = "/api/v1/schedules/{schedule_id}/backfill", operation_id = "backfill_schedule",
    request_body = Backfill,
    responses(
        (status = 202, body = Backfilled,
            description = "The runs, and the times that wait for theirs."),
        (status = 404, description = "E.SCHEDULE.NOT_FOUND, E.WORKFLOW.NOT_FOUND"),
        (status = 422,
            description = "E.REQUEST.INVALID, E.FLOW.INVALID, E.LIMIT.BATCH: more than 1000 times."),
        (status = 429,
            description = "E.LIMIT.RUNS: also when 1000 times wait for their runs already. \
                E.LIMIT.LIVE_TASKS, E.LIMIT.DEMANDS, E.LIMIT.OVERLOADED")
    )
)]
pub(super) async fn backfill(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    path: PathName,
    Json(body): Json<Backfill>,
) -> Result<Response, ApiError> {
    let kept = find_one(&coordinator, &path).await?;
    let (from, to) = (moment(&"from", &body.from)?, moment(&"to", &body.to)?);
    let moments = prepare::moments(&calendar(&kept.spec)?, from, to)?;
    let asker = (&coordinator.caller.tenant, &coordinator.handle);
    let taken = prepare::backfill(&app, asker, &kept, moments).await?;
    let runs = taken.started.iter().map(view::started).collect();
    let waiting = taken.waiting.iter().map(Timestamp::to_string).collect();
    Ok(json(StatusCode::ACCEPTED, &Backfilled { runs, waiting }))
}

/// A schedule as the wire shows it.
fn shown(record: &ScheduleRecord) -> Result<Schedule, ApiError> {
    let ScheduleRecord { id, spec, progress } = record;
    let next = match calendar(spec) {
        Ok(calendar) if !spec.paused => calendar.next(wall_now(), NEXT_RUNS_SHOWN),
        Ok(_) | Err(_) => Vec::new(),
    };
    let inputs = serde_json::from_slice(&spec.inputs);
    Ok(Schedule {
        schedule_id: id.to_string(),
        name: spec.name.clone(),
        workflow_id: spec.workflow_id.clone(),
        version: spec.version,
        cron: spec.cron.clone(),
        timezone: spec.timezone.clone(),
        inputs: inputs.map_err(|_| ApiError::internal("the inputs of a schedule are no JSON"))?,
        overlap: spec.overlap,
        paused: spec.paused,
        created_at: spec.created_at.to_string(),
        created_by: spec.created_by.clone(),
        next_runs: next.into_iter().map(|moment| moment.to_string()).collect(),
        last_run: progress.last.as_ref().map(shown_moment),
        waiting: progress.waiting.len() + progress.backfill.len(),
    })
}

fn shown_moment(last: &FiredMoment) -> ScheduledRun {
    let run = last.outcome.as_ref().ok();
    ScheduledRun {
        due_at: last.due.to_string(),
        run_id: run.map(RunId::to_string),
        number: run.map(|run| run.number()),
        problem: last.outcome.as_ref().err().cloned(),
    }
}

impl From<CalendarError> for ApiError {
    fn from(error: CalendarError) -> Self {
        let hint = match error {
            CalendarError::Rule(..) => "minute hour day month weekday, like `0 3 * * MON-FRI`",
            CalendarError::Never(_) => "look at the day and the month",
            CalendarError::Zone(_) => "a name of the IANA list, like Europe/Berlin",
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
            BackfillError::Run(error) => error.into(),
            BackfillError::Ask(error) => error.into(),
        }
    }
}
