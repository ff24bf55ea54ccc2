//! Runs: start, list, look at, stop, take up again.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use coordinator::{Answer, Command, RunRecord, RunWord};
use model::{IdempotencyKey, RunId, ShardId};
use protocol::error_code::ErrorCode;
use protocol::rest::problem::Problem;
use protocol::rest::runs::{RetryRun, Run, RunPage, RunRef, RunStatus, StartRun};
use serde_json::value::RawValue;
use store::{RunKey, RunQuery};
use uuid::Uuid;

use super::body::{DefinitionBytes, OptionalJson};
use super::convert::{NumberRange, RUN_WAIT, RUNS_LIMIT, prose, text};
use super::gate::{AskerName, Coordinator};
use super::json_path::is_object;
use super::params::{PathName, QueryPairs};
use super::payload::payload;
use super::problem::{ApiError, json, json_bytes};
use crate::app::App;
use crate::runs::board::Board;
use crate::runs::retry::{self, Again};
use crate::runs::start::{
    self, CLIENT_ID_CHARS_MAX, NewRunRequest, RUN_INPUTS_BYTES_MAX, RetryPart, Source, Started,
};
use crate::runs::{definition, find, view};

const PAGE_RUNS_DEFAULT: i64 = 50;
const IDEMPOTENCY_HEADER: &str = "idempotency-key";

/// Start a run
///
/// Of a workflow that comes with the request, or of a kept one. The answer comes when the run
/// survives a crash; with `wait`, when it has ended or the time is over.
#[utoipa::path(
    post, path = "/api/v1/runs", tag = "runs", operation_id = "start_run",
    request_body = StartRun,
    params(
        ("wait" = Option<i64>, Query, description = "Seconds, 0 to 60. Default 0."),
        ("Idempotency-Key" = Option<String>, Header,
            description = "The same request with the same key starts no second run.")
    ),
    responses(
        (status = 202, body = RunRef, description = "The run exists."),
        (status = 404, body = Problem, description = "E.WORKFLOW.NOT_FOUND"),
        (status = 409, body = Problem, description = "E.RUN.CONFLICT: another request had the key."),
        (status = 422, body = Problem, description = "E.FLOW.INVALID, E.REQUEST.INVALID"),
        (status = 429, body = Problem,
            description = "E.LIMIT.RUNS, E.LIMIT.LIVE_TASKS, E.LIMIT.DEMANDS, E.LIMIT.OVERLOADED"),
        (status = 503, body = Problem, description = "E.STORE.UNAVAILABLE, E.SERVER.STOPPING")
    )
)]
pub(super) async fn submit(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    AskerName(asker): AskerName,
    query: QueryPairs,
    headers: HeaderMap,
    DefinitionBytes(body): DefinitionBytes,
) -> Result<Response, ApiError> {
    let wait = wait_of(query)?;
    let request: StartRun = body.read()?;
    // Its bytes live on in the request alone.
    drop(body);
    let request = NewRunRequest {
        inputs: inputs_of(request.inputs)?,
        client_id: checked_client(request.client_id)?,
        key: key_of(&headers)?,
        started_by: asker,
        retry: None,
        source: source_of(request.workflow, request.workflow_id, request.version)?,
    };
    let started = start::start(&app, &coordinator.caller.tenant, request).await?;
    accepted(&app, &coordinator, started, wait).await
}

fn source_of(
    workflow: Option<Box<RawValue>>,
    workflow_id: Option<String>,
    version: Option<u64>,
) -> Result<Source, ApiError> {
    match (workflow, workflow_id) {
        (Some(_), Some(_)) => {
            Err(ApiError::invalid("workflow", "and workflowId exclude each other"))
        }
        (Some(_), None) if version.is_some() => {
            Err(ApiError::invalid("version", "goes with workflowId, not with workflow"))
        }
        (Some(workflow), None) => {
            Ok(Source::Inline(Box::<str>::from(workflow).into_boxed_bytes().into()))
        }
        (None, Some(workflow_id)) => Ok(Source::Kept { workflow_id, version }),
        (None, None) => Err(ApiError::invalid("workflow", "is missing")
            .with_hint("send `workflow` whole, or the `workflowId` of one that is kept here")),
    }
}

/// What a run is given: a JSON object.
pub(super) fn inputs_of(inputs: Option<Box<RawValue>>) -> Result<Bytes, ApiError> {
    let Some(inputs) = inputs else { return Ok(Bytes::from_static(b"{}")) };
    if !is_object(inputs.get().as_bytes()) {
        return Err(ApiError::invalid("inputs", "must be an object, like `{\"name\": \"value\"}`"));
    }
    payload("inputs", inputs, RUN_INPUTS_BYTES_MAX)
}

