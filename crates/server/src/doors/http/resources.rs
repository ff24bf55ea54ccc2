//! Resources: what workers keep, and its bytes.

use std::collections::BTreeSet;
use std::ops::Range;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use model::WorkerId;
use protocol::error_code::ErrorCode;
use protocol::rest::resources::{Resource, ResourcePage};
use serde::Deserialize;
use shard::report_key::digest_of;
use shard::sessions::SessionView;

use super::auth_layer::Context;
use super::convert::RUNS_LIMIT;
use super::request::{PathName, QueryPairs};
use super::runs::limit_of;
use crate::app::App;
use crate::handle::ShardHandle;
use crate::resources::{Known, Source};
use crate::wire_words::problem::{Answer, ApiError, ok};

/// List resources
///
/// What the workers keep, by what they said last. A resource is gone when its time is over or its
/// worker is short of room.
#[utoipa::path(
    get, path = "/api/v1/resources", operation_id = "list_resources",
    params(
        ("limit" = Option<i64>, Query, description = "At most so many. Default 50, at most 200."),
        ("cursor" = Option<String>, Query, description = "The `nextCursor` of the page before."),
        ("workerName" = Option<String>, Query, description = "Only of this worker."),
        ("type" = Option<String>, Query, description = "Only of this type."),
        ("scope" = Option<String>, Query, description = "Only of this scope.")
    ),
    responses((status = 200, body = ResourcePage, description = "By name."))
)]
pub(super) async fn list(Context { app, handle, .. }: Context, query: QueryPairs) -> Answer {
    let query = query.only(&["limit", "cursor", "workerName", "type", "scope"])?;
    let limit = usize::try_from(limit_of(&query, RUNS_LIMIT)?).unwrap_or(usize::MAX);
    let is_meant = |known: &Known| {
        query.first("workerName").is_none_or(|name| known.worker.as_str() == name)
            && query.first("type").is_none_or(|name| known.resource_type == name)
            && query.first("scope").is_none_or(|name| known.scope.as_deref() == Some(name))
    };
    let (after, now) = (query.first("cursor"), app.clock.now());
    let mut known = handle.tenant()?.resources.list((after, limit + 1), is_meant, now);
    let has_more = known.len() > limit;
    known.truncate(limit);
    let next_cursor = known.last().filter(|_| has_more).map(|last| last.id.clone());
    let here = connected(&handle, &known).await;
    let items = known.into_iter().map(|one| shown(one, &here)).collect();
    ok(&ResourcePage { items, next_cursor })
}

/// Look at a resource
#[utoipa::path(
    get, path = "/api/v1/resources/{resource_id}", operation_id = "get_resource",
    responses((status = 200, body = Resource, description = "What is known of it."))
)]
pub(super) async fn show(Context { app, handle, .. }: Context, path: PathName) -> Answer {
    let known = find(&app, &handle, path.as_str())?;
    let here = connected(&handle, std::slice::from_ref(&known)).await;
    ok(&shown(known, &here))
}

