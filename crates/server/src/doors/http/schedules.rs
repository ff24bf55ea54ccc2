//! Schedules and webhooks: keep, look at, change, pause, run now, take up what has passed; and calls
//! from outside.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use coordinator::{
    Calendar, CalendarError, FiredMoment, ScheduleEdit, ScheduleId, ScheduleRecord, ScheduleSpec,
};
use model::{RunId, Timestamp, is_deeper_than};
use protocol::error_code::ErrorCode;
use protocol::rest::runs::RunRef;
use protocol::rest::schedules::{
    Backfill, Backfilled, CreatedHook, Hook, HookPage, NewHook, NewSchedule, PatchSchedule,
    Schedule, SchedulePage, ScheduledRun,
};
use serde_json::{Map, Value, json as value};
use shard::documents::HookHead;
use uuid::Uuid;

use super::auth_layer::Context;
use super::convert::{moment, prose};
use super::request::{Json, PathName, QueryPairs, read_json};
use super::run_starts::{Starter, inputs_of, key_of, start_run};
use crate::app::App;
use crate::clock::wall_now;
use crate::runs::start::{NewRunRequest, Source, start};
use crate::runs::view;
use crate::schedules::hooks::{self, HOOK_BODY_BYTES_MAX};
use crate::schedules::prepare;
use crate::wire_words::payload::PAYLOAD_DEPTH_MAX;
use crate::wire_words::problem::{Answer, ApiError, json, ok};
use crate::workflows::find;

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
pub(super) async fn create(context: Context, Json(body): Json<NewSchedule>) -> Answer {
    let created_by = context.asker_name();
    let spec = ScheduleSpec {
        name: checked_name(body.name)?,
        workflow_id: workflow_of(&context, &body.workflow_id, body.version).await?,
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
    let kept = context.handle.add_schedule(ScheduleId(Uuid::now_v7()), spec).await?;
    Ok(json(StatusCode::CREATED, &shown(&kept)?))
}

/// A name for people, if it is not too long.
pub(super) fn checked_name(name: Option<String>) -> Result<Option<String>, ApiError> {
    prose(&"name", name.as_deref().unwrap_or_default(), SCHEDULE_NAME_CHARS_MAX)?;
    Ok(name)
}

/// The id of a workflow that is kept, in the one form in which it is.
pub(super) async fn workflow_of(
    context: &Context,
    workflow_id: &str,
    version: Option<u64>,
) -> Result<String, ApiError> {
    let unknown = || {
        let message = format!("no workflow with the id {workflow_id}, or no such version");
        ApiError::new(ErrorCode::WorkflowNotFound, message)
    };
    let id = Uuid::try_parse(workflow_id).map_err(|_| unknown())?.to_string();
    find(&*context.app.store, context.shard(), &id, version).await?.ok_or_else(unknown)?;
    Ok(id)
}

/// List schedules
#[utoipa::path(
    get, path = "/api/v1/schedules", operation_id = "list_schedules",
    responses((status = 200, body = SchedulePage, description = "Oldest first."))
)]
pub(super) async fn list(context: Context) -> Answer {
    let mut kept = context.handle.list_schedules().await?;
    kept.sort_by_key(|record| (record.spec.created_at, record.id));
    let items = kept.iter().map(shown).collect::<Result<_, _>>()?;
    ok(&SchedulePage { items, next_cursor: None })
}

/// Look at a schedule
#[utoipa::path(
    get, path = "/api/v1/schedules/{schedule_id}", operation_id = "get_schedule",
    responses((status = 200, body = Schedule, description = "With its next times."))
)]
pub(super) async fn show(context: Context, path: PathName) -> Answer {
    ok(&shown(&find_one(&context, &path).await?)?)
}

fn id_of(path: &PathName) -> Result<ScheduleId, ApiError> {
    let id = path.as_str().parse().ok().map(ScheduleId);
    // One spelling names it, as with every other id.
    let id = id.filter(|id| id.to_string() == path.as_str());
    id.ok_or_else(|| coordinator::Refusal::UnknownSchedule.into())
}

