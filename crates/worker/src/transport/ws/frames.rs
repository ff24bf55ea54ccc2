//! The business frames that a worker sends.
//!
//! How things travel that the schemas have no key for: whether another attempt could help stands
//! in `metadata.retryable` of a failed result; a result that is no object stands in `value` of
//! one; the place of a chunk stands in `metadata.offset` of the chunk.

use std::borrow::Cow;
use std::time::Duration;

use protocol::session::codec::{FRAME_BYTES_MAX, OpenObject};
use protocol::session::frame::BusinessFrame;
use protocol::session::kind::{Kind, Payload};
use protocol::session::payload::exec::{
    ErrorContext, ExecError, ExecResult, Feedback, NextRequest, ResultError, ResultStatus,
};
use protocol::session::payload::resource::ResourceChunk;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::core::executor::{CANCELLED, Extra, Outcome};
use crate::core::feedback::Batch;
use crate::core::in_flight::LeasedTask;

/// The largest result; around it an envelope must fit into a frame.
pub(crate) const RESULT_BYTES_MAX: usize = FRAME_BYTES_MAX - 16 * 1024;
/// The largest details of a failure; beside them its code and its sentence must fit.
const DETAILS_BYTES_MAX: usize = RESULT_BYTES_MAX - 64 * 1024;
/// The longest sentence about a failure.
const REASON_CHARS_MAX: usize = 4096;
/// A result that no frame can carry.
const TOO_LARGE: &str = "E.RESULT.TOO_LARGE";
/// How a scheduler of the older kind names its dispatches. It finds the node of an error and of
/// feedback by the task, where ours finds the attempt by its lease.
const OTHERS_DISPATCH: &str = "biz.exec.dispatch-";

/// Names the frames of a process.
#[derive(Debug, Default)]
pub(crate) struct Namer(u64);

impl Namer {
    fn frame(&mut self, payload: &Payload, corr: &str, seq: Option<u64>) -> BusinessFrame {
        let (kind, payload) = payload.encode();
        let id = format!("{}-{}", kind.name(), self.0);
        self.0 += 1;
        BusinessFrame {
            kind: Cow::Borrowed(kind.name()),
            id,
            corr: Some(corr.to_owned()),
            seq,
            // Feedback and chunks are only counted: nobody asks for a word about each piece.
            wants_ack: !matches!(kind, Kind::ExecFeedback | Kind::ResourceReadChunk),
            payload,
        }
    }

    /// How a task ended.
    pub(crate) fn result(
        &mut self,
        leased: &LeasedTask,
        outcome: Outcome,
        duration: Duration,
    ) -> BusinessFrame {
        let frame = self.result_of_any_size(leased, within_a_frame(outcome), duration);
        let bytes = frame.payload.get().len();
        if bytes <= RESULT_BYTES_MAX {
            return frame;
        }
        let why = format!(
            "the result has {bytes} bytes, and {RESULT_BYTES_MAX} is the most that can be sent; \
             put large data where the next task finds it, and return its name"
        );
        self.result_of_any_size(leased, Outcome::hopeless(TOO_LARGE, why), duration)
    }