fn checked_client(client_id: Option<String>) -> Result<Option<String>, ApiError> {
    if let Some(client_id) = &client_id {
        prose(&"clientId", client_id, CLIENT_ID_CHARS_MAX)?;
    }
    Ok(client_id)
}

fn key_of(headers: &HeaderMap) -> Result<Option<IdempotencyKey>, ApiError> {
    let Some(value) = headers.get(IDEMPOTENCY_HEADER) else { return Ok(None) };
    let value = value.to_str().map_err(|_| ApiError::invalid("Idempotency-Key", "is no text"))?;
    text(&"header ", value).map(Some)
}

fn wait_of(query: QueryPairs) -> Result<Duration, ApiError> {
    let query = query.only(&[RUN_WAIT.name()])?;
    Ok(Duration::from_secs(query.number(RUN_WAIT)?.unwrap_or(0).unsigned_abs()))
}

/// The answer to whoever asked for a run, after the wait that was asked for.
async fn accepted(
    app: &App,
    coordinator: &Coordinator,
    started: Started,
    wait: Duration,
) -> Result<Response, ApiError> {
    let mut answer = view::started(&started);
    if !wait.is_zero() && started.record.end.is_none() {
        let run = started.record.id;
        start::wait(app, &coordinator.handle, run, wait).await?;
        answer.status = view::reference(&row(app, run).await?, false).status;
    }
    Ok(json(StatusCode::ACCEPTED, &answer))
}

/// List runs
///
/// Newest first, a page at a time, without their nodes.
#[utoipa::path(
    get, path = "/api/v1/runs", tag = "runs", operation_id = "list_runs",
    params(
        ("status" = Option<String>, Query, description = "Only these, comma-separated; \
            `queued` and `running` both stand for runs that have not ended."),
        ("clientId" = Option<String>, Query, description = "Only runs of this client."),
        ("workflowId" = Option<String>, Query, description = "Only runs of this workflow."),
        ("limit" = Option<i64>, Query, description = "1 to 200. Default 50."),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the page before.")
    ),
    responses(
        (status = 200, body = RunPage, description = "A page; follow `nextCursor`."),
        (status = 422, body = Problem, description = "E.REQUEST.INVALID"),
        (status = 503, body = Problem, description = "E.STORE.UNAVAILABLE, E.SERVER.STOPPING")
    )
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    query: QueryPairs,
) -> Result<Response, ApiError> {
    let shard = coordinator.handle.shard();
    let page = app.store.runs(shard, page_query(query, shard)?).await?;
    let items = page.runs.iter().map(view::row).collect();
    let next_cursor = page.next_before.map(|run| run.to_string());
    Ok(json(StatusCode::OK, &RunPage { items, next_cursor }))
}

fn page_query(query: QueryPairs, shard: ShardId) -> Result<RunQuery, ApiError> {
    let query = query.only(&["status", "clientId", "workflowId", "limit", "cursor"])?;
    let mut ends = Vec::new();
    for word in query.all("status").flat_map(|words| words.split(',')) {
        let end = end_of(word)?;
        if !ends.contains(&end) {
            ends.push(end);
        }
    }
    let cursor = |text: &str| {
        let run = text.parse().ok().filter(|run: &RunId| run.shard() == shard);
        run.ok_or_else(|| {
            ApiError::invalid("cursor", "is not a `nextCursor` of an earlier page")
                .with_hint("leave it out to start at the newest run")
        })
    };
    Ok(RunQuery {
        ends,
        client_id: query.first("clientId").map(str::to_owned),
        workflow_id: query.first("workflowId").map(str::to_owned),
        before: query.first("cursor").map(cursor).transpose()?,
        limit: limit_of(&query, RUNS_LIMIT)?,
    })
}

/// How many a page shows.
pub(super) fn limit_of(query: &QueryPairs, range: NumberRange) -> Result<u32, ApiError> {
    let limit = query.number(range)?.unwrap_or(PAGE_RUNS_DEFAULT);
    Ok(u32::try_from(limit).expect("the range is small"))
}

fn end_of(word: &str) -> Result<Option<RunWord>, ApiError> {
    let Some(status) = RunStatus::from_word(word) else {
        let known: Vec<_> = RunStatus::ALL.iter().map(|status| status.word()).collect();
        let rule = format!("is not a status; these are {}", known.join(", "));
        return Err(ApiError::invalid(format_args!("status `{word}`"), rule));
    };
    Ok(match status {
        RunStatus::Queued | RunStatus::Running => None,
        RunStatus::Succeeded => Some(RunWord::Succeeded),
        RunStatus::Failed => Some(RunWord::Failed),
        RunStatus::Cancelled => Some(RunWord::Cancelled),
    })
}

