//! Events as bytes: what goes over the wire, made once and sent to all who read.

use std::borrow::Cow;
use std::io::Write;

use coordinator::RunEnd;
use model::{Timestamp, WorkerId};
use protocol::rest::events::{
    ENVELOPE_VERSION, EventError, EventKind, EventScope, NodeErrorData, NodeStatusData,
    ResultSnapshot, RunStatusData,
};
use protocol::rest::runs::RunStatus;
use serde::Serialize;
use serde_json::value::RawValue;

use shard::projection::{
    Content, ErrorNews, Event, News, ResultNews, RunNews, RunScope, StatusNews,
};

const REPLAYED: &[u8] = b",\"replayed\":true";
/// In front of what stands for events that nobody can tell any more.
const GAP: &[u8] = b",\"meta\":{\"gap\":true}";
const DATA: &[u8] = b",\"data\":";
const NO_ARTIFACTS: &str = "[]";

/// One event of a stream (`text/event-stream`).
#[derive(Debug)]
pub(super) struct Frame {
    bytes: Box<[u8]>,
    /// Where the mark of an event from the past goes in.
    mark_at: usize,
}

/// An envelope up to its data.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    version: &'a str,
    id: &'a str,
    r#type: &'a str,
    occurred_at: &'a str,
    scope: EventScope<'a>,
}

impl Frame {
    pub(super) fn of(event: &Event, id: u64, tenant: &str) -> Self {
        let worker = match &event.news {
            News::Status(news) => news.worker.as_ref(),
            News::Told(_, worker, _) => worker.as_ref(),
            News::Run(_) | News::Error(_) | News::Result(_) | News::Artifacts(_) => None,
        };
        let scope = scope(tenant, event.run.as_deref(), worker);
        let mut frame = Writer::new(event.frame_bytes_guess());
        frame.head(Some(id), event.kind(), event.at, &scope);
        frame.data(event);
        frame.finish()
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn write(&self, out: &mut Vec<u8>, is_replayed: bool) {
        if is_replayed {
            let (before, after) = self.bytes.split_at(self.mark_at);
            out.extend_from_slice(before);
            out.extend_from_slice(REPLAYED);
            out.extend_from_slice(after);
        } else {
            out.extend_from_slice(&self.bytes);
        }
    }
}

/// What a reader is told first, up to the data, which several readers may share. Without an id a
/// reader that loses its connection comes back as one that has not seen it.
pub(crate) fn opening_head(
    kind: EventKind,
    id: Option<u64>,
    scope: &EventScope<'_>,
    (at, is_gap): (Timestamp, bool),
) -> Vec<u8> {
    let mut writer = Writer::new(0);
    writer.head(id, kind, at, scope);
    writer.out.truncate(writer.mark_at);
    if is_gap {
        writer.out.extend_from_slice(GAP);
    }
    writer.out.extend_from_slice(DATA);
    writer.out
}

/// Data that can stand in an event: JSON without line breaks.
pub(crate) fn opening_data(data: &impl Serialize) -> Vec<u8> {
    let mut writer = Writer::new(0);
    writer.json(data);
    flatten(&mut writer.out);
    writer.out
}

/// Where a run stands, without when it began.
pub(crate) fn run_status<'a>(
    (run_id, number): (&'a str, u64),
    status: RunStatus,
    end: Option<&'a RunEnd>,
) -> RunStatusData<'a> {
    let failure = end.and_then(|end| end.failure.as_ref());
    RunStatusData {
        kind: EventKind::RunStatus.word().into(),
        run_id: run_id.into(),
        number,
        status,
        started_at: None,
        finished_at: end.map(|end| end.at.to_string().into()),
        reason: failure.map(|failure| failure.reason.as_str().into()),
        node_id: end.and_then(|end| end.node.as_deref()).map(Cow::from),
        error: failure.map(|failure| EventError {
            code: failure.code.as_str().into(),
            message: failure.reason.as_str().into(),
        }),
    }
}

/// What ends every event.
pub(crate) const FRAME_END: &[u8] = b"}\n\n";

fn scope<'a>(
    tenant: &'a str,
    run: Option<&'a RunScope>,
    worker: Option<&'a WorkerId>,
) -> EventScope<'a> {
    EventScope {
        tenant: tenant.into(),
        run_id: run.map(|scope| scope.run.to_string().into()),
        worker_name: worker.map(|worker| worker.as_str().into()),
        client_session_id: run.and_then(|scope| scope.client.as_deref()).map(Cow::from),
        client_instance_id: None,
    }
}

struct Writer {
    out: Vec<u8>,
    mark_at: usize,
}

impl Writer {
    fn new(n_bytes: usize) -> Self {
        Self { out: Vec::with_capacity(n_bytes), mark_at: 0 }
    }

