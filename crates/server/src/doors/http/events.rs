//! Live events: what happens to runs, nodes and workers, as it happens.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use coordinator::{RunRecord, Underway};
use foldhash::fast::RandomState;
use futures_util::Stream;
use futures_util::stream::unfold;
use model::{RunId, ShardId, Timestamp};
use parking_lot::Mutex;
use protocol::error_code::ErrorCode;
use protocol::rest::events::{EventKind, EventScope, EventTicket, RunSnapshotData};
use protocol::rest::runs::Run;
use serde_json::value::RawValue;
use store::RunQuery;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::auth_layer::{Asker, Context, is_live};
use super::request::QueryPairs;
use super::runs::with_snapshot;
use crate::app::App;
use crate::events::{
    Came, FRAME_END, Filter, Holder, READERS_MAX, RESULT_BYTES_MAX, Reader, Said, TICKET_LIFETIME,
    TenantEvents, opening_data, opening_head, run_status,
};
use crate::handle::AskError;
use crate::runs::{start, view};
use crate::wire_words::problem::{Answer, ApiError, json};

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
    get, path = "/api/v1/events", operation_id = "watch_events",
    params(
        ("runId" = Option<String>, Query,
            description = "Only of this run: its UUID or its number."),
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
        (status = 404, description = "E.RUN.NOT_FOUND"),
        (status = 429, description = "E.LIMIT.EVENTS, E.LIMIT.OVERLOADED")
    )
)]
pub(super) async fn watch(context: Context, query: QueryPairs, headers: HeaderMap) -> Answer {
    let shard = context.shard();
    let query = query.only(&PARAMETERS)?;
    let seen = last_seen(&headers, &query);
    let run = match query.first("runId") {
        Some(name) => Some(known_run(&context.app, name, shard).await?),
        None => None,
    };
    let client = query.first("clientSessionId").map(str::to_owned);
    let filter = Filter::new(run, query.first("types"), client)
        .map_err(|error| ApiError::invalid("types:", error))?;
    let events = events_of(&context).await?;
    let reader = events.reader(filter, seen).ok_or_else(|| {
        let message = format!("{READERS_MAX} connections of this tenant read events already");
        ApiError::new(ErrorCode::LimitEvents, message)
    })?;
    let opening = Opening::of(&context.app, shard, &reader).await?;
    let stream = EventStream {
        app: context.app,
        reader,
        token_id: context.token_id,
        state: Stage::Opening(opening),
        pieces: VecDeque::from([Bytes::from_static(COME_BACK)]),
        look_at_token: Instant::now() + LOOK_AT_TOKEN_EVERY,
    };
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
    let run = start::by_name(name, shard).ok_or_else(ApiError::no_such_run)?;
    start::row(app, run).await?.ok_or_else(ApiError::no_such_run)?;
    Ok(run)
}

/// The tenant's events, once ids can be given.
async fn events_of(context: &Context) -> Result<Arc<TenantEvents>, ApiError> {
    let events = Arc::clone(&context.handle.tenant()?.events);
    let ids = tokio::time::timeout(IDS_WITHIN, events.has_ids()).await;
    ids.map_err(|_| AskError::Unavailable)?;
    Ok(events)
}

/// Get a ticket for the events
///
/// It stands for the token of this request in `GET /events?ticket=`, once, within a minute. So no
/// token has to stand in an address, where logs and histories keep it.
#[utoipa::path(
    post, path = "/api/v1/events/tickets", operation_id = "create_event_ticket",
    responses(
        (status = 201, body = EventTicket, description = "The ticket."),
        (status = 429, description = "E.LIMIT.EVENTS")
    )
)]
pub(super) async fn create_ticket(Asker { app, caller, token_id }: Asker) -> Answer {
    let ticket = app.tickets.issue(Holder { caller, token_id }, app.clock.now())?;
    let expires_in = TICKET_LIFETIME.as_secs();
    Ok(json(StatusCode::CREATED, &EventTicket { ticket, expires_in }))
}

/// Runs that a reader is told of who has missed something and named none.
const RUNS_TOLD_MAX: u32 = 100;

/// The runs that are still to be told of.
#[derive(Debug)]
pub(super) struct Opening {
    /// The newest first.
    runs: VecDeque<Told>,
    /// Everything up to here is in what is told.
    id: u64,
    is_gap: bool,
}

#[derive(Debug)]
enum Told {
    /// As a whole.
    Whole(RunId),
    /// It ended; how is all there is to say, and who wants its nodes asks for them.
    Ended(Box<RunRecord>),
}

impl Opening {
    /// A reader that names a run never misses its beginning; one that missed something learns how
    /// things stand.
    pub(super) async fn of(app: &App, shard: ShardId, reader: &Reader) -> Result<Self, ApiError> {
        let runs = match (reader.came(), reader.filter().run) {
            (Came::Back, _) | (Came::Fresh, None) => VecDeque::new(),
            (Came::Fresh | Came::TooLate, Some(run)) => VecDeque::from([Told::Whole(run)]),
            (Came::TooLate, None) => newest_runs(app, shard, reader).await?,
        };
        Ok(Self { runs, id: reader.began_at(), is_gap: reader.came() == Came::TooLate })
    }