/// Look at a run
///
/// With every node: where it stands, who has it, what it gave.
#[utoipa::path(
    get, path = "/api/v1/runs/{run_id}", tag = "runs", operation_id = "get_run",
    params(
        ("run_id" = String, Path, description = "The run: its id or its number."),
        ("nodes" = Option<bool>, Query, description = "`false` leaves the nodes out."),
        ("wait" = Option<i64>, Query,
            description = "Seconds, 0 to 60, for which the answer waits for the end. Default 0.")
    ),
    responses(
        (status = 200, body = Run, description = "The run as it is durable."),
        (status = 404, body = Problem, description = "E.RUN.NOT_FOUND"),
        (status = 422, body = Problem, description = "E.REQUEST.INVALID"),
        (status = 429, body = Problem, description = "E.LIMIT.WORKERS, E.LIMIT.OVERLOADED"),
        (status = 503, body = Problem, description = "E.STORE.UNAVAILABLE, E.SERVER.STOPPING")
    )
)]
pub(super) async fn show(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    path: PathName,
    query: QueryPairs,
) -> Result<Response, ApiError> {
    let run = path.run(coordinator.handle.shard())?;
    let query = query.only(&["nodes", RUN_WAIT.name()])?;
    let with_nodes = match query.first("nodes") {
        None | Some("true" | "1") => true,
        Some("false" | "0") => false,
        Some(other) => {
            let field = format!("nodes is `{other}`;");
            return Err(ApiError::invalid(field, "it is true or false"));
        }
    };
    let wait = Duration::from_secs(query.number(RUN_WAIT)?.unwrap_or(0).unsigned_abs());
    if !wait.is_zero() {
        start::wait(&app, &coordinator.handle, run, wait).await?;
    }
    let feedback = Arc::clone(&app.feedback);
    let body = on_board(&app, run, move |board| {
        serde_json::to_vec(&view::whole(board, &feedback, with_nodes)).ok()
    });
    body.await?
        .map(|bytes| json_bytes(StatusCode::OK, bytes))
        .ok_or_else(|| ApiError::internal("the run could not be written as JSON"))
}

/// Looks at everything that is known of a run, away from the threads that serve requests: a run
/// may have a hundred thousand nodes.
pub(super) async fn on_board<T: Send + 'static>(
    app: &App,
    run: RunId,
    look: impl FnOnce(&Board<'_>) -> T + Send + 'static,
) -> Result<T, ApiError> {
    let found = app.store.run(run.shard(), RunKey::Id(run)).await?;
    let record = found.ok_or_else(ApiError::no_such_run)?;
    let parts = app.store.run_parts(run.shard(), run).await?;
    let hash = record.about.definition_hash.clone();
    let ready = app.programs.of_run(&hash, record.definition.clone()).await?;
    let looking =
        tokio::task::spawn_blocking(move || look(&Board::new(&record, &parts, &ready.program)));
    looking.await.map_err(|_| ApiError::internal("the run could not be shown"))
}

/// A run without its definition.
async fn row(app: &App, run: RunId) -> Result<RunRecord, ApiError> {
    find::row(app, run).await?.ok_or_else(ApiError::no_such_run)
}

/// Stop a run
///
/// With everything in it. Stopping a run that was stopped changes nothing.
#[utoipa::path(
    post, path = "/api/v1/runs/{run_id}/cancel", tag = "runs", operation_id = "cancel_run",
    params(("run_id" = String, Path, description = "The run: its id or its number.")),
    responses(
        (status = 200, body = RunRef, description = "The run is stopped."),
        (status = 404, body = Problem, description = "E.RUN.NOT_FOUND"),
        (status = 409, body = Problem, description = "E.RUN.CONFLICT: it came to another end."),
        (status = 429, body = Problem, description = "E.LIMIT.OVERLOADED"),
        (status = 503, body = Problem, description = "E.STORE.UNAVAILABLE, E.SERVER.STOPPING")
    )
)]
pub(super) async fn cancel(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    AskerName(by): AskerName,
    path: PathName,
) -> Result<Response, ApiError> {
    let run = path.run(coordinator.handle.shard())?;
    match coordinator.handle.ask(|ticket| Command::CancelRun { ticket, run, by }).await? {
        Answer::Stopped | Answer::NotLive => {}
        Answer::Refused(refusal) => return Err(refusal.into()),
        other => return Err(ApiError::unexpected(&other)),
    }
    let reference = view::reference(&row(&app, run).await?, false);
    match reference.status {
        RunStatus::Succeeded | RunStatus::Failed => {
            let message = format!("the run is already {}", reference.status.word());
            Err(ApiError::new(ErrorCode::RunConflict, message)
                .with_hint("only a run that has not come to its end can be stopped"))
        }
        RunStatus::Cancelled | RunStatus::Queued | RunStatus::Running => {
            Ok(json(StatusCode::OK, &reference))
        }
    }
}

