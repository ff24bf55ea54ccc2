//! The nodes of a run: a word for one that waits, and why one does not run.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use coordinator::{NodeStatus, Refusal, Signal};
use model::TaskId;
use protocol::rest::runs::{self as wire, NodeExplanation, SignalNode, Signalled};
use protocol::rest::tasks::Reason;

use super::auth_layer::{AskerName, Coordinator};
use super::body::OptionalJson;
use super::convert::{FRAME, prose};
use super::explain::explain_live;
use super::params::{QueryPairs, RunNodePath};
use super::runs::with_snapshot;
use crate::app::App;
use crate::handle::AskError;
use crate::runs::run_snapshot::{RunSnapshot, Spot};
use crate::runs::{explain, view};
use crate::wire_words::payload::PARAMETERS_BYTES_MAX;
use crate::wire_words::payload::payload;
use crate::wire_words::problem::{ApiError, json};

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
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    AskerName(by): AskerName,
    path: RunNodePath,
    OptionalJson(body): OptionalJson<SignalNode>,
) -> Result<Response, ApiError> {
    let (run, node) = path.run_and_node(coordinator.handle.shard())?;
    if let Some(event) = &body.event {
        prose(&"event", event, EVENT_CHARS_MAX)?;
    }
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
    match coordinator.handle.signal(signal).await {
        Ok(()) => Ok(json(StatusCode::OK, &Signalled { status: "ok".to_owned() })),
        // Ended, or never there: the store knows which, and what the node came to.
        Err(AskError::Refused(Refusal::UnknownRun)) => {
            Err(not_waiting(&app, run, node, body.frame).await)
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
pub(super) async fn explain(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    path: RunNodePath,
    query: QueryPairs,
) -> Result<Response, ApiError> {
    let (run, node) = path.run_and_node(coordinator.handle.shard())?;
    let query = query.only(&[FRAME.name()])?;
    let frame = query.number(FRAME)?.map(|number| u32::try_from(number).expect("its range"));
    let found = with_snapshot(&app, run, move |snapshot| {
        snapshot.find(node, frame).map(|spot| known(snapshot, spot))
    });
    let Known { status, task, mut reasons, called } =
        found.await?.ok_or_else(|| ApiError::no_such_node(node))?;
    if let Some(task) = task.filter(|_| !status.is_terminal()) {
        reasons.extend(of_task(&app, &coordinator, task).await?);
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
    Ok(json(StatusCode::OK, &explanation))
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

async fn of_task(
    app: &App,
    coordinator: &Coordinator,
    task: TaskId,
) -> Result<Vec<Reason>, ApiError> {
    let explained = coordinator.handle.explain(task).await?;
    // A task that is not live has ended since the store was read.
    Ok(explained.map_or_else(Vec::new, |why| explain_live(task, &why, app.clock.now()).reasons))
}