    /// The next frame, in pieces; `None` when everything is told.
    pub(super) async fn next(
        &mut self,
        app: &App,
        reader: &Reader,
    ) -> Result<Option<Vec<Bytes>>, ApiError> {
        while let Some(told) = self.runs.pop_front() {
            // Only the last one carries the id: who loses the connection before has not seen all.
            let id = self.runs.is_empty().then_some(self.id);
            let frame = match told {
                Told::Whole(run) if reader.filter().wants_kind(EventKind::RunSnapshot) => {
                    self.snapshot(app, reader, run, id).await?
                }
                Told::Ended(record) if reader.filter().wants_kind(EventKind::RunStatus) => {
                    Some(self.status(app, reader, &record, id))
                }
                Told::Whole(_) | Told::Ended(_) => None,
            };
            if frame.is_some() {
                return Ok(frame);
            }
        }
        Ok(None)
    }

    async fn snapshot(
        &self,
        app: &App,
        reader: &Reader,
        run: RunId,
        id: Option<u64>,
    ) -> Result<Option<Vec<Bytes>>, ApiError> {
        let made = match app.snapshots.of(app, reader.tenant(), run, self.id).await {
            Ok(made) => made,
            Err(error) if error.code == ErrorCode::RunNotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let run_id = run.to_string();
        let scope = scope(reader, &run_id, made.client.as_deref());
        let head = opening_head(EventKind::RunSnapshot, id, &scope, (made.at, self.is_gap));
        Ok(Some(vec![head.into(), made.data, Bytes::from_static(FRAME_END)]))
    }

    fn status(
        &self,
        app: &App,
        reader: &Reader,
        record: &RunRecord,
        id: Option<u64>,
    ) -> Vec<Bytes> {
        let run_id = record.id.to_string();
        let scope = scope(reader, &run_id, record.about.client_id.as_deref());
        let at = record.end.as_ref().map_or_else(|| app.clock.now(), |end| end.at);
        let run = (run_id.as_str(), record.id.number());
        let data = opening_data(&run_status(run, view::status(record), record.end.as_deref()));
        let head = opening_head(EventKind::RunStatus, id, &scope, (at, self.is_gap));
        vec![head.into(), data.into(), Bytes::from_static(FRAME_END)]
    }
}

fn scope<'a>(reader: &'a Reader, run: &'a str, client: Option<&'a str>) -> EventScope<'a> {
    EventScope {
        tenant: reader.tenant().tenant().as_str().into(),
        run_id: Some(run.into()),
        client_session_id: client.map(Cow::from),
        ..EventScope::default()
    }
}

/// Oldest first, so that the newest is what a reader saw last.
async fn newest_runs(
    app: &App,
    shard: ShardId,
    reader: &Reader,
) -> Result<VecDeque<Told>, ApiError> {
    let query = RunQuery { limit: RUNS_TOLD_MAX, ..RunQuery::default() };
    let page = app.store.runs(shard, query).await?;
    let filter = reader.filter();
    let newest = page.runs.into_iter().rev();
    let wanted = newest.filter(|record| filter.wants_client(record.about.client_id.as_deref()));
    let told = |record: RunRecord| match &record.end {
        None => Told::Whole(record.id),
        Some(_) => Told::Ended(Box::new(record)),
    };
    Ok(wanted.map(told).collect())
}

/// How long a reader waits before it comes back, unless it has a rule of its own.
const COME_BACK: &[u8] = b"retry: 2000\n\n";
/// How often the reader's token is looked at.
const LOOK_AT_TOKEN_EVERY: Duration = Duration::from_secs(15);
const TOO_SLOW: &[u8] = b": too slow; what comes next is gone, come back for a snapshot\n\n";
const LOST: &[u8] = b": the server lost its store, or the tenant; come back for a snapshot\n\n";
const STOPS: &[u8] = b": the server stops\n\n";
const TOKEN_ENDED: &[u8] = b": the token has ended\n\n";
const NO_SNAPSHOT: &[u8] = b": how things stand cannot be read right now\n\n";

/// Events on their way to a reader.
pub(super) struct EventStream {
    app: Arc<App>,
    reader: Reader,
    token_id: Option<String>,
    state: Stage,
    /// Bytes that are sent before anything else.
    pieces: VecDeque<Bytes>,
    look_at_token: Instant,
}

enum Stage {
    /// How things stand is being told.
    Opening(Opening),
    /// What happens is told as it happens.
    Live,
    /// The last comment is out.
    Over,
}

