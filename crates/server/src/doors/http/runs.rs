//! Runs and their nodes: list, look at, stop, give to another worker, send a word to, explain.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use bytes::Bytes;
use coordinator::{BindingView, NodeStatus, Rebind, Refusal, RunRecord, RunWord, Signal};
use flow::Program;
use model::{RunId, ShardId, TaskId};
use protocol::error_code::ErrorCode;
use protocol::rest::runs::{
    self as wire, Binding, NodeExplanation, RebindMode, RebindRun, Rebound, Run, RunPage, RunRef,
    RunStatus, SignalNode, Signalled,
};
use protocol::rest::tasks::Reason;
use store::{RunKey, RunQuery};

use super::auth_layer::Context;
use super::convert::{FRAME, NumberRange, RUN_WAIT, RUNS_LIMIT, prose, text};
use super::explain::explain_live;
use super::request::{Json, OptionalJson, PathName, QueryPairs, RunNodePath};
use crate::app::App;
use crate::handle::AskError;
use crate::runs::run_snapshot::{RunSnapshot, Spot};
use crate::runs::{definition, explain, start, view};
use crate::wire_words::payload::{PARAMETERS_BYTES_MAX, payload};
use crate::wire_words::problem::{Answer, ApiError, json_bytes, ok};

const PAGE_RUNS_DEFAULT: i64 = 50;

/// List runs
///
/// Newest first, a page at a time, without their nodes.
#[utoipa::path(
    get, path = "/api/v1/runs", operation_id = "list_runs",
    params(
        ("status" = Option<String>, Query,
            description = "Only these, comma-separated; `queued` and `running` both stand for \
                runs that have not ended."),
        ("clientId" = Option<String>, Query, description = "Only runs of this client."),
        ("workflowId" = Option<String>, Query, description = "Only runs of this workflow."),
        ("limit" = Option<i64>, Query, description = "1 to 200. Default 50."),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the page before.")
    ),
    responses((status = 200, body = RunPage, description = "A page; follow `nextCursor`."))
)]
pub(super) async fn list(context: Context, query: QueryPairs) -> Answer {
    let shard = context.shard();
    let page = context.app.store.runs(shard, page_query(query, shard)?).await?;
    let items = page.runs.iter().map(view::row).collect();
    let next_cursor = page.next_before.map(|run| run.to_string());
    ok(&RunPage { items, next_cursor })
}