/// Fetch a resource
///
/// Its bytes, from the worker that has them through this server. `Range` gives a part of them;
/// `If-None-Match` and `If-Range` know its `ETag`. Should its worker go away meanwhile and not come
/// back, the answer ends too early: ask for the rest with `Range`.
#[utoipa::path(
    get, path = "/api/v1/resources/{resource_id}/download", operation_id = "download_resource",
    params(("Range" = Option<String>, Header, description = "One range of bytes: `bytes=0-99`.")),
    responses(
        (status = 200, content_type = "application/octet-stream", description = "All of it."),
        (status = 206, content_type = "application/octet-stream", description = "A part of it."),
        (status = 304, description = "It is what `If-None-Match` says."),
        (status = 416, description = "There are no such bytes."),
        (status = 503, description = "E.RESOURCE.AWAY, E.STORE.UNAVAILABLE")
    )
)]
pub(super) async fn download(
    Context { app, caller, handle, .. }: Context,
    path: PathName,
    headers: HeaderMap,
) -> Answer {
    let known = find(&app, &handle, path.as_str())?;
    let Some(size) = known.size_bytes else { return Err(no_such_resource()) };
    let tag = tag_of(&known);
    if says(&headers, header::IF_NONE_MATCH, |said| said == "*" || said.contains(&tag)) {
        return Ok(with_tag(Body::empty(), StatusCode::NOT_MODIFIED, &tag));
    }
    if !connected(&handle, std::slice::from_ref(&known)).await.contains(&known.worker) {
        let message = format!("worker {}, which has the resource, is not connected", known.worker);
        return Err(ApiError::new(ErrorCode::ResourceAway, message));
    }
    let source = Source {
        directory: app.directory.clone(),
        tenant: caller.tenant,
        worker: known.worker.clone(),
        resource_id: known.id.clone(),
    };
    let is_other = says(&headers, header::IF_RANGE, |said| said != tag);
    let wanted = headers.get(header::RANGE).filter(|_| !is_other);
    Ok(match asked(wanted, size) {
        Asked::All => answer(source, &known, (0..size, size, false)),
        Asked::Part(bytes) => answer(source, &known, (bytes, size, true)),
        Asked::Nothing => {
            let mut response = with_tag(Body::empty(), StatusCode::RANGE_NOT_SATISFIABLE, &tag);
            set(&mut response, header::CONTENT_RANGE, &format!("bytes */{size}"));
            response
        }
    })
}

fn answer(
    source: Source,
    known: &Known,
    (bytes, size, is_part): (Range<u64>, u64, bool),
) -> Response {
    let length = bytes.end - bytes.start;
    let place = format!("bytes {}-{}/{size}", bytes.start, bytes.end.saturating_sub(1));
    let body = Body::from_stream(source.stream(bytes));
    let status = if is_part { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    let mut response = with_tag(body, status, &tag_of(known));
    set(&mut response, header::CONTENT_LENGTH, &length.to_string());
    set(&mut response, header::CONTENT_TYPE, "application/octet-stream");
    if is_part {
        set(&mut response, header::CONTENT_RANGE, &place);
    }
    if let Some(name) = about(known).filename {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let plain: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
        let disposition = format!("attachment; filename=\"{plain}\"");
        set(&mut response, header::CONTENT_DISPOSITION, &disposition);
    }
    response
}

fn with_tag(body: Body, status: StatusCode, tag: &str) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    set(&mut response, header::ETAG, tag);
    set(&mut response, header::ACCEPT_RANGES, "bytes");
    // What has this name may be gone tomorrow, and another thing after that.
    set(&mut response, header::CACHE_CONTROL, "private, no-cache");
    response
}