impl EventStream {
    pub(super) fn into_stream(self) -> impl Stream<Item = Result<Bytes, Infallible>> {
        unfold(self, |mut stream| async {
            let bytes = stream.next().await?;
            Some((Ok(bytes), stream))
        })
    }

    /// The next bytes; `None` when the answer is over.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return Some(piece);
            }
            match &mut self.state {
                Stage::Opening(opening) => match opening.next(&self.app, &self.reader).await {
                    Ok(Some(pieces)) => self.pieces.extend(pieces),
                    Ok(None) => self.state = Stage::Live,
                    Err(error) => {
                        tracing::warn!(code = error.code.name(), error.message, "no snapshot");
                        return Some(self.end(NO_SNAPSHOT));
                    }
                },
                Stage::Live => return Some(self.live().await),
                Stage::Over => return None,
            }
        }
    }

    async fn live(&mut self) -> Bytes {
        let shutdown = self.app.shutdown.clone();
        let said = tokio::select! {
            biased;
            () = shutdown.cancelled() => return self.end(STOPS),
            said = self.reader.next() => said,
        };
        if Instant::now() >= self.look_at_token {
            self.look_at_token = Instant::now() + LOOK_AT_TOKEN_EVERY;
            if !is_live(&self.app, self.token_id.as_deref()) {
                return self.end(TOKEN_ENDED);
            }
        }
        match said {
            Said::Bytes(bytes) => bytes,
            Said::TooSlow => self.end(TOO_SLOW),
            Said::Lost => self.end(LOST),
        }
    }

    fn end(&mut self, comment: &'static [u8]) -> Bytes {
        self.state = Stage::Over;
        Bytes::from_static(comment)
    }
}

/// Snapshots that are made at the same time: each reads a whole run.
const SNAPSHOTS_AT_ONCE_MAX: usize = 2;

/// A run as a whole, as JSON.
#[derive(Clone, Debug)]
pub(super) struct Made {
    /// Everything up to this event is in it.
    covers: u64,
    pub(super) at: Timestamp,
    pub(super) client: Option<String>,
    pub(super) data: Bytes,
}

/// The one that is being made, or was made for those who still wait.
type Slot = tokio::sync::Mutex<Option<Made>>;

/// Makes snapshots.
#[derive(Debug)]
pub(crate) struct Snapshots {
    slots: Mutex<HashMap<RunId, Weak<Slot>, RandomState>>,
    room: Semaphore,
}

impl Default for Snapshots {
    fn default() -> Self {
        Self { slots: Mutex::default(), room: Semaphore::new(SNAPSHOTS_AT_ONCE_MAX) }
    }
}

impl Snapshots {
    /// A snapshot that has everything up to the event `covers`.
    pub(super) async fn of(
        &self,
        app: &App,
        events: &TenantEvents,
        run: RunId,
        covers: u64,
    ) -> Result<Made, ApiError> {
        let slot = self.slot(run);
        let mut made = slot.lock().await;
        if let Some(made) = made.as_ref().filter(|made| made.covers >= covers) {
            return Ok(made.clone());
        }
        let _room = self.room.acquire().await.expect("the semaphore is never closed");
        // What is told up to here is durable, so that what is read from here on has it.
        let covers = events.last_id();
        let (data, client) = read(app, run).await?;
        let fresh = Made { covers, at: app.clock.now(), client, data };
        *made = Some(fresh.clone());
        Ok(fresh)
    }

    fn slot(&self, run: RunId) -> Arc<Slot> {
        let mut slots = self.slots.lock();
        if let Some(slot) = slots.get(&run).and_then(Weak::upgrade) {
            return slot;
        }
        slots.retain(|_, slot| slot.strong_count() > 0);
        let slot = Arc::new(Slot::default());
        slots.insert(run, Arc::downgrade(&slot));
        slot
    }
}

async fn read(app: &App, run: RunId) -> Result<(Bytes, Option<String>), ApiError> {
    let feedback = Arc::clone(&app.feedback);
    let made = with_snapshot(app, run, move |found| {
        let shown = view::whole(found, &feedback, true, &Underway::default());
        let client = shown.client_id.clone();
        snapshot(shown).map(|data| (data, client))
    });
    let failed = || ApiError::internal("the run could not be written as JSON");
    made.await?.ok_or_else(failed)
}

fn snapshot(mut run: Run) -> Option<Bytes> {
    let mut nodes = run.nodes.take().unwrap_or_default();
    for node in &mut nodes {
        // Large results are read from their tasks, as with `node.result.snapshot`.
        node.result.take_if(|result| result.get().len() > RESULT_BYTES_MAX);
    }
    let raw = |json: serde_json::Result<Box<RawValue>>| json.ok().map(Cow::Owned);
    let data = RunSnapshotData {
        kind: EventKind::RunSnapshot.word().into(),
        run: raw(serde_json::value::to_raw_value(&run))?,
        nodes: raw(serde_json::value::to_raw_value(&nodes))?,
    };
    Some(opening_data(&data).into())
}
