//! Words between middlewares and the coordinator: calls of `next` and their answers.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use coordinator::{NextEnd, NodeWord};
use model::Failure;
use protocol::session::codec::OpenObject;
use protocol::session::frame::BusinessFrame;
use protocol::session::kind::{Payload, Vocabulary};
use protocol::session::payload::exec::{CodedError, NextRequest, NextResponse};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::answers::object;
use crate::sessions::Call;

/// A code and a sentence.
pub(super) type Words = (&'static str, &'static str);

pub(super) const NO_CALLER: Words =
    ("next_no_chain", "this worker holds no task that could have made the call");
pub(super) const LONG_NAME: Words =
    ("next_invalid_request", "requestId must be at most 256 characters");
pub(super) const BAD_PAYLOAD: Words =
    ("next_invalid_request", "payload, hostCtx and middlewareCtx must be objects with plain keys");

/// What is laid over the parameters of the next in line: the request's contexts, and its payload
/// over them. What is meant for the node itself goes to none of its middlewares.
pub(super) fn merged(request: &NextRequest, is_for_host: bool) -> Option<Bytes> {
    let host = request.host_ctx.as_ref().filter(|_| is_for_host);
    let parts = [request.middleware_ctx.as_ref(), host, request.payload.as_ref()];
    let mut given = parts.into_iter().flatten().filter(|part| **part != OpenObject::empty());
    let Some(first) = given.next() else { return Some(Bytes::new()) };
    let mut rest = given.peekable();
    if rest.peek().is_none() {
        return Some(Bytes::copy_from_slice(first.get().as_bytes()));
    }
    let mut merged: BTreeMap<Cow<'_, str>, &RawValue> = BTreeMap::new();
    for part in std::iter::once(first).chain(rest) {
        let keys: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(part.get()).ok()?;
        merged.extend(keys);
    }
    Some(Bytes::from(serde_json::to_vec(&merged).ok()?))
}

/// What a middleware hears of the next in line.
pub(super) fn answer(call: &Call, end: &NextEnd) -> NextResponse {
    let failed = |code: &str, message: &str| response(call, None, Some(coded(code, message)), None);
    match end {
        NextEnd::Succeeded(result) => response(call, Some(object(result)), None, None),
        NextEnd::Ended { word, failure, result } => {
            let (code, status, silence) = ended(*word);
            let message = failure.as_ref().map_or(silence, |failure| failure.reason.as_str());
            let result = result.as_ref().map(|result| object(result));
            let trace = trace(status, failure.as_ref());
            response(call, result, Some(coded(code, message)), trace)
        }
        NextEnd::TimedOut => {
            failed("next_timeout", "the next in line did not come to its end in time")
        }
        NextEnd::AskedAgain => {
            failed("next_asked_again", "the same call was made again, and is answered there")
        }
        NextEnd::NotAllowed { code, reason } => failed(code, reason),
    }
}

fn coded(code: &str, message: &str) -> CodedError {
    CodedError { code: code.to_owned(), message: message.to_owned() }
}

/// The code, the word for the status, and a sentence where nobody gave one.
fn ended(word: NodeWord) -> (&'static str, &'static str, &'static str) {
    match word {
        // A good end is told as such, so only a bad one is told here.
        NodeWord::Succeeded | NodeWord::Failed => {
            ("next_failed", "failed", "the next in line failed")
        }
        NodeWord::Skipped | NodeWord::Blocked => {
            ("next_skipped", "skipped", "the next in line was skipped")
        }
        NodeWord::Cancelled => ("next_cancelled", "cancelled", "the next in line was cancelled"),
    }
}

/// How it went, for a middleware that passes the failure on.
fn trace(status: &'static str, failure: Option<&Failure>) -> Option<OpenObject> {
    #[derive(Serialize)]
    struct Trace<'a> {
        status: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<&'a str>,
    }
    let trace = Trace { status, code: failure.map(|failure| failure.code.as_str()) };
    OpenObject::new(to_raw_value(&trace).ok()?)
}

fn response(
    call: &Call,
    result: Option<OpenObject>,
    error: Option<CodedError>,
    trace: Option<OpenObject>,
) -> NextResponse {
    NextResponse {
        request_id: call.request.to_string(),
        run_id: call.run_id.clone(),
        node_id: call.node_id.clone(),
        middleware_id: call.middleware_id.clone(),
        result,
        error,
        trace,
    }
}

/// The result is there, but no frame can carry it.
pub(super) fn too_large(call: &Call) -> NextResponse {
    let message = "the result of the next in line is larger than a frame may be; \
                   leave large data as a resource, and return its name";
    let failure = Failure::new("E.RESULT.TOO_LARGE", "");
    response(call, None, Some(coded("next_failed", message)), trace("failed", Some(&failure)))
}

/// A request that cannot become a call.
pub(super) fn refusal(request: &NextRequest, (code, message): Words) -> NextResponse {
    NextResponse {
        request_id: request.request_id.clone(),
        run_id: request.run_id.clone(),
        node_id: request.node_id.clone(),
        middleware_id: request.middleware_id.clone(),
        result: None,
        error: Some(coded(code, message)),
        trace: None,
    }
}

/// The frame of an answer.
pub(super) fn frame(response: &NextResponse, vocabulary: Vocabulary) -> BusinessFrame {
    let name = |chars_max| response.request_id.chars().take(chars_max).collect::<String>();
    let payload = Payload::NextResponse(response.clone());
    BusinessFrame::saying(&payload, vocabulary, format!("next-{}", name(200)), name(256))
}

#[cfg(test)]
mod tests;