    fn result_of_any_size(
        &mut self,
        leased: &LeasedTask,
        outcome: Outcome,
        duration: Duration,
    ) -> BusinessFrame {
        let mut artifacts = None;
        let (status, result, error, metadata) = match outcome {
            Outcome::Completed { result, extra } => {
                let Extra { is_skipped, artifacts: left } =
                    extra.map(|extra| *extra).unwrap_or_default();
                artifacts = (!left.is_empty()).then_some(left);
                let skipped = is_skipped.then_some(ResultStatus::Skipped);
                let status = skipped.unwrap_or(ResultStatus::Succeeded);
                (status, as_object(result), None, None)
            }
            Outcome::Failed { code, reason, .. } if code == CANCELLED => {
                let error = ResultError { code, message: cut(&reason), remediation: None };
                (ResultStatus::Cancelled, OpenObject::empty(), Some(error), None)
            }
            Outcome::Failed { code, reason, retryable, details } => {
                let error = ResultError { code, message: cut(&reason), remediation: None };
                let metadata = open(&json!({ "retryable": retryable }));
                let details = details.map_or_else(OpenObject::empty, as_object);
                (ResultStatus::Failed, details, Some(error), metadata)
            }
        };
        let result = ExecResult {
            run_id: leased.run_id.clone(),
            task_id: leased.task_id.clone(),
            status,
            result,
            duration_ms: Some(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)),
            metadata,
            artifacts,
            error,
        };
        self.frame(&Payload::ExecResult(result), &leased.lease_id, leased.seq)
    }

    /// A middleware calls the next in line.
    pub(crate) fn next(&mut self, leased: &LeasedTask, request: &NextRequest) -> BusinessFrame {
        self.frame(&Payload::NextRequest(request.clone()), corr(leased), None)
    }

    /// A part of a resource.
    pub(crate) fn chunk(&mut self, chunk: ResourceChunk) -> BusinessFrame {
        let corr = chunk.request_id.clone();
        self.frame(&Payload::ResourceReadChunk(chunk), &corr, None)
    }

    /// Why a dispatch is not done.
    pub(crate) fn error(
        &mut self,
        leased: &LeasedTask,
        code: &str,
        message: &str,
    ) -> BusinessFrame {
        let LeasedTask { run_id, task_id, node_id, lease_id, .. } = leased;
        let details = json!({
            "run_id": run_id, "task_id": task_id, "node_id": node_id, "lease_id": lease_id,
        });
        let context = ErrorContext { place: Some("worker".into()), details: open(&details) };
        let error = ExecError {
            code: code.into(),
            message: message.into(),
            remediation: None,
            context: Some(context),
        };
        self.frame(&Payload::ExecError(error), corr(leased), leased.seq)
    }

    /// How a task fares.
    pub(crate) fn feedback(&mut self, leased: &LeasedTask, batch: Batch) -> BusinessFrame {
        let Batch { status, chunks } = batch;
        let feedback = Feedback {
            run_id: leased.run_id.clone(),
            task_id: leased.task_id.clone(),
            stage: status.stage,
            progress: status.progress,
            message: status.message,
            chunks: (!chunks.is_empty()).then_some(chunks),
            metrics: (!status.metrics.is_empty()).then_some(status.metrics),
            metadata: None,
        };
        self.frame(&Payload::ExecFeedback(feedback), corr(leased), None)
    }
}

/// Details that no frame can carry are left out: that it failed, and why, counts more.
fn within_a_frame(mut outcome: Outcome) -> Outcome {
    if let Outcome::Failed { details, .. } = &mut outcome
        && details.as_ref().is_some_and(|details| details.get().len() > DETAILS_BYTES_MAX)
    {
        tracing::warn!("the details of a failure are too large to be sent, and are left out");
        *details = None;
    }
    outcome
}

fn cut(reason: &str) -> String {
    reason.chars().take(REASON_CHARS_MAX).collect()
}

fn corr(leased: &LeasedTask) -> &str {
    if leased.lease_id.starts_with(OTHERS_DISPATCH) { &leased.task_id } else { &leased.lease_id }
}

/// Results are objects on the wire. Nothing becomes an empty one, anything else is wrapped.
fn as_object(result: Box<RawValue>) -> OpenObject {
    if result.get() == "null" {
        return OpenObject::empty();
    }
    if result.get().starts_with('{') {
        return OpenObject::new(result).expect("it starts like an object");
    }
    let wrapped = format!("{{\"value\":{}}}", result.get());
    let wrapped = RawValue::from_string(wrapped).expect("JSON in an object is JSON");
    OpenObject::new(wrapped).expect("it is an object")
}

fn open(value: &serde_json::Value) -> Option<OpenObject> {
    OpenObject::new(to_raw_value(value).ok()?)
}