fn page_query(query: QueryPairs, shard: ShardId) -> Result<RunQuery, ApiError> {
    let query = query.only(&["status", "clientId", "workflowId", "limit", "cursor"])?;
    let words = query.all("status").flat_map(|words| words.split(','));
    let statuses: Vec<RunStatus> = words.map(status_of).collect::<Result<_, _>>()?;
    let mut ends: Vec<Option<RunWord>> = statuses.iter().map(|status| end_of(*status)).collect();
    ends.sort_unstable();
    ends.dedup();
    let has = |status| statuses.contains(&status);
    let begun = match (has(RunStatus::Queued), has(RunStatus::Running)) {
        (true, false) => Some(false),
        (false, true) => Some(true),
        (true, true) | (false, false) => None,
    };
    let cursor = |text: &str| {
        let run = text.parse().ok().filter(|run: &RunId| run.shard() == shard);
        run.ok_or_else(|| {
            ApiError::invalid("cursor", "is not a `nextCursor` of an earlier page")
                .with_hint("leave it out to start at the newest run")
        })
    };
    Ok(RunQuery {
        ends,
        begun,
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

fn status_of(word: &str) -> Result<RunStatus, ApiError> {
    RunStatus::from_word(word).ok_or_else(|| {
        let known: Vec<_> = RunStatus::ALL.iter().map(|status| status.word()).collect();
        let rule = format!("is not a status; these are {}", known.join(", "));
        ApiError::invalid(format_args!("status `{word}`"), rule)
    })
}

fn end_of(status: RunStatus) -> Option<RunWord> {
    match status {
        RunStatus::Queued | RunStatus::Running => None,
        RunStatus::Succeeded => Some(RunWord::Succeeded),
        RunStatus::Failed => Some(RunWord::Failed),
        RunStatus::Cancelled => Some(RunWord::Cancelled),
    }
}

/// Look at a run
///
/// With every node: where it stands, who has it, what it gave.
#[utoipa::path(
    get, path = "/api/v1/runs/{run_id}", operation_id = "get_run",
    params(
        ("nodes" = Option<bool>, Query, description = "`false` leaves the nodes out."),
        ("wait" = Option<i64>, Query,
            description = "Seconds, 0 to 60, for which the answer waits for the end. Default 0.")
    ),
    responses(
        (status = 200, body = Run, description = "The run as it is durable."),
        (status = 429, description = "E.LIMIT.WORKERS, E.LIMIT.OVERLOADED")
    )
)]
pub(super) async fn show(context: Context, path: PathName, query: QueryPairs) -> Answer {
    let run = path.run(context.shard())?;
    let query = query.only(&["nodes", RUN_WAIT.name()])?;
    let with_nodes = query.flag("nodes", "it is true or false")?.unwrap_or(true);
    let wait = Duration::from_secs(query.number(RUN_WAIT)?.unwrap_or(0).unsigned_abs());
    if !wait.is_zero() {
        start::wait(&context.app, &context.handle, run, wait).await?;
    }
    let feedback = Arc::clone(&context.app.feedback);
    let underway = context.handle.underway(run).await?;
    let body = with_snapshot(&context.app, run, move |snapshot| {
        serde_json::to_vec(&view::whole(snapshot, &feedback, with_nodes, &underway)).ok()
    });
    body.await?
        .map(|bytes| json_bytes(StatusCode::OK, bytes))
        .ok_or_else(|| ApiError::internal("the run could not be written as JSON"))
}

/// Looks at everything that is known of a run, away from the threads that serve requests: a run
/// may have a hundred thousand nodes.
pub(super) async fn with_snapshot<T: Send + 'static>(
    app: &App,
    run: RunId,
    look: impl FnOnce(&RunSnapshot<'_>) -> T + Send + 'static,
) -> Result<T, ApiError> {
    let found = app.store.run(run.shard(), RunKey::Id(run)).await?;
    let record = found.ok_or_else(ApiError::no_such_run)?;
    let parts = app.store.run_parts(run.shard(), run).await?;
    let hash = record.about.definition_hash.clone();
    let program = match app.programs.of_run(run.shard(), &hash, record.definition.clone()).await {
        Ok(ready) => ready.program,
        // An older server took it; the run itself can still be shown.
        Err(error) => {
            tracing::warn!(%run, %error, "a run's definition is not understood any more");
            let source = record.definition.clone();
            Arc::new(Program { source, graphs: Vec::new() })
        }
    };
    let looking =
        tokio::task::spawn_blocking(move || look(&RunSnapshot::new(&record, &parts, &program)));
    looking.await.map_err(|_| ApiError::internal("the run could not be shown"))
}

/// A run without its definition.
pub(super) async fn row(app: &App, run: RunId) -> Result<RunRecord, ApiError> {
    start::row(app, run).await?.ok_or_else(ApiError::no_such_run)
}

/// Stop a run
///
/// With everything in it. Stopping a run that was stopped changes nothing.
#[utoipa::path(
    post, path = "/api/v1/runs/{run_id}/cancel", operation_id = "cancel_run",
    responses(
        (status = 200, body = RunRef, description = "The run is stopped."),
        (status = 409, description = "E.RUN.CONFLICT: it came to another end.")
    )
)]
pub(super) async fn cancel(context: Context, path: PathName) -> Answer {
    let by = context.asker_name();
    let run = path.run(context.shard())?;
    context.handle.cancel_run(run, by).await?;
    let reference = view::reference(&row(&context.app, run).await?, false);
    match reference.status {
        RunStatus::Succeeded | RunStatus::Failed => {
            let message = format!("the run is already {}", reference.status.word());
            Err(ApiError::new(ErrorCode::RunConflict, message)
                .with_hint("only a run that has not come to its end can be stopped"))
        }
        RunStatus::Cancelled | RunStatus::Queued | RunStatus::Running => ok(&reference),
    }
}

