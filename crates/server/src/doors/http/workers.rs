//! Workers: as the coordinator sees them, as their sessions tell, and what people tell them.

use std::time::Duration;

use axum::http::StatusCode;
use coordinator::{
    Drain, DrainCause, LeaseRequest, Renewal, SilenceLimits, WORKER_HEARTBEAT_EVERY, WorkerView,
};
use model::{Timestamp, WorkerId};
use protocol::error_code::ErrorCode;
use protocol::rest::events::{CommandAnswer, EventError, EventKind};
use protocol::rest::leases::RequestLeases;
use protocol::rest::tasks::Package;
use protocol::rest::workers::{
    AcceptedCommand, BeatWorker, BeatenWorker, DrainWord, RegisterWorker, RegisteredWorker, Worker,
    WorkerCommand, WorkerHeartbeat, WorkerSession, Workers,
};
use shard::sessions::{Notice, SessionView};
use uuid::Uuid;

use super::answers::heartbeat_answer;
use super::auth_layer::Context;
use super::convert::{lease_request, prose, text};
use super::leases;
use super::request::{Json, PathName};
use crate::handle::WorkerRegistration;
use crate::links::ToLink;
use crate::wire_words::problem::{Answer, ApiError, json, ok};

/// Why a worker is drained, in characters.
const REASON_CHARS_MAX: usize = 1_024;

/// List workers
#[utoipa::path(
    get, path = "/api/v1/workers", operation_id = "list_workers",
    responses((status = 200, body = Workers, description = "By name."))
)]
pub(super) async fn list(context: Context) -> Answer {
    let views = context.handle.list_workers().await?;
    let workers = with_sessions(&context, &views).await?;
    ok(&Workers { workers })
}

/// Look at a worker
#[utoipa::path(
    get, path = "/api/v1/workers/{worker_id}", operation_id = "show_worker",
    responses((status = 200, body = Worker, description = "The worker."))
)]
pub(super) async fn show(context: Context, path: PathName) -> Answer {
    let mut views = context.handle.list_workers().await?;
    views.retain(|view| view.worker.as_str() == path.as_str());
    let workers = with_sessions(&context, &views).await?;
    let worker = workers.first().ok_or_else(|| not_found(path.as_str()))?;
    ok(worker)
}

/// Tell a worker something
///
/// A drain lasts until it is taken back: it is kept before it is answered, and holds for a worker
/// that is away when it comes back.
#[utoipa::path(
    post, path = "/api/v1/workers/{worker_id}/commands", operation_id = "command_worker",
    request_body = WorkerCommand,
    responses(
        (status = 202, body = AcceptedCommand, description = "It is carried out."),
        (status = 429, description = "E.LIMIT.OVERLOADED, E.LIMIT.WORKERS")
    )
)]
pub(super) async fn command(
    context: Context,
    path: PathName,
    Json(body): Json<WorkerCommand>,
) -> Answer {
    let worker: WorkerId = path.as_str().parse().map_err(|_| not_found(path.as_str()))?;
    let views = context.handle.list_workers().await?;
    if !views.iter().any(|view| view.worker == worker) {
        return Err(not_found(path.as_str()));
    }
    let command_id = Uuid::new_v4().to_string();
    let word = command_word(&body);
    let done = carry_out(&context, &worker, body, &command_id).await;
    tell_command(&context, (&worker, &command_id, word), done.as_ref().err());
    Ok(json(StatusCode::ACCEPTED, &done?))
}

async fn carry_out(
    context: &Context,
    worker: &WorkerId,
    body: WorkerCommand,
    command_id: &str,
) -> Result<AcceptedCommand, ApiError> {
    let now = context.app.clock.now();
    let (drain, notice) = match body {
        WorkerCommand::Drain { reason, deadline_ms } => {
            prose(&"reason", reason.as_deref().unwrap_or_default(), REASON_CHARS_MAX)?;
            let gone_by = deadline_ms.map(|millis| now.after(Duration::from_millis(millis)));
            let by = context.asker_name();
            let drain = Drain { by, at: now, gone_by, reason: reason.clone() };
            (Some(drain), Notice::Drain { reason, deadline_ms })
        }
        WorkerCommand::Undrain => (None, Notice::Undrain),
    };
    context.handle.drain(worker.clone(), drain).await?;
    let delivered = context.handle.tell_worker(worker.clone(), ToLink::Notice(notice)).await;
    let accepted = AcceptedCommand {
        command_id: command_id.to_owned(),
        worker_id: worker.to_string(),
        accepted_at: now.to_string(),
        delivered,
    };
    Ok(accepted)
}

fn command_word(command: &WorkerCommand) -> &'static str {
    match command {
        WorkerCommand::Drain { .. } => "drain",
        WorkerCommand::Undrain => "undrain",
    }
}

/// Those who watch hear what became of a command.
fn tell_command(
    context: &Context,
    (worker, command_id, command): (&WorkerId, &str, &str),
    error: Option<&ApiError>,
) {
    let Ok(tenant) = context.handle.tenant() else { return };
    let kind = if error.is_none() { EventKind::CommandAck } else { EventKind::CommandError };
    tenant.events.tell(kind, worker, || CommandAnswer {
        kind: kind.word().into(),
        command_id: command_id.into(),
        worker_name: worker.as_str().into(),
        command: command.into(),
        error: error.map(|error| EventError {
            code: error.code.name().into(),
            message: error.message.as_str().into(),
        }),
    });
}