    fn head(&mut self, id: Option<u64>, kind: EventKind, at: Timestamp, scope: &EventScope<'_>) {
        let name = kind.word();
        if let Some(id) = id {
            writeln!(self.out, "id: {id}").expect("a Vec takes everything");
        }
        write!(self.out, "event: {name}\ndata: ").expect("a Vec takes everything");
        let (id, at) = (id.map(|id| id.to_string()).unwrap_or_default(), at.to_string());
        self.json(&Head {
            version: ENVELOPE_VERSION,
            id: &id,
            r#type: name,
            occurred_at: &at,
            scope: scope.clone(),
        });
        let closing = self.out.pop();
        assert_eq!(closing, Some(b'}'), "an object ends with a brace");
        self.mark_at = self.out.len();
        self.out.extend_from_slice(DATA);
    }

    fn json(&mut self, value: &impl Serialize) {
        serde_json::to_writer(&mut self.out, value).expect("plain data; a Vec takes everything");
    }

    fn data(&mut self, event: &Event) {
        let run = event.run.as_ref().map(|scope| scope.run.to_string()).unwrap_or_default();
        match &event.news {
            News::Status(news) => self.status(&run, news),
            News::Run(news) => self.run(&run, event, news),
            News::Error(news) => self.error(&run, news),
            News::Result(news) => self.result(&run, news),
            // The list is split into events of their own before it comes here.
            News::Artifacts(_) => self.out.extend_from_slice(b"{}"),
            News::Told(_, _, json) => self.out.extend_from_slice(json.get().as_bytes()),
        }
    }

    fn status(&mut self, run: &str, news: &StatusNews) {
        self.json(&NodeStatusData {
            kind: EventKind::NodeStatus.word().into(),
            run_id: run.into(),
            node_id: news.step.id.to_string().into(),
            task_id: news.task.map(|task| task.to_string().into()),
            status: news.status,
            worker_name: news.worker.as_ref().map(|worker| worker.as_str().into()),
            attempt: news.attempt,
            frame: frame_of(news.step.frame),
            item: news.step.item,
            reused: news.is_reused,
        });
    }

    fn run(&mut self, run: &str, event: &Event, news: &RunNews) {
        let number = event.run.as_ref().map_or(0, |scope| scope.run.number());
        let status = run_status((run, number), news.status, news.end.as_deref());
        let started_at = news.started_at.map(|at| at.to_string().into());
        self.json(&RunStatusData { started_at, ..status });
    }

    fn error(&mut self, run: &str, news: &ErrorNews) {
        self.json(&NodeErrorData {
            kind: EventKind::NodeError.word().into(),
            run_id: run.into(),
            node_id: news.step.id.to_string().into(),
            task_id: news.task.map(|task| task.to_string().into()),
            error: EventError {
                code: news.failure.code.as_str().into(),
                message: news.failure.reason.as_str().into(),
            },
            attempt: news.attempt,
            will_retry: news.will_retry,
        });
    }

    fn result(&mut self, run: &str, news: &ResultNews) {
        let (content, summary) = match &news.content {
            Content::Here(bytes) => (raw(bytes).map(Cow::Borrowed), None),
            Content::TooLarge(n_bytes) => {
                let path = match news.task {
                    Some(task) => format!("/api/v1/tasks/{task}"),
                    None => format!("/api/v1/runs/{run}"),
                };
                (None, Some(format!("{n_bytes} bytes, too many to be told here: GET {path}")))
            }
        };
        let none: &RawValue = raw(NO_ARTIFACTS.as_bytes()).expect("a list");
        let artifacts = news.artifacts.as_ref().and_then(|bytes| raw(bytes)).unwrap_or(none);
        self.json(&ResultSnapshot {
            kind: EventKind::NodeResultSnapshot.word().into(),
            run_id: run.into(),
            node_id: news.step.id.to_string().into(),
            task_id: news.task.map(|task| task.to_string().into()),
            revision: news.revision,
            format: "json".into(),
            complete: content.is_some(),
            content,
            artifacts: Cow::Borrowed(artifacts),
            summary: summary.map(Cow::from),
            frame: frame_of(news.step.frame),
            item: news.step.item,
        });
    }

    fn finish(mut self) -> Frame {
        flatten(&mut self.out[self.mark_at..]);
        self.out.extend_from_slice(FRAME_END);
        Frame { bytes: self.out.into_boxed_slice(), mark_at: self.mark_at }
    }
}

/// A line break ends the data of an event. JSON that is passed on as it came may have some, but
/// only between its words, where a space says the same.
fn flatten(json: &mut [u8]) {
    for byte in json {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
}

/// Subgraphs have a number; the workflow itself has none.
fn frame_of(number: u32) -> Option<u32> {
    (number > 0).then_some(number)
}

/// JSON that was checked at the door.
fn raw(bytes: &[u8]) -> Option<&RawValue> {
    serde_json::from_slice(bytes).ok()
}
