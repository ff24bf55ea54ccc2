//! What a request carries: the names in its path, its query, and its body: bounded bytes, then JSON,
//! then the type that is asked for.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use model::{InvalidText, RunId, ShardId, TaskId};
use protocol::error_code::ErrorCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::convert::{NumberRange, PAGE_LIMIT, PAGE_OFFSET, range_words, text};
use crate::app::App;
use crate::runs::start;
use crate::wire_words::payload::{offset_of, path_at};
use crate::wire_words::problem::ApiError;

/// The names in a path, as they were sent. Text that is not UTF-8 names nothing, as empty text.
pub(super) struct PathNames<T>(T);

/// The one name in a path.
pub(super) type PathName = PathNames<String>;
/// The two names in a path: a run and one of its nodes.
pub(super) type RunNodePath = PathNames<(String, String)>;

impl<T: DeserializeOwned + Default + Send> FromRequestParts<Arc<App>> for PathNames<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        let names = Path::<T>::from_request_parts(parts, app).await;
        Ok(Self(names.map(|Path(names)| names).unwrap_or_default()))
    }
}

impl PathName {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// The task of this shard that the path names.
    pub(super) fn task(&self, shard: ShardId) -> Result<TaskId, ApiError> {
        let task: TaskId = self.0.parse().map_err(|_| ApiError::no_such_task())?;
        if task.shard() == shard { Ok(task) } else { Err(ApiError::no_such_task()) }
    }

    /// The run of this shard that the path names, by its id or its number.
    pub(super) fn run(&self, shard: ShardId) -> Result<RunId, ApiError> {
        start::by_name(&self.0, shard).ok_or_else(ApiError::no_such_run)
    }
}

impl RunNodePath {
    /// The run, and the id of the node, which may still be none of its nodes.
    pub(super) fn run_and_node(&self, shard: ShardId) -> Result<(RunId, Uuid), ApiError> {
        let (run, node) = &self.0;
        let run = start::by_name(run, shard).ok_or_else(ApiError::no_such_run)?;
        Ok((run, Uuid::try_parse(node).map_err(|_| ApiError::no_such_node(node))?))
    }
}

/// The pairs behind the question mark; each must be taken by name.
pub(super) struct QueryPairs(Vec<(String, String)>);

impl FromRequestParts<Arc<App>> for QueryPairs {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, ApiError> {
        let pairs = Query::try_from_uri(&parts.uri).map_err(|_| {
            ApiError::new(ErrorCode::RequestInvalid, "the query is not `name=value&...`")
        })?;
        Ok(Self(pairs.0))
    }
}

impl QueryPairs {
    /// Refuses names that are not asked for: a typing error must not silently widen a list.
    pub(super) fn only(self, names: &[&str]) -> Result<Self, ApiError> {
        match self.0.iter().find(|(name, _)| !names.contains(&name.as_str())) {
            None => Ok(self),
            Some((stranger, _)) => Err(ApiError::invalid(
                format_args!("query parameter `{stranger}`"),
                format_args!("is not known here; known: {}", names.join(", ")),
            )),
        }
    }

    /// All of them, for whoever takes what comes.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Every value of this name; an empty one counts as absent.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let of_name = move |pair: &&(String, String)| pair.0 == name && !pair.1.is_empty();
        self.0.iter().filter(of_name).map(|(_, value)| value.as_str())
    }

    pub(super) fn first(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|pair| pair.0 == name && !pair.1.is_empty()).map(|pair| pair.1.as_str())
    }

    /// The value of this name, as a type that checks its text.
    pub(super) fn text<T>(&self, name: &str) -> Result<Option<T>, ApiError>
    where
        T: FromStr<Err = InvalidText>,
    {
        self.first(name).map(|value| text(&"", value)).transpose()
    }

    /// Yes or no, if it is given.
    pub(super) fn flag(&self, name: &str, rule: &str) -> Result<Option<bool>, ApiError> {
        match self.first(name) {
            None => Ok(None),
            Some("1" | "true") => Ok(Some(true)),
            Some("0" | "false") => Ok(Some(false)),
            Some(other) => Err(ApiError::invalid(format_args!("{name} is `{other}`;"), rule)),
        }
    }

    /// How many are passed over, and how many are shown after them.
    pub(super) fn page(&self, limit_default: i64) -> Result<(usize, usize), ApiError> {
        let skip = self.number(PAGE_OFFSET)?.unwrap_or(0);
        let limit = self.number(PAGE_LIMIT)?.unwrap_or(limit_default);
        let whole = |number: i64| usize::try_from(number).unwrap_or(usize::MAX);
        Ok((whole(skip), whole(limit)))
    }

    /// A number of this name, if it is given.
    pub(super) fn number(&self, range: NumberRange) -> Result<Option<i64>, ApiError> {
        self.first(range.name()).map(|value| range.parse(value)).transpose()
    }
}

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
    pub(crate) fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, ApiError> {
        self.try_read().map_err(|error| self.explain(&error))
    }

    /// A list is refused: serde would take it for the fields of an object, in their order.
    pub(crate) fn try_read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
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

    async fn from_request(request: Request, _: &Arc<App>) -> Result<Self, ApiError> {
        let is_declared = request.headers().contains_key(header::CONTENT_TYPE);
        if is_declared {
            check_media_type(request.headers())?;
        }
        let bytes = JsonBytes::of(request.into_body(), BODY_BYTES_MAX).await?;
        match (bytes.0.is_empty(), is_declared) {
            (true, _) => Ok(Self(T::default())),
            (false, true) => bytes.read().map(Self),
            (false, false) => Err(no_media_type()),
        }
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