async fn find_one(context: &Context, path: &PathName) -> Result<ScheduleRecord, ApiError> {
    Ok(context.handle.show_schedule(id_of(path)?).await?)
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
    context: Context,
    path: PathName,
    Json(body): Json<PatchSchedule>,
) -> Answer {
    let before = find_one(&context, &path).await?;
    let mut edit = edit_of(body)?;
    let new = edit.clone().applied_to(&before.spec);
    if edit.cron.is_some() || edit.timezone.is_some() {
        calendar(&new)?;
    }
    if edit.workflow_id.is_some() || edit.version.is_some() {
        let id = workflow_of(&context, &new.workflow_id, new.version).await?;
        edit.workflow_id = Some(id);
    }
    edited(&context, before.id, edit).await
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

async fn edited(context: &Context, schedule: ScheduleId, edit: ScheduleEdit) -> Answer {
    let kept = context.handle.edit_schedule(schedule, edit).await?;
    ok(&shown(&kept)?)
}

/// Forget a schedule
///
/// Runs that it started go on.
#[utoipa::path(
    delete, path = "/api/v1/schedules/{schedule_id}", operation_id = "delete_schedule",
    responses((status = 204, description = "It is gone."))
)]
pub(super) async fn remove(context: Context, path: PathName) -> Result<StatusCode, ApiError> {
    context.handle.remove_schedule(id_of(&path)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Pause a schedule
///
/// It starts nothing until it is resumed.
#[utoipa::path(
    post, path = "/api/v1/schedules/{schedule_id}/pause", operation_id = "pause_schedule",
    responses((status = 200, body = Schedule, description = "It is paused."))
)]
pub(super) async fn pause(context: Context, path: PathName) -> Answer {
    let edit = ScheduleEdit { paused: Some(true), ..ScheduleEdit::default() };
    edited(&context, id_of(&path)?, edit).await
}

/// Resume a schedule
///
/// Times that passed during the pause are forgotten; `backfill` takes them up.
#[utoipa::path(
    post, path = "/api/v1/schedules/{schedule_id}/resume", operation_id = "resume_schedule",
    responses((status = 200, body = Schedule, description = "It starts runs again."))
)]
pub(super) async fn resume(context: Context, path: PathName) -> Answer {
    let edit = ScheduleEdit { paused: Some(false), ..ScheduleEdit::default() };
    edited(&context, id_of(&path)?, edit).await
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
pub(super) async fn run(context: Context, path: PathName, starter: Starter) -> Answer {
    let spec = find_one(&context, &path).await?.spec;
    let inputs = spec.inputs.clone();
    let request = NewRunRequest::new(prepare::source(&spec), inputs, context.asker_name());
    start_run(&context, starter, request).await
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
    context: Context,
    path: PathName,
    Json(body): Json<Backfill>,
) -> Answer {
    let kept = find_one(&context, &path).await?;
    let (from, to) = (moment(&"from", &body.from)?, moment(&"to", &body.to)?);
    let moments = prepare::moments(&calendar(&kept.spec)?, from, to)?;
    let asker = (&context.caller.tenant, &context.handle);
    let taken = prepare::backfill(&context.app, asker, &kept, moments).await?;
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

/// Headers that are the caller's own business.
const HIDDEN_HEADERS: [header::HeaderName; 3] =
    [header::AUTHORIZATION, header::COOKIE, header::PROXY_AUTHORIZATION];

/// Keep a webhook
///
/// The answer holds its secret, which is shown this once.
#[utoipa::path(
    post, path = "/api/v1/hooks", operation_id = "create_hook", request_body = NewHook,
    responses(
        (status = 201, body = CreatedHook, description = "It is kept."),
        (status = 404, description = "E.WORKFLOW.NOT_FOUND"),
        (status = 429, description = "E.LIMIT.SCHEDULES")
    )
)]
pub(super) async fn create_hook(context: Context, Json(body): Json<NewHook>) -> Answer {
    let created_by = context.asker_name();
    let hook = HookHead {
        hook_id: String::new(),
        name: checked_name(body.name)?,
        workflow_id: workflow_of(&context, &body.workflow_id, None).await?,
    };
    let made = hooks::add(&context.handle, hook, (created_by, wall_now())).await?;
    let (hook_id, token) = made;
    let url = format!("/hooks/{token}");
    Ok(json(StatusCode::CREATED, &CreatedHook { hook_id, token, url }))
}