/// A run's definition
///
/// The workflow as it was authored, with the `state` of each node in it.
#[utoipa::path(
    get, path = "/api/v1/runs/{run_id}/definition", tag = "runs",
    operation_id = "get_run_definition",
    params(("run_id" = String, Path, description = "The run: its id or its number.")),
    responses(
        (status = 200, body = serde_json::Value,
            description = "The workflow. `ETag` is the hash of the definition."),
        (status = 404, body = Problem, description = "E.RUN.NOT_FOUND"),
        (status = 503, body = Problem, description = "E.STORE.UNAVAILABLE, E.SERVER.STOPPING")
    )
)]
pub(super) async fn definition(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    path: PathName,
) -> Result<Response, ApiError> {
    let run = path.run(coordinator.handle.shard())?;
    let feedback = Arc::clone(&app.feedback);
    let made = on_board(&app, run, move |board| {
        let hash = board.record.about.definition_hash.clone();
        let text = std::str::from_utf8(&board.record.definition).ok()?;
        Some((hash, definition::with_states(text, board, &feedback)?))
    });
    let unreadable = || ApiError::internal("the run's definition cannot be read");
    let (hash, text) = made.await?.ok_or_else(unreadable)?;
    let bytes = Box::<str>::from(text).into_boxed_bytes().into_vec();
    let mut response = json_bytes(StatusCode::OK, bytes);
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{hash}\"")) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    Ok(response)
}

/// Take a run up again
///
/// A new run that uses what the old one has done: what succeeded is not executed again, unless it
/// lies behind something that is.
#[utoipa::path(
    post, path = "/api/v1/runs/{run_id}/retry", tag = "runs", operation_id = "retry_run",
    request_body = RetryRun,
    params(
        ("run_id" = String, Path, description = "The run: its id or its number."),
        ("wait" = Option<i64>, Query, description = "Seconds, 0 to 60. Default 0."),
        ("Idempotency-Key" = Option<String>, Header,
            description = "The same request with the same key starts no second run.")
    ),
    responses(
        (status = 202, body = RunRef, description = "The new run."),
        (status = 404, body = Problem, description = "E.RUN.NOT_FOUND"),
        (status = 409, body = Problem,
            description = "E.RUN.CONFLICT: the run has not ended, or nothing of it failed."),
        (status = 422, body = Problem, description = "E.FLOW.INVALID, E.REQUEST.INVALID"),
        (status = 429, body = Problem,
            description = "E.LIMIT.RUNS, E.LIMIT.LIVE_TASKS, E.LIMIT.DEMANDS, E.LIMIT.OVERLOADED"),
        (status = 503, body = Problem, description = "E.STORE.UNAVAILABLE, E.SERVER.STOPPING")
    )
)]
pub(super) async fn retry(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    AskerName(asker): AskerName,
    path: PathName,
    query: QueryPairs,
    headers: HeaderMap,
    OptionalJson(body): OptionalJson<RetryRun>,
) -> Result<Response, ApiError> {
    let run = path.run(coordinator.handle.shard())?;
    let wait = wait_of(query)?;
    let key = key_of(&headers)?;
    let new_inputs = body.inputs.is_some();
    let inputs = inputs_of(body.inputs)?;
    let client_id = checked_client(body.client_id)?;
    let again = again(body.from_failed, body.node_id.as_deref(), body.parameters)?;
    let made = on_board(&app, run, move |board| {
        let reused = retry::reused(board, &again)?;
        let definition = retry::patched(&board.record.definition, &again.parameters)?;
        let inputs = if new_inputs { inputs } else { board.record.inputs.clone() };
        let about = &board.record.about;
        Ok(NewRunRequest {
            source: Source::Earlier { definition, version: about.workflow_version },
            inputs,
            client_id: client_id.or_else(|| about.client_id.clone()),
            key,
            started_by: asker,
            retry: Some(RetryPart { of: run, reused }),
        })
    });
    let request = made.await?.map_err(|error: retry::RetryError| ApiError::from(error))?;
    let started = start::start(&app, &coordinator.caller.tenant, request).await?;
    accepted(&app, &coordinator, started, wait).await
}

fn again(
    from_failed: Option<bool>,
    node: Option<&str>,
    parameters: impl IntoIterator<Item = (String, serde_json::Map<String, serde_json::Value>)>,
) -> Result<Again, ApiError> {
    let id = |field: &str, text: &str| {
        Uuid::try_parse(text).map_err(|_| ApiError::invalid(field, "is not a UUID"))
    };
    let node = node.map(|node| id("nodeId", node)).transpose()?;
    let mut by_node = std::collections::BTreeMap::new();
    for (node, over) in parameters {
        by_node.insert(id("a key of parameters", &node)?, over);
    }
    let everything = from_failed == Some(false) && node.is_none();
    Ok(Again { everything, node, parameters: by_node })
}
