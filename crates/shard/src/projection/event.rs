//! One event, as data: cheap to make in a turn. The server renders it when somebody reads it.

use std::sync::Arc;

use bytes::Bytes;
use coordinator::RunEnd;
use model::{Failure, NodeLink, RunId, TaskId, Timestamp, WorkerId};
use protocol::rest::events::{EventKind, NodeStatusWord};
use protocol::rest::runs::RunStatus;
use serde_json::value::RawValue;
use uuid::Uuid;

/// Limit: a result up to this size is told with its event; a larger one only by its size.
pub const RESULT_BYTES_MAX: usize = 64 * 1024;
/// What the JSON of an event without a payload takes, roughly.
const FRAME_BYTES: usize = 480;

/// The run that an event is about.
#[derive(Debug)]
pub struct RunScope {
    pub run: RunId,
    /// The browser or program that started it.
    pub client: Option<Box<str>>,
}

/// Something that happened.
#[derive(Debug)]
pub struct Event {
    pub at: Timestamp,
    /// The run that it is about, if it is about one.
    pub run: Option<Arc<RunScope>>,
    pub news: News,
}

/// What happened.
#[derive(Debug)]
pub enum News {
    /// A run began or came to its end.
    Run(Box<RunNews>),
    /// A node moved on.
    Status(StatusNews),
    /// An attempt failed.
    Error(Box<ErrorNews>),
    /// A node gave something.
    Result(Box<ResultNews>),
    /// A node left things behind.
    Artifacts(Box<ArtifactsNews>),
    /// What is JSON already; its worker, where it is about one.
    Told(EventKind, Option<WorkerId>, Box<RawValue>),
}

#[derive(Debug)]
pub struct RunNews {
    pub status: RunStatus,
    pub started_at: Option<Timestamp>,
    pub end: Option<Box<RunEnd>>,
}

/// Which step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// The author's id of the node, or of the middleware.
    pub id: Uuid,
    pub frame: u32,
    pub item: Option<u32>,
}

#[derive(Debug)]
pub struct StatusNews {
    pub step: Step,
    pub task: Option<TaskId>,
    pub worker: Option<WorkerId>,
    pub attempt: u32,
    pub status: NodeStatusWord,
    pub is_reused: bool,
}

#[derive(Debug)]
pub struct ErrorNews {
    pub step: Step,
    pub task: Option<TaskId>,
    pub attempt: u32,
    pub will_retry: bool,
    pub failure: Failure,
}

#[derive(Debug)]
pub struct ResultNews {
    pub step: Step,
    pub task: Option<TaskId>,
    pub revision: u32,
    pub content: Content,
    pub artifacts: Option<Bytes>,
}

/// What a node gave.
#[derive(Debug)]
pub enum Content {
    /// The JSON.
    Here(Bytes),
    /// It is too large to be told; so many bytes.
    TooLarge(usize),
}

#[derive(Debug)]
pub struct ArtifactsNews {
    pub step: Step,
    pub task: Option<TaskId>,
    /// A JSON list, or whatever else the worker sent.
    pub list: Bytes,
}

impl Step {
    pub fn of(link: &NodeLink) -> Self {
        Self { id: link.step_id, frame: link.frame, item: link.item }
    }
}

impl Event {
    pub fn new(at: Timestamp, run: Option<Arc<RunScope>>, news: News) -> Self {
        Self { at, run, news }
    }

    pub fn kind(&self) -> EventKind {
        match &self.news {
            News::Run(_) => EventKind::RunStatus,
            News::Status(_) => EventKind::NodeStatus,
            News::Error(_) => EventKind::NodeError,
            News::Result(_) => EventKind::NodeResultSnapshot,
            News::Artifacts(_) => EventKind::ArtifactReady,
            News::Told(kind, ..) => *kind,
        }
    }

    /// What it takes in memory beside itself and its JSON.
    pub fn bytes(&self) -> usize {
        let failure = |failure: &Failure| failure.code.len() + failure.reason.len();
        match &self.news {
            News::Status(_) => 0,
            News::Run(run) => {
                let failed = run.end.as_ref().and_then(|end| end.failure.as_ref());
                failed.map_or(0, failure) + size_of::<RunNews>() + size_of::<RunEnd>()
            }
            News::Error(error) => failure(&error.failure) + size_of::<ErrorNews>(),
            News::Result(result) => result.payload_bytes() + size_of::<ResultNews>(),
            News::Artifacts(news) => news.list.len() + size_of::<ArtifactsNews>(),
            News::Told(_, _, json) => json.get().len(),
        }
    }

    /// What its JSON takes, roughly.
    pub fn frame_bytes_guess(&self) -> usize {
        let payload = match &self.news {
            News::Status(_) | News::Run(_) => 0,
            News::Error(error) => error.failure.reason.len(),
            News::Result(result) => result.payload_bytes(),
            News::Artifacts(news) => news.list.len(),
            News::Told(_, _, json) => json.get().len(),
        };
        FRAME_BYTES + payload
    }
}

impl ResultNews {
    fn payload_bytes(&self) -> usize {
        let content = match &self.content {
            Content::Here(bytes) => bytes.len(),
            Content::TooLarge(_) => 0,
        };
        content + self.artifacts.as_ref().map_or(0, Bytes::len)
    }
}
