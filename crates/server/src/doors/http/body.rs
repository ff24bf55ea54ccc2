//! The body of a request: bounded bytes, then JSON, then the type that is asked for.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, HeaderValue, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use protocol::error_code::ErrorCode;
use serde::de::DeserializeOwned;

use super::convert::range_words;
use crate::app::App;
use crate::wire_words::payload::{offset_of, path_at};
use crate::wire_words::problem::ApiError;

/// Limit: the body of one request.
pub(crate) const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Limit: the body of a request that holds a workflow.
const DEFINITION_BODY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Limit: how long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Limit: so much of a body that is too large is still taken in and thrown away: a peer that is cut
/// off in the middle of its sending would see a broken connection and not the answer.
const DISCARDED_BYTES_MAX: usize = 256 * 1024 * 1024;

/// The bytes of a body that says it is JSON.
pub(crate) struct JsonBytes(Bytes);

impl FromRequest<Arc<App>> for JsonBytes {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &Arc<App>) -> Result<Self, ApiError> {
        check_media_type(request.headers())?;
        Self::of(request.into_body(), BODY_BYTES_MAX).await
    }
}

impl JsonBytes {
    /// The whole body, if it arrives in time and is not too large.
    async fn of(body: Body, bytes_max: usize) -> Result<Self, ApiError> {
        let reading = read_bounded(body, bytes_max);
        let bytes = tokio::time::timeout(BODY_TIMEOUT, reading).await.map_err(|_| {
            let message = format!("the body did not arrive within {} s", BODY_TIMEOUT.as_secs());
            ApiError::new(ErrorCode::RequestTimeout, message)
        })??;
        Ok(Self(bytes))
    }

    /// The body as this type.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        self.try_read().map_err(|error| self.explain(&error))
    }

    /// A list is refused: serde would take it for the fields of an object, in their order.
    pub(crate) fn try_read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        if self.0.trim_ascii_start().first() == Some(&b'[') {
            return Err(serde::de::Error::custom("must be a JSON object, not a list"));
        }
        serde_json::from_slice(&self.0)
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// What is wrong with the body, by field where there is one.
    pub(crate) fn explain(&self, error: &serde_json::Error) -> ApiError {
        // An error that was not found while reading has no place, and begins at line 0.
        let place = match error.line() {
            0 => String::new(),
            line => format!(" at line {line} column {}", error.column()),
        };
        let text = error.to_string();
        let what = text.strip_suffix(&place).unwrap_or(&text);
        if !error.is_data() {
            let message = format!("the body is not JSON: {what}{place}");
            return ApiError::new(ErrorCode::RequestMalformed, message);
        }
        let path = path_at(&self.0, offset_of(&self.0, error.line(), error.column()));
        let field = if path.is_empty() { "the body" } else { &path };
        let range = range_words(&path).map(|range| format!(" ({range})")).unwrap_or_default();
        ApiError::new(ErrorCode::RequestInvalid, format!("{field}: {what}{range}{place}"))
    }
}

/// A body of this type.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, ApiError> {
        JsonBytes::from_request(request, app).await?.read().map(Self)
    }
}

/// A body that may be left out.
pub(crate) struct OptionalJson<T>(pub(crate) T);

impl<T: DeserializeOwned + Default> FromRequest<Arc<App>> for OptionalJson<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, ApiError> {
        if request.headers().contains_key(header::CONTENT_TYPE) {
            let bytes = JsonBytes::from_request(request, app).await?;
            return if bytes.0.is_empty() {
                Ok(Self(T::default()))
            } else {
                bytes.read().map(Self)
            };
        }
        let bytes = JsonBytes::of(request.into_body(), BODY_BYTES_MAX).await?;
        if bytes.0.is_empty() { Ok(Self(T::default())) } else { Err(no_media_type()) }
    }
}

/// A body that holds a workflow: larger than others, and JSON whatever a client like `curl -d`
/// declares when nobody told it.
pub(crate) struct DefinitionBytes(pub(crate) JsonBytes);

impl FromRequest<Arc<App>> for DefinitionBytes {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &Arc<App>) -> Result<Self, ApiError> {
        let is_form = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(FORM);
        if !request.headers().get(header::CONTENT_TYPE).is_none_or(is_form) {
            check_media_type(request.headers())?;
        }
        JsonBytes::of(request.into_body(), DEFINITION_BODY_BYTES_MAX).await.map(Self)
    }
}

/// A whole body that is JSON or will be taken for it, whatever it is declared as.
pub(super) async fn read_json(body: Body, bytes_max: usize) -> Result<Bytes, ApiError> {
    Ok(JsonBytes::of(body, bytes_max).await?.0)
}

/// What `curl -d` declares.
const FORM: &[u8] = b"application/x-www-form-urlencoded";

fn check_media_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let given = headers.get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap_or("?"));
    let essence = given.and_then(|value| value.split(';').next()).map(str::trim);
    match essence {
        Some(essence) if essence.eq_ignore_ascii_case("application/json") => Ok(()),
        Some(other) => Err(ApiError::new(
            ErrorCode::RequestMediaType,
            format!("the body is declared as `{other}`, not as application/json"),
        )),
        None => Err(no_media_type()),
    }
}

fn no_media_type() -> ApiError {
    ApiError::new(ErrorCode::RequestMediaType, "the body has no Content-Type")
}

/// Reads as much as may be read. Memory follows what arrived, never what a header promises.
async fn read_bounded(mut body: Body, bytes_max: usize) -> Result<Bytes, ApiError> {
    let Some(first) = next_data(&mut body).await? else { return Ok(Bytes::new()) };
    let mut whole: Option<BytesMut> = None;
    let mut length = first.len();
    while let Some(data) = next_data(&mut body).await? {
        length += data.len();
        if length > bytes_max {
            // What was read is freed before the rest is taken in.
            drop((first, whole));
            discard(&mut body).await;
            return Err(too_large(bytes_max));
        }
        whole.get_or_insert_with(|| BytesMut::from(first.as_ref())).extend_from_slice(&data);
    }
    if length > bytes_max {
        return Err(too_large(bytes_max));
    }
    Ok(whole.map_or(first, BytesMut::freeze))
}

async fn next_data(body: &mut Body) -> Result<Option<Bytes>, ApiError> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| {
            ApiError::new(ErrorCode::RequestMalformed, "the body ended before it was complete")
        })?;
        // Trailers say nothing that is asked for here.
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

async fn discard(body: &mut Body) {
    let mut discarded = 0;
    while discarded < DISCARDED_BYTES_MAX {
        match next_data(body).await {
            Ok(Some(data)) => discarded += data.len(),
            Ok(None) | Err(_) => return,
        }
    }
}

fn too_large(bytes_max: usize) -> ApiError {
    let message = format!("the body is larger than {} MiB", bytes_max / 1024 / 1024);
    ApiError::new(ErrorCode::RequestTooLarge, message)
}
