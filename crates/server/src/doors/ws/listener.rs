//! A request becomes a socket; its frames go to the log.

use std::sync::Arc;

use aws_lc_rs::digest;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use protocol::error_code::ErrorCode;
use protocol::session::envelope::Envelope;

use super::connection::Connection;
use super::wire::Wire;
use crate::app::App;
use crate::wire_words::problem::ApiError;

/// Limit: WebSocket connections at the same time; a further one is refused.
pub(crate) const WS_CONNECTIONS_MAX: usize = 20_000;

/// What every server adds to the client's key, by RFC 6455.
const KEY_SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The path where the HTTP door hands a connection over to this one.
pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new().route("/ws/worker", get(worker))
}

async fn worker(State(app): State<Arc<App>>, mut request: Request) -> Response {
    let answer = match answer(request.headers()) {
        Ok(answer) => answer,
        Err(refusal) => return refusal.into_response(),
    };
    let Ok(permit) = Arc::clone(&app.ws_room).try_acquire_owned() else {
        let message = format!("{WS_CONNECTIONS_MAX} workers are connected already");
        return ApiError::new(ErrorCode::LimitOverloaded, message).into_response();
    };
    let upgrade = hyper::upgrade::on(&mut request);
    let tracker = app.connections.clone();
    tracker.spawn(async move {
        let _permit = permit;
        if let Ok(upgraded) = upgrade.await {
            Connection::new(app, Wire::new(upgraded)).run().await;
        }
    });
    answer
}

/// The answer that opens the socket, or why there is none.
fn answer(headers: &HeaderMap) -> Result<Response, ApiError> {
    if headers.contains_key(header::ORIGIN) {
        // Only browsers send it, and no browser is a worker: a page must not become one.
        let message = "a web page may not be a worker";
        return Err(ApiError::new(ErrorCode::AuthHost, message));
    }
    let has = |name: header::HeaderName, word: &str| {
        let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|one| one.trim().eq_ignore_ascii_case(word))
    };
    if !has(header::CONNECTION, "upgrade") || !has(header::UPGRADE, "websocket") {
        let message = "this path speaks WebSocket alone";
        return Err(ApiError::new(ErrorCode::RequestInvalid, message)
            .with_hint("start a worker with `astra worker start`"));
    }
    let key =
        headers.get(header::SEC_WEBSOCKET_KEY).filter(|_| has(header::SEC_WEBSOCKET_VERSION, "13"));
    let Some(key) = key else {
        let message = "the request has no Sec-WebSocket-Key, or another version than 13";
        return Err(ApiError::new(ErrorCode::RequestInvalid, message));
    };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept_of(key.as_bytes()));
    Ok(response)
}

fn accept_of(key: &[u8]) -> HeaderValue {
    let mut context = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    context.update(key);
    context.update(KEY_SUFFIX.as_bytes());
    let text = BASE64.encode(context.finish());
    HeaderValue::from_str(&text).expect("letters of base64")
}

/// A frame came or goes. What it says stays out of the log: it may be anyone's secret.
pub(super) fn log_frame(direction: &'static str, frame: &Envelope) {
    tracing::debug!(
        tenant = &*frame.tenant,
        "sender.id" = &*frame.sender.id,
        "type" = &*frame.kind,
        id = frame.id,
        corr = frame.corr,
        seq = frame.seq,
        session_seq = frame.session_seq,
        "ack.request" = frame.ack.as_ref().and_then(|ack| ack.request),
        direction,
        "frame"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_a_key_is_that_of_the_standard() {
        assert_eq!(accept_of(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