/// A run's definition
///
/// The workflow as it was authored, with the `state` of each node in it.
#[utoipa::path(
    get, path = "/api/v1/runs/{run_id}/definition", operation_id = "get_run_definition",
    responses(
        (status = 200, body = serde_json::Value,
            description = "The workflow. `ETag` is the hash of the definition.")
    )
)]
pub(super) async fn definition(context: Context, path: PathName) -> Answer {
    let run = path.run(context.shard())?;
    let feedback = Arc::clone(&context.app.feedback);
    let made = with_snapshot(&context.app, run, move |snapshot| {
        let hash = snapshot.record.about.definition_hash.clone();
        let text = std::str::from_utf8(&snapshot.record.definition).ok()?;
        Some((hash, definition::with_states(text, snapshot, &feedback)?))
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

/// The name of a package or of a type, in characters.
const PACKAGE_CHARS_MAX: usize = 128;

/// Give the work of a run to another worker
///
/// What is under way is finished where it is. `move` asks the worker that had the work last,
/// `drain` gives it nothing more of this run. It holds until the run ends.
#[utoipa::path(
    post, path = "/api/v1/scheduler/runs/{run_id}/rebind", operation_id = "rebind_run",
    request_body = RebindRun,
    responses(
        (status = 200, body = Rebound, description = "Who has the work from here on."),
        (status = 404,
            description = "E.RUN.NOT_FOUND: no such run, or it has ended; E.WORKER.NOT_FOUND"),
        (status = 409, description = "E.RUN.CONFLICT: no worker has that work yet."),
        (status = 429, description = "E.LIMIT.RUNS, E.LIMIT.OVERLOADED")
    )
)]
pub(super) async fn rebind(
    context: Context,
    path: PathName,
    Json(body): Json<RebindRun>,
) -> Answer {
    let run = path.run(context.shard())?;
    prose(&"package", body.package.as_deref().unwrap_or_default(), PACKAGE_CHARS_MAX)?;
    let to = body.worker_name.as_deref().map(|worker| text(&"workerName: ", worker)).transpose()?;
    let drain = body.mode == RebindMode::Drain;
    let rebind = Rebind { run, package: body.package, to, drain };
    let bindings = context.handle.rebind(rebind).await?.iter().map(binding).collect();
    ok(&Rebound { run_id: run.to_string(), bindings })
}

fn binding(view: &BindingView) -> Binding {
    Binding {
        package: view.package.clone(),
        worker: view.worker.to_string(),
        bound_at: view.since.to_string(),
    }
}

/// Limit: the name of an event, in characters.
const EVENT_CHARS_MAX: usize = 256;

/// Send a word to a node
///
/// For `core.wait_event` (with `event`) and `core.approve` (with `approved`). The answer comes when
/// the word survives a crash.
#[utoipa::path(
    post, path = "/api/v1/runs/{run_id}/nodes/{node_id}/signal", operation_id = "signal_node",
    request_body = SignalNode,
    responses(
        (status = 200, body = Signalled, description = "The word was heard."),
        (status = 404, description = "E.RUN.NOT_FOUND: no such run, or no such node."),
        (status = 409, description = "E.RUN.NOT_WAITING")
    )
)]
pub(super) async fn signal(
    context: Context,
    path: RunNodePath,
    OptionalJson(body): OptionalJson<SignalNode>,
) -> Answer {
    let by = context.asker_name();
    let (run, node) = path.run_and_node(context.shard())?;
    prose(&"event", body.event.as_deref().unwrap_or_default(), EVENT_CHARS_MAX)?;
    let null = || Ok(Bytes::from_static(b"null"));
    let given = body.payload.map(|given| payload("payload", given, PARAMETERS_BYTES_MAX));
    let signal = Signal {
        run,
        node,
        frame: body.frame,
        event: body.event,
        approved: body.approved,
        payload: given.unwrap_or_else(null)?,
        by,
    };
    match context.handle.signal(signal).await {
        Ok(()) => ok(&Signalled { status: "ok".to_owned() }),
        // Ended, or never there: the store knows which, and what the node came to.
        Err(AskError::Refused(Refusal::UnknownRun)) => {
            Err(not_waiting(&context.app, run, node, body.frame).await)
        }
        Err(error) => Err(error.into()),
    }
}

