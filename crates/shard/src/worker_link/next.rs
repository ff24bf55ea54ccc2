//! Words between middlewares and the coordinator: calls of `next` and their answers.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use coordinator::{NextEnd, NodeWord};
use model::Failure;
use protocol::session::codec::OpenObject;
use protocol::session::frame::BusinessFrame;
use protocol::session::kind::{Kind, Vocabulary};
use protocol::session::payload::Payload;
use protocol::session::payload::exec::{CodedError, NextRequest, NextResponse};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::answers::object;
use crate::sessions::Call;

/// A code and a sentence.
pub(super) type Words = (&'static str, &'static str);
/// An answer, ready to be sent.
pub(super) type Response = NextResponse;

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
pub(super) fn answer(call: &Call, end: &NextEnd) -> Response {
    match end {
        NextEnd::Succeeded(result) => response(call, Some(object(result)), None, None),
        NextEnd::Ended { word, failure, result } => {
            let (code, status, silence) = ended(*word);
            let message = failure.as_ref().map_or(silence, |failure| failure.reason.as_str());
            let error = CodedError { code: code.to_owned(), message: message.to_owned() };
            let result = result.as_ref().map(|result| object(result));
            response(call, result, Some(error), trace(status, failure.as_ref()))
        }
        NextEnd::TimedOut => {
            let message = "the next in line did not come to its end in time".to_owned();
            let error = CodedError { code: "next_timeout".to_owned(), message };
            response(call, None, Some(error), None)
        }
        NextEnd::AskedAgain => {
            let message = "the same call was made again, and is answered there".to_owned();
            let error = CodedError { code: "next_asked_again".to_owned(), message };
            response(call, None, Some(error), None)
        }
        NextEnd::NotAllowed { code, reason } => {
            let error = CodedError { code: (*code).to_owned(), message: (*reason).to_owned() };
            response(call, None, Some(error), None)
        }
    }
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
) -> Response {
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
pub(super) fn too_large(call: &Call) -> Response {
    let message = "the result of the next in line is larger than a frame may be; \
                   leave large data as a resource, and return its name";
    let error = CodedError { code: "next_failed".to_owned(), message: message.to_owned() };
    let failure = Failure::new("E.RESULT.TOO_LARGE", "");
    response(call, None, Some(error), trace("failed", Some(&failure)))
}

/// A request that cannot become a call.
pub(super) fn refusal(request: &NextRequest, (code, message): Words) -> Response {
    NextResponse {
        request_id: request.request_id.clone(),
        run_id: request.run_id.clone(),
        node_id: request.node_id.clone(),
        middleware_id: request.middleware_id.clone(),
        result: None,
        error: Some(CodedError { code: code.to_owned(), message: message.to_owned() }),
        trace: None,
    }
}

/// The frame of an answer.
pub(super) fn frame(response: &Response, vocabulary: Vocabulary) -> BusinessFrame {
    let payload = Payload::NextResponse(response.clone());
    let request_id = &response.request_id;
    BusinessFrame {
        kind: Cow::Borrowed(Kind::NextResponse.name()),
        id: format!("next-{}", request_id.chars().take(200).collect::<String>()),
        corr: Some(request_id.chars().take(256).collect()),
        seq: None,
        wants_ack: false,
        payload: payload.encode_for(vocabulary).1,
    }
}

#[cfg(test)]
mod tests;
