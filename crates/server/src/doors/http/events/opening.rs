//! What a reader is told before it hears what happens: how things stand.

use std::borrow::Cow;
use std::collections::VecDeque;

use bytes::Bytes;
use coordinator::RunRecord;
use model::{RunId, ShardId};
use protocol::error_code::ErrorCode;
use protocol::rest::events::{EventError, EventKind, EventScope, RunStatusData};
use store::RunQuery;

use crate::app::App;
use crate::events::{Came, FRAME_END, Reader, opening_data, opening_head};
use crate::runs::view;
use crate::wire_words::problem::ApiError;

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
        let shown = view::row(record);
        let scope = scope(reader, &shown.run_id, shown.client_id.as_deref());
        let at = record.end.as_ref().map_or_else(|| app.clock.now(), |end| end.at);
        let error = shown.error.as_ref();
        let data = opening_data(&RunStatusData {
            kind: EventKind::RunStatus.name().into(),
            run_id: shown.run_id.as_str().into(),
            number: shown.number,
            status: shown.status,
            started_at: None,
            finished_at: shown.finished_at.as_deref().map(Cow::from),
            reason: error.map(|error| error.message.as_str().into()),
            node_id: error.and_then(|error| error.node_id.as_deref()).map(Cow::from),
            error: error.map(|error| EventError {
                code: error.code.as_str().into(),
                message: error.message.as_str().into(),
            }),
        });
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