/// Why a node of a run that has ended cannot hear anything.
async fn not_waiting(
    app: &App,
    run: model::RunId,
    node: uuid::Uuid,
    frame: Option<u32>,
) -> ApiError {
    let status = with_snapshot(app, run, move |snapshot| {
        let spot = snapshot.find(node, frame)?;
        Some(view::wire_word(snapshot.frames[spot.frame].nodes[spot.node].status))
    });
    match status.await {
        Err(error) => error,
        Ok(None) => ApiError::no_such_node(node),
        Ok(Some(status)) => {
            let instead = format!("the run has ended, and the node is {}", status.word());
            Refusal::NotWaiting { instead }.into()
        }
    }
}

/// Explain a node
///
/// Why it does not run, also before its turn has come.
#[utoipa::path(
    get, path = "/api/v1/runs/{run_id}/nodes/{node_id}/explain", operation_id = "explain_node",
    params(
        ("frame" = Option<i64>, Query,
            description = "Which subgraph, where the node stands in several.")
    ),
    responses(
        (status = 200, body = NodeExplanation, description = "The reasons, most telling first."),
        (status = 404, description = "E.RUN.NOT_FOUND: no such run, or no such node.")
    )
)]
pub(super) async fn explain(context: Context, path: RunNodePath, query: QueryPairs) -> Answer {
    let (run, node) = path.run_and_node(context.shard())?;
    let query = query.only(&[FRAME.name()])?;
    let frame = query.number(FRAME)?.map(|number| u32::try_from(number).expect("its range"));
    let found = with_snapshot(&context.app, run, move |snapshot| {
        snapshot.find(node, frame).map(|spot| known(snapshot, spot))
    });
    let Known { status, task, mut reasons, called } =
        found.await?.ok_or_else(|| ApiError::no_such_node(node))?;
    if let Some(task) = task.filter(|_| !status.is_terminal()) {
        reasons.extend(of_task(&context, task).await?);
    }
    // A task does not know what its run and its node are called.
    for hint in reasons.iter_mut().filter_map(|reason| reason.hint.as_mut()) {
        *hint = hint.replace("RUN NODE", &format!("{} {called}", run.number()));
    }
    let why = reasons.first().map_or("its turn comes at once", |reason| &reason.message);
    let explanation = NodeExplanation {
        run_id: run.to_string(),
        node_id: node.to_string(),
        task_id: task.map(|task| task.to_string()),
        status,
        summary: format!("{}: {why}", status.word()),
        reasons,
    };
    ok(&explanation)
}

/// What the store tells of a node.
struct Known {
    status: wire::NodeStatus,
    /// The newest task that has not ended, else the newest one.
    task: Option<TaskId>,
    reasons: Vec<Reason>,
    /// Its name in commands.
    called: String,
}

fn known(snapshot: &RunSnapshot<'_>, spot: Spot) -> Known {
    let (node, parts) = snapshot.frames[spot.frame].node(spot.node);
    let of_step = |task: &&&coordinator::TaskRecord| match spot.middleware {
        None => true,
        Some(level) => task.link.as_ref().is_some_and(|link| usize::from(link.level) == level),
    };
    let mut tasks = parts.tasks.iter().rev().filter(of_step);
    let open = tasks.clone().find(|task| !NodeStatus::of_task(&task.progress).is_terminal());
    let task = open.or_else(|| tasks.next());
    Known {
        status: view::wire_word(parts.status),
        task: task.map(|task| task.id),
        reasons: explain::reasons(snapshot, spot),
        called: node.handle(),
    }
}

async fn of_task(context: &Context, task: TaskId) -> Result<Vec<Reason>, ApiError> {
    let explained = context.handle.explain(task).await?;
    // A task that is not live has ended since the store was read.
    Ok(explained
        .map_or_else(Vec::new, |why| explain_live(task, &why, context.app.clock.now()).reasons))
}
