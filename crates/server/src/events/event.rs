//! One event, as it is kept: cheap to make, and JSON only when somebody reads it.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use coordinator::RunEnd;
use model::{Failure, NodeLink, RunId, TaskId, Timestamp, WorkerId};
use protocol::rest::events::{EventKind, NodeStatusWord};
use protocol::rest::runs::RunStatus;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::frame::Frame;

/// What the JSON of an event without a payload takes, roughly.
const FRAME_BYTES: usize = 480;

/// The run that an event is about.
#[derive(Debug)]
pub(crate) struct RunScope {
    pub(crate) run: RunId,
    /// The browser or program that started it.
    pub(crate) client: Option<Box<str>>,
}

/// Something that happened.
#[derive(Debug)]
pub(crate) struct Event {
    pub(super) at: Timestamp,
    /// The run that it is about, if it is about one.
    pub(super) run: Option<Arc<RunScope>>,
    pub(super) news: News,
    /// Made once, when the first reader wants it.
    pub(super) frame: OnceLock<Frame>,
}

/// What happened.
#[derive(Debug)]
pub(super) enum News {
    /// A run began or came to its end.
    Run(Box<RunNews>),
    /// A node moved on.
    Status(StatusNews),
    /// An attempt failed.
    Error(Box<ErrorNews>),
    /// A node gave something.
    Result(Box<ResultNews>),
    /// A node left something behind.
    Artifact(Box<ArtifactNews>),
    /// What is JSON already; its worker, where it is about one.
    Told(EventKind, Option<WorkerId>, Box<RawValue>),
}

#[derive(Debug)]
pub(super) struct RunNews {
    pub(super) status: RunStatus,
    pub(super) started_at: Option<Timestamp>,
    pub(super) end: Option<Box<RunEnd>>,
}

/// Which step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Step {
    /// The author's id of the node, or of the middleware.
    pub(super) id: Uuid,
    pub(super) frame: u32,
    pub(super) item: Option<u32>,
}

#[derive(Debug)]
pub(super) struct StatusNews {
    pub(super) step: Step,
    pub(super) task: Option<TaskId>,
    pub(super) worker: Option<WorkerId>,
    pub(super) attempt: u32,
    pub(super) status: NodeStatusWord,
    pub(super) is_reused: bool,
}

#[derive(Debug)]
pub(super) struct ErrorNews {
    pub(super) step: Step,
    pub(super) task: Option<TaskId>,
    pub(super) attempt: u32,
    pub(super) will_retry: bool,
    pub(super) failure: Failure,
}

#[derive(Debug)]
pub(super) struct ResultNews {
    pub(super) step: Step,
    pub(super) task: Option<TaskId>,
    pub(super) revision: u32,
    pub(super) content: Content,
    pub(super) artifacts: Option<Bytes>,
}

/// What a node gave.
#[derive(Debug)]
pub(super) enum Content {
    /// The JSON.
    Here(Bytes),
    /// It is too large to be told; so many bytes.
    TooLarge(usize),
}

#[derive(Debug)]
pub(super) struct ArtifactNews {
    pub(super) step: Step,
    pub(super) task: Option<TaskId>,
    pub(super) artifact: Box<RawValue>,
}

impl Step {
    pub(super) fn of(link: &NodeLink) -> Self {
        Self { id: link.step_id, frame: link.frame, item: link.item }
    }
}

impl Event {
    pub(super) fn new(at: Timestamp, run: Option<Arc<RunScope>>, news: News) -> Self {
        Self { at, run, news, frame: OnceLock::new() }
    }

    pub(super) fn kind(&self) -> EventKind {
        match &self.news {
            News::Run(_) => EventKind::RunStatus,
            News::Status(_) => EventKind::NodeStatus,
            News::Error(_) => EventKind::NodeError,
            News::Result(_) => EventKind::NodeResultSnapshot,
            News::Artifact(_) => EventKind::ArtifactReady,
            News::Told(kind, ..) => *kind,
        }
    }

    /// What it takes in memory beside itself and its JSON.
    pub(super) fn bytes(&self) -> usize {
        let failure = |failure: &Failure| failure.code.len() + failure.reason.len();
        match &self.news {
            News::Status(_) => 0,
            News::Run(run) => {
                let failed = run.end.as_ref().and_then(|end| end.failure.as_ref());
                failed.map_or(0, failure) + size_of::<RunNews>() + size_of::<RunEnd>()
            }
            News::Error(error) => failure(&error.failure) + size_of::<ErrorNews>(),
            News::Result(result) => result.payload_bytes() + size_of::<ResultNews>(),
            News::Artifact(news) => news.artifact.get().len() + size_of::<ArtifactNews>(),
            News::Told(_, _, json) => json.get().len(),
        }
    }

    /// What its JSON takes, roughly.
    pub(super) fn frame_bytes_guess(&self) -> usize {
        let payload = match &self.news {
            News::Status(_) | News::Run(_) => 0,
            News::Error(error) => error.failure.reason.len(),
            News::Result(result) => result.payload_bytes(),
            News::Artifact(news) => news.artifact.get().len(),
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