fn set(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

fn says(headers: &HeaderMap, name: HeaderName, is_so: impl Fn(&str) -> bool) -> bool {
    headers.get(name).and_then(|value| value.to_str().ok()).is_some_and(is_so)
}

fn find(app: &App, handle: &ShardHandle, id: &str) -> Result<Known, ApiError> {
    handle.tenant()?.resources.get(id, app.clock.now()).ok_or_else(no_such_resource)
}

fn no_such_resource() -> ApiError {
    ApiError::new(ErrorCode::ResourceNotFound, "no resource with this id")
}

/// Those workers of some resources that are connected; none while the shard cannot be asked.
async fn connected(handle: &ShardHandle, known: &[Known]) -> BTreeSet<WorkerId> {
    let workers: BTreeSet<WorkerId> = known.iter().map(|one| one.worker.clone()).collect();
    let views = handle.session_views(workers.iter().cloned().collect()).await.unwrap_or_default();
    let is_here = |view: Option<SessionView>| view.is_some_and(|view| view.is_connected);
    let here =
        workers.into_iter().zip(views).filter_map(|(worker, view)| is_here(view).then_some(worker));
    here.collect()
}

/// What the maker of a resource may have said about it.
#[derive(Default, Deserialize)]
struct About {
    sha256: Option<String>,
    filename: Option<String>,
}

fn about(known: &Known) -> About {
    let metadata = known.metadata.as_ref();
    metadata.and_then(|text| serde_json::from_str(text.get()).ok()).unwrap_or_default()
}

/// Names exactly these bytes: by their digest, where the maker said it.
fn tag_of(known: &Known) -> String {
    let is_digest = |text: &String| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    if let Some(sha256) = about(known).sha256.filter(is_digest) {
        return format!("\"{sha256}\"");
    }
    let size = known.size_bytes.unwrap_or(0).to_be_bytes();
    let parts = [known.worker.as_str().as_bytes(), known.id.as_bytes(), &size];
    let digest = digest_of(b"astra.resource.v1", &parts);
    let half = digest.first_chunk().copied().map_or(0, u128::from_be_bytes);
    format!("\"{half:032x}\"")
}

fn shown(known: Known, here: &BTreeSet<WorkerId>) -> Resource {
    let About { sha256, filename } = about(&known);
    Resource {
        is_available: here.contains(&known.worker),
        download_url: format!("/api/v1/resources/{}/download", encoded(&known.id)),
        resource_id: known.id,
        provider: "worker".to_owned(),
        resource_type: known.resource_type,
        worker_name: known.worker.to_string(),
        scope: known.scope,
        filename,
        size_bytes: known.size_bytes,
        sha256,
        created_at: known.created_at,
        expires_at: known.expires_at,
        metadata: known.metadata.map(protocol::session::codec::OpenObject::into_raw),
    }
}

/// A name as one step of a path.
fn encoded(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let encode = |byte: u8| {
        if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    name.bytes().map(encode).collect()
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// All of it.
    All,
    /// These bytes.
    Part(Range<u64>),
    /// The range is not satisfiable.
    Nothing,
}

/// Reads the header; one that makes no sense is passed over, as the standard wants it.
pub(super) fn asked(header: Option<&HeaderValue>, size: u64) -> Asked {
    let text = header.and_then(|value| value.to_str().ok());
    let Some(spec) = text.and_then(|text| text.trim().strip_prefix("bytes=")) else {
        return Asked::All;
    };
    let Some((first, last)) = spec.trim().split_once('-') else { return Asked::All };
    // Absent, or a number; one that is too large for us is beyond every end.
    let number = |text: &str| match text.trim() {
        "" => Some(None),
        text if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(Some(text.parse().unwrap_or(u64::MAX)))
        }
        _ => None,
    };
    let (Some(first), Some(last)) = (number(first), number(last)) else { return Asked::All };
    let bytes = match (first, last) {
        (None, None) => return Asked::All,
        (Some(first), Some(last)) if last < first => return Asked::All,
        (Some(first), last) => first..last.map_or(size, |last| last.saturating_add(1).min(size)),
        (None, Some(length)) => size.saturating_sub(length)..size,
    };
    if bytes.is_empty() { Asked::Nothing } else { Asked::Part(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_understood_in_all_its_forms() {
        for (text, expected) in [
            ("bytes=0-9", Asked::Part(0..10)),
            ("bytes=5-5", Asked::Part(5..6)),
            ("bytes=90-", Asked::Part(90..100)),
            ("bytes=-10", Asked::Part(90..100)),
            ("bytes=-1000", Asked::Part(0..100)),
            ("bytes=0-99999999999999999999999", Asked::Part(0..100)),
            (" bytes=0-0 ", Asked::Part(0..1)),
            ("bytes=100-", Asked::Nothing),
            ("bytes=100-200", Asked::Nothing),
            ("bytes=99999999999999999999999-", Asked::Nothing),
            ("bytes=-0", Asked::Nothing),
            ("bytes=9-1", Asked::All),
            ("bytes=0-1,5-6", Asked::All),
            ("bytes=a-b", Asked::All),
            ("bytes=-", Asked::All),
            ("bytes", Asked::All),
            ("lines=1-2", Asked::All),
        ] {
            let header = HeaderValue::from_str(text).expect("a header");
            assert_eq!(asked(Some(&header), 100), expected, "{text}");
        }
        assert_eq!(asked(None, 100), Asked::All);
        let header = HeaderValue::from_static("bytes=-5");
        assert_eq!(asked(Some(&header), 0), Asked::Nothing);
    }
}