/// Register a worker that pulls
///
/// A process calls this when it starts. What an earlier process of the same name still holds is
/// then renewed only by heartbeats that list it.
#[utoipa::path(
    post, path = "/api/workers/register", operation_id = "register_worker",
    request_body = RegisterWorker,
    responses(
        (status = 200, body = RegisteredWorker, description = "The worker is known."),
        (status = 422, description = "E.REQUEST.INVALID, E.LIMIT.BATCH"),
        (status = 429, description = "E.LIMIT.WORKERS, E.LIMIT.OVERLOADED")
    )
)]
pub(super) async fn register(context: Context, Json(body): Json<RegisterWorker>) -> Answer {
    let worker_id = body.worker_id.clone();
    let request = RequestLeases {
        worker_id: body.worker_id,
        types: body.types,
        queues: body.queues,
        tools: body.tools,
        tags: body.tags,
        packages: body.packages,
        ..RequestLeases::default()
    };
    let LeaseRequest { worker, offer, .. } = lease_request(&request, context.app.clock.now())?;
    context.speaks_for(worker.as_str())?;
    let (silence_limits, anew) = (SilenceLimits::default(), true);
    let own = WorkerRegistration { worker, offer, silence_limits, anew };
    context.handle.register(own, None).await?;
    let heartbeat_ms = u64::try_from(WORKER_HEARTBEAT_EVERY.as_millis()).unwrap_or(u64::MAX);
    let leases = "/api/v1/leases".to_owned();
    ok(&RegisteredWorker { worker_id, heartbeat_ms, leases })
}

/// A worker that pulls lives
#[utoipa::path(
    post, path = "/api/workers/heartbeat", operation_id = "beat_worker", request_body = BeatWorker,
    responses(
        (status = 200, body = BeatenWorker, description = "One verdict per lease, in order.")
    )
)]
pub(super) async fn heartbeat(context: Context, Json(body): Json<BeatWorker>) -> Answer {
    let worker: WorkerId = text(&"", &body.worker_id)?;
    context.speaks_for(worker.as_str())?;
    let shard = context.shard();
    let listed = body
        .leases
        .map(|leases| leases.iter().map(|lease| leases::lease(lease, shard)).collect::<Vec<_>>());
    let leases = match &listed {
        Some(listed) => Renewal::Listed(listed.iter().flatten().copied().collect()),
        None => Renewal::Unlisted { n_active: 0 },
    };
    let beaten = context.handle.heartbeat(worker, leases).await?;
    let mut judged = beaten.verdicts.into_iter().map(heartbeat_answer);
    let verdicts = match listed {
        None => judged.collect(),
        Some(listed) => listed
            .into_iter()
            .filter_map(|lease| match lease {
                Ok(_) => judged.next(),
                Err(no_lease) => Some(no_lease.heartbeat()),
            })
            .collect(),
    };
    ok(&BeatenWorker { verdicts })
}

fn not_found(name: &str) -> ApiError {
    ApiError::new(ErrorCode::WorkerNotFound, format!("no worker with the name {name}"))
}

/// Workers with what their sessions tell.
async fn with_sessions(context: &Context, views: &[WorkerView]) -> Result<Vec<Worker>, ApiError> {
    let names = views.iter().map(|view| view.worker.clone()).collect();
    let sessions = context.handle.session_views(names).await?;
    Ok(views.iter().zip(sessions).map(|(view, session)| worker(view, session)).collect())
}

fn worker(view: &WorkerView, kept: Option<SessionView>) -> Worker {
    let offer = &view.offer;
    Worker {
        worker_id: view.worker.to_string(),
        health: view.health,
        last_seen: view.last_seen.to_string(),
        in_flight: view.in_flight,
        granted: view.granted,
        asking: view.is_asking,
        types: offer.types.as_ref().map(words),
        queues: offer.queues.as_ref().map(words),
        tools: words(&offer.tools),
        tags: offer.tags.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
        packages: offer
            .packages
            .iter()
            .map(|one| Package { name: one.name.to_string(), version: one.version.to_string() })
            .collect(),
        drained_by: drain_words(view),
        session: kept.and_then(session),
    }
}

fn drain_words(view: &WorkerView) -> Vec<DrainWord> {
    let own = view.drained_by.iter().map(|cause| match cause {
        DrainCause::Leaving => DrainWord::Leaving,
        DrainCause::Pressure => DrainWord::Pressure,
    });
    view.drain.iter().map(|_| DrainWord::Person).chain(own).collect()
}

fn session(view: SessionView) -> Option<WorkerSession> {
    let record = view.record?;
    Some(WorkerSession {
        connected: view.is_connected,
        slots: record.slots,
        since: Timestamp::from_millis(record.accepted_at).to_string(),
        instance_id: record.instance_id,
        given_name: record.given_name,
        version: record.version,
        hostname: record.hostname,
        heartbeat: view.heartbeat.map(|said| WorkerHeartbeat {
            at: said.at.to_string(),
            healthy: said.healthy,
            inflight: said.inflight,
            cpu_pct: said.cpu_pct,
            mem_pct: said.mem_pct,
            disk_pct: said.disk_pct,
            resources: said.resources,
        }),
    })
}

fn words<'a, T: ToString + 'a>(names: impl IntoIterator<Item = &'a T>) -> Vec<String> {
    names.into_iter().map(ToString::to_string).collect()
}
