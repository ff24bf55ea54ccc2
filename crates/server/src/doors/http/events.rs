//! Live events: what happens to runs, nodes and workers, as it happens.

mod opening;
mod snapshots;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use model::{RunId, ShardId};
use protocol::error_code::ErrorCode;
use protocol::rest::problem::Problem;

use self::opening::Opening;
pub(crate) use self::snapshots::Snapshots;
use self::stream::EventStream;
use super::gate::{Coordinator, Credential};
use super::params::QueryPairs;
use crate::app::App;
use crate::events::{Filter, READERS_MAX, TenantEvents};
use crate::handle::AskError;
use crate::runs::find;
use crate::wire_words::problem::ApiError;

/// How long a reader waits for the store to set ids aside, before the first event of all.
const IDS_WITHIN: Duration = Duration::from_secs(5);
const LAST_EVENT_ID: &str = "last-event-id";
/// Proxies that hold answers back until they are whole would hold this one back for ever.
const NO_BUFFERING: (&str, &str) = ("x-accel-buffering", "no");
const PARAMETERS: [&str; 6] =
    ["runId", "types", "clientSessionId", "clientInstanceId", "lastEventId", "ticket"];

/// Watch what happens
///
/// A stream (`text/event-stream`) of events of runs, nodes and workers; docs/reference/events.md
/// lists the types. Ids rise across restarts. A reader that comes back with `Last-Event-ID` gets
/// everything since, marked `replayed`; where that is gone, a `run.snapshot` of each run that it
/// watches. Who names a run gets a snapshot of it first. A reader that is too slow is cut off, and
/// comes back for what it missed. A comment every 15 s keeps the connection alive.
#[utoipa::path(
    get, path = "/api/v1/events", tag = "events", operation_id = "watch_events",
    params(
        ("runId" = Option<String>, Query, description = "Only of this run: its UUID or its number."),
        ("types" = Option<String>, Query,
            description = "Only of these types: a list with commas, `node.*` for several."),
        ("clientSessionId" = Option<String>, Query,
            description = "Only of runs with this `clientId`, and of those without any."),
        ("clientInstanceId" = Option<String>, Query, description = "Taken, and not looked at."),
        ("lastEventId" = Option<String>, Query,
            description = "The id of the last event that was seen; the header goes first."),
        ("ticket" = Option<String>, Query, description = "Stands for the token, once."),
        ("Last-Event-ID" = Option<String>, Header,
            description = "The id of the last event that was seen.")
    ),
    responses(
        (status = 200, body = String, content_type = "text/event-stream",
            description = "Events, until the reader leaves."),
        (status = 404, body = Problem, description = "E.RUN.NOT_FOUND"),
        (status = 422, body = Problem, description = "E.REQUEST.INVALID"),
        (status = 429, body = Problem, description = "E.LIMIT.EVENTS, E.LIMIT.OVERLOADED"),
        (status = 503, body = Problem, description = "E.STORE.UNAVAILABLE, E.SERVER.STOPPING")
    )
)]
pub(super) async fn watch(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    credential: Credential,
    query: QueryPairs,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let shard = coordinator.handle.shard();
    let query = query.only(&PARAMETERS)?;
    let seen = last_seen(&headers, &query);
    let run = match query.first("runId") {
        Some(name) => Some(known_run(&app, name, shard).await?),
        None => None,
    };
    let client = query.first("clientSessionId").map(str::to_owned);
    let filter = Filter::new(run, query.first("types"), client)
        .map_err(|error| ApiError::invalid("types:", error))?;
    let events = events_of(&coordinator).await?;
    let reader = events.reader(filter, seen).ok_or_else(|| {
        let message = format!("{READERS_MAX} connections of this tenant read events already");
        ApiError::new(ErrorCode::LimitEvents, message)
    })?;
    let opening = Opening::of(&app, shard, &reader).await?;
    let stream = EventStream::new(app, reader, opening, credential);
    let mut response = Response::new(Body::from_stream(stream.into_stream()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(NO_BUFFERING.0, HeaderValue::from_static(NO_BUFFERING.1));
    Ok(response)
}

/// What the reader saw last. What is no id of ours is older than everything.
fn last_seen(headers: &HeaderMap, query: &QueryPairs) -> Option<u64> {
    let header = headers.get(LAST_EVENT_ID).map(|value| value.to_str().unwrap_or("?"));
    let seen = header.filter(|value| !value.is_empty()).or_else(|| query.first("lastEventId"))?;
    Some(seen.parse().unwrap_or(0))
}

async fn known_run(app: &App, name: &str, shard: ShardId) -> Result<RunId, ApiError> {
    let run = find::by_name(name, shard).ok_or_else(ApiError::no_such_run)?;
    find::row(app, run).await?.ok_or_else(ApiError::no_such_run)?;
    Ok(run)
}

/// The tenant's events, once ids can be given.
async fn events_of(coordinator: &Coordinator) -> Result<Arc<TenantEvents>, ApiError> {
    let events = Arc::clone(&coordinator.handle.tenant()?.events);
    let ids = tokio::time::timeout(IDS_WITHIN, events.has_ids()).await;
    ids.map_err(|_| AskError::Unavailable)?;
    Ok(events)
}