/// List webhooks
#[utoipa::path(
    get, path = "/api/v1/hooks", operation_id = "list_hooks",
    responses((status = 200, body = HookPage, description = "Oldest first, without secrets."))
)]
pub(super) async fn list_hooks(context: Context) -> Answer {
    let kept = hooks::list(&context.handle).await?;
    let items = kept.iter().map(|hook| Hook {
        hook_id: hook.head.hook_id.clone(),
        name: hook.head.name.clone(),
        workflow_id: hook.head.workflow_id.clone(),
        created_at: model::Timestamp::from_millis(hook.at_ms).to_string(),
        created_by: hook.by.clone(),
    });
    ok(&HookPage { items: items.collect(), next_cursor: None })
}

/// Forget a webhook
///
/// Its secret opens nothing any more.
#[utoipa::path(
    delete, path = "/api/v1/hooks/{hook_id}", operation_id = "delete_hook",
    responses((status = 204, description = "It is gone."))
)]
pub(super) async fn remove_hook(context: Context, path: PathName) -> Result<StatusCode, ApiError> {
    hooks::remove(&context.handle, &context.app.hook_calls, path.as_str()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Call a webhook
///
/// Starts a run of its workflow. The secret in the path is all that it takes. The run is given
/// `body`, `headers` and `query`.
#[utoipa::path(
    post, path = "/hooks/{token}", operation_id = "call_hook", request_body = serde_json::Value,
    security(()),
    params(
        ("Idempotency-Key" = Option<String>, Header,
            description = "The same call with the same key starts no second run.")
    ),
    responses(
        (status = 202, body = RunRef, description = "The run exists."),
        (status = 404, description = "E.HOOK.NOT_FOUND, E.WORKFLOW.NOT_FOUND"),
        (status = 409, description = "E.RUN.CONFLICT: another call had the key."),
        (status = 422, description = "E.FLOW.INVALID, E.REQUEST.INVALID"),
        (status = 429,
            description = "E.LIMIT.OVERLOADED, E.LIMIT.RUNS, E.LIMIT.LIVE_TASKS, E.LIMIT.DEMANDS. \
                `Retry-After` says in how many seconds it may be called again.")
    )
)]
pub(super) async fn call_hook(
    State(app): State<Arc<App>>,
    path: PathName,
    query: QueryPairs,
    headers: HeaderMap,
    request: Request,
) -> Answer {
    // Whoever does not know the secret sends nothing.
    let (tenant, hook) = hooks::call(&app, path.as_str()).await?;
    let key = key_of(&headers)?;
    let body = read_json(request.into_body(), HOOK_BODY_BYTES_MAX).await?;
    let source = Source::Kept { workflow_id: hook.head.workflow_id.clone(), version: None };
    let started_by = format!("hook {}", hook.head.hook_id);
    let request = NewRunRequest::new(source, hook_inputs(&body, &headers, &query)?, started_by);
    let made = start(&app, &tenant, request.under(key)).await?;
    let mut answer = view::started(&made);
    // Whoever calls need not know what the workflow looks like inside.
    answer.warnings.clear();
    Ok(json(StatusCode::ACCEPTED, &answer))
}

/// What the run is given. A call without a body gives `null`.
fn hook_inputs(body: &Bytes, headers: &HeaderMap, query: &QueryPairs) -> Result<Bytes, ApiError> {
    if is_deeper_than(body, PAYLOAD_DEPTH_MAX) {
        let rule = format!("nests more than {PAYLOAD_DEPTH_MAX} levels deep");
        return Err(ApiError::invalid("the body", rule));
    }
    let body: Value = match body.trim_ascii() {
        b"" => Value::Null,
        text => serde_json::from_slice(text).map_err(|error| {
            let message = format!("the body is not JSON: {error}");
            ApiError::new(ErrorCode::RequestMalformed, message)
        })?,
    };
    let shown = headers.iter().filter(|(name, _)| !HIDDEN_HEADERS.contains(name));
    let headers: Map<String, Value> = shown
        .map(|(name, value)| {
            let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
            (name.as_str().to_owned(), Value::String(text))
        })
        .collect();
    let query: Map<String, Value> =
        query.pairs().map(|(name, text)| (name.to_owned(), text.into())).collect();
    let inputs = value!({"body": body, "headers": headers, "query": query});
    Ok(serde_json::to_vec(&inputs).expect("values are JSON").into())
}
