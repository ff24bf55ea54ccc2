//! Workflows: keep, look at, list, forget, compare, bring back, check.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use model::Timestamp;
use protocol::error_code::ErrorCode;
use protocol::rest::workflows::{
    RestoreWorkflow, SavedWorkflow, ValidateWorkflow, Validation, WorkflowDiff, WorkflowPage,
    WorkflowSummary, WorkflowVersion, WorkflowVersions,
};
use serde_json::Value;
use shard::documents::{Entry, TenantDocuments, WorkflowHead};
use uuid::Uuid;

use super::auth_layer::{AskerName, Coordinator};
use super::body::{DefinitionBytes, Json};
use super::convert::{NumberRange, RUNS_LIMIT, WORKFLOW_VERSION, prose};
use super::params::{PathName, QueryPairs};
use super::runs::limit_of;
use crate::app::App;
use crate::runs::definition::Object;
use crate::runs::view::problem;
use crate::wire_words::problem::{ApiError, json, json_bytes};
use crate::workflows::diff;
use crate::workflows::save::{
    self, COMMENT_CHARS_MAX, KeptVersion, NewVersion, SaveError, Saved, find, save,
};

/// Keep a workflow
///
/// The body is the workflow. Every save makes a new version; the same workflow again makes none. A
/// draft with errors is kept too, and says what is wrong with it.
#[utoipa::path(
    post, path = "/api/v1/workflows", operation_id = "save_workflow",
    request_body = serde_json::Value,
    params(
        ("baseVersion" = Option<i64>, Query,
            description = "The version that it builds on; 0 wants that there is none. Without it, \
                whatever is there is built on."),
        ("comment" = Option<String>, Query, description = "What changed."),
        ("If-Match" = Option<String>, Header, description = "The same as `baseVersion`: `\"3\"`.")
    ),
    responses(
        (status = 200, body = SavedWorkflow, description = "A further version, or the same one."),
        (status = 201, body = SavedWorkflow, description = "The first version."),
        (status = 409, description = "E.WORKFLOW.CONFLICT"),
        (status = 429, description = "E.LIMIT.WORKFLOWS")
    )
)]
pub(super) async fn submit(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    saver: Saver,
    DefinitionBytes(body): DefinitionBytes,
) -> Result<Response, ApiError> {
    // What is not JSON at all is no draft either.
    body.read::<serde::de::IgnoredAny>()?;
    let new = NewVersion {
        definition: body.bytes().clone(),
        base: saver.base,
        author: saver.name,
        comment: saver.comment,
    };
    Ok(saved(&save(&app, &coordinator.handle, new).await?))
}

fn saved(saved: &Saved) -> Response {
    let status = if saved.version == 1 { StatusCode::CREATED } else { StatusCode::OK };
    let answer = SavedWorkflow {
        workflow_id: saved.id.clone(),
        version: saved.version,
        definition_hash: saved.hash.clone(),
        problems: saved.problems.iter().map(problem).collect(),
    };
    let mut response = json(status, &answer);
    tag(&mut response, saved.version);
    response
}

/// A version as an `ETag`, so that it comes back as `If-Match`.
fn tag(response: &mut Response, version: u64) {
    if let Ok(value) = HeaderValue::from_str(&format!("\"{version}\"")) {
        response.headers_mut().insert(header::ETAG, value);
    }
}

impl From<SaveError> for ApiError {
    fn from(error: SaveError) -> Self {
        let message = error.to_string();
        match error {
            SaveError::NoWorkflow(_) => Self::new(ErrorCode::RequestInvalid, message)
                .with_hint("a workflow is an object with `id`, `nodes` and `edges`"),
            SaveError::Conflict { .. } => Self::new(ErrorCode::WorkflowConflict, message),
            SaveError::Compile(_) => Self::new(ErrorCode::RequestInvalid, message)
                .with_hint("it nests too deep, or holds something that is no JSON"),
            SaveError::Full => Self::new(ErrorCode::LimitWorkflows, message),
            SaveError::Ask(error) => error.into(),
        }
    }
}

/// Who saves, and on top of what.
pub(super) struct Saver {
    name: String,
    base: Option<u64>,
    comment: Option<String>,
}

impl axum::extract::FromRequestParts<Arc<App>> for Saver {
    type Rejection = ApiError;

    async fn from_request_parts(
        parts: &mut axum::http::request::Parts,
        app: &Arc<App>,
    ) -> Result<Self, ApiError> {
        let AskerName(name) = AskerName::from_request_parts(parts, app).await?;
        let query = QueryPairs::from_request_parts(parts, app).await?;
        let query = query.only(&[BASE_VERSION.name(), "comment"])?;
        let comment = query.first("comment").map(str::to_owned);
        if let Some(comment) = &comment {
            prose(&"comment", comment, COMMENT_CHARS_MAX)?;
        }
        let asked = query.number(BASE_VERSION)?.map(i64::unsigned_abs);
        let matched = if_match(&parts.headers)?;
        match (asked, matched) {
            (Some(one), Some(other)) if one != other => {
                Err(ApiError::invalid("baseVersion", "and If-Match name different versions"))
            }
            (asked, matched) => Ok(Self { name, base: asked.or(matched), comment }),
        }
    }
}

const BASE_VERSION: NumberRange = WORKFLOW_VERSION.named("baseVersion").from(0);

fn if_match(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(value) = headers.get(header::IF_MATCH) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    if text == "*" {
        return Ok(None);
    }
    let number = text.strip_prefix("W/").unwrap_or(text).trim_matches('"').parse().ok();
    number.map(Some).ok_or_else(|| {
        ApiError::invalid("If-Match", "is not a version, like `\"3\"`")
            .with_hint("use the `ETag` of the version that you build on")
    })
}

/// List workflows
///
/// By id, a page at a time.
#[utoipa::path(
    get, path = "/api/v1/workflows", operation_id = "list_workflows",
    params(
        ("limit" = Option<i64>, Query, description = "1 to 200. Default 50."),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the page before.")
    ),
    responses((status = 200, body = WorkflowPage, description = "A page; follow `nextCursor`."))
)]
pub(super) async fn list(
    coordinator: Coordinator,
    query: QueryPairs,
) -> Result<Response, ApiError> {
    let query = query.only(&["limit", "cursor"])?;
    let limit = limit_of(&query, RUNS_LIMIT)?;
    let after = query.first("cursor").map(str::to_owned);
    let limit = limit as usize;
    let summary = |(id, kept): (&String, &Arc<Entry<WorkflowHead>>)| WorkflowSummary {
        workflow_id: id.clone(),
        name: kept.head.name.clone(),
        version: kept.version,
        definition_hash: kept.hash.clone(),
        updated_at: Timestamp::from_millis(kept.at_ms).to_string(),
        updated_by: kept.by.clone(),
    };
    let page = move |shard: &shard::Shard| -> Vec<_> {
        let kept = shard.documents().workflows.by_name(after.as_deref().unwrap_or_default());
        kept.take(limit).map(summary).collect()
    };
    let items = coordinator.handle.look(page).await?;
    let next_cursor =
        items.last().filter(|_| items.len() >= limit).map(|last| last.workflow_id.clone());
    Ok(json(StatusCode::OK, &WorkflowPage { items, next_cursor }))
}

/// Look at a workflow
///
/// As it was authored, byte for byte. `ETag` is its version.
#[utoipa::path(
    get, path = "/api/v1/workflows/{workflow_id}", operation_id = "get_workflow",
    params(("version" = Option<i64>, Query, description = "Default: the newest.")),
    responses((status = 200, body = serde_json::Value, description = "The workflow."))
)]
pub(super) async fn show(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    path: PathName,
    query: QueryPairs,
) -> Result<Response, ApiError> {
    let query = query.only(&[WORKFLOW_VERSION.name()])?;
    let version = query.number(WORKFLOW_VERSION)?.map(i64::unsigned_abs);
    let kept = kept(&app, &coordinator, &path, version).await?;
    let mut response = json_bytes(StatusCode::OK, kept.definition.to_vec());
    tag(&mut response, kept.entry.version);
    Ok(response)
}

async fn kept(
    app: &App,
    coordinator: &Coordinator,
    path: &PathName,
    version: Option<u64>,
) -> Result<KeptVersion, ApiError> {
    let shard = coordinator.handle.shard();
    let found = find(&*app.store, shard, &id_of(path)?, version).await?;
    found.ok_or_else(|| no_workflow(path.as_str(), version))
}

/// An id in the one form in which it is kept; the same words for what never was and for what
/// belongs to another tenant.
fn id_of(path: &PathName) -> Result<String, ApiError> {
    let id = Uuid::try_parse(path.as_str()).map_err(|_| no_workflow(path.as_str(), None))?;
    Ok(id.to_string())
}

fn no_workflow(id: &str, version: Option<u64>) -> ApiError {
    let message = match version {
        Some(version) => format!("no workflow with the id {id} in version {version}"),
        None => format!("no workflow with the id {id}"),
    };
    ApiError::new(ErrorCode::WorkflowNotFound, message)
}

/// Forget a workflow
///
/// It is hidden; its runs stay. Saving it again brings it back, with all its versions.
#[utoipa::path(
    delete, path = "/api/v1/workflows/{workflow_id}", operation_id = "delete_workflow",
    responses((status = 204, description = "It is gone."))
)]
pub(super) async fn remove(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    path: PathName,
) -> Result<StatusCode, ApiError> {
    let (id, at_ms) = (id_of(&path)?, app.clock.now().as_millis());
    let hide = move |documents: &mut TenantDocuments| documents.workflows.hide(&id, at_ms);
    if coordinator.handle.change(hide).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(no_workflow(path.as_str(), None))
}

/// List the versions of a workflow
#[utoipa::path(
    get, path = "/api/v1/workflows/{workflow_id}/versions", operation_id = "list_workflow_versions",
    responses((status = 200, body = WorkflowVersions, description = "Newest first."))
)]
pub(super) async fn versions(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    path: PathName,
) -> Result<Response, ApiError> {
    let id = id_of(&path)?;
    let kept = save::versions(&*app.store, coordinator.handle.shard(), &id).await?;
    if kept.is_empty() {
        return Err(no_workflow(path.as_str(), None));
    }
    let items = kept.into_iter().map(|KeptVersion { entry, .. }| WorkflowVersion {
        version: entry.version,
        name: entry.head.name,
        definition_hash: entry.hash,
        saved_at: Timestamp::from_millis(entry.at_ms).to_string(),
        author: entry.by,
        comment: entry.head.comment,
    });
    Ok(json(StatusCode::OK, &WorkflowVersions { workflow_id: id, items: items.collect() }))
}

/// Compare two versions of a workflow
#[utoipa::path(
    get, path = "/api/v1/workflows/{workflow_id}/diff", operation_id = "diff_workflow",
    params(
        ("from" = Option<i64>, Query, description = "Default: the version before `to`."),
        ("to" = Option<i64>, Query, description = "Default: the newest.")
    ),
    responses((status = 200, body = WorkflowDiff, description = "What differs."))
)]
pub(super) async fn diff(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    path: PathName,
    query: QueryPairs,
) -> Result<Response, ApiError> {
    let query = query.only(&["from", "to"])?;
    let number = |name| query.number(WORKFLOW_VERSION.named(name));
    let (from, to) = (number("from")?.map(i64::unsigned_abs), number("to")?.map(i64::unsigned_abs));
    let new = kept(&app, &coordinator, &path, to).await?;
    let from = from.unwrap_or_else(|| new.entry.version.saturating_sub(1).max(1));
    let old = kept(&app, &coordinator, &path, Some(from)).await?;
    let (from, to) = (old.entry.version, new.entry.version);
    let comparing = tokio::task::spawn_blocking(move || {
        let read = |definition: &Bytes| serde_json::from_slice::<Value>(definition);
        Some(diff::diff(&read(&old.definition).ok()?, &read(&new.definition).ok()?))
    });
    let made = comparing.await.ok().flatten();
    let made = made.ok_or_else(|| ApiError::internal("the versions cannot be compared"))?;
    let workflow_id = id_of(&path)?;
    Ok(json(StatusCode::OK, &WorkflowDiff { workflow_id, from, to, ..made }))
}

/// Bring a version back
///
/// It is kept again, as the newest one.
#[utoipa::path(
    post, path = "/api/v1/workflows/{workflow_id}/restore", operation_id = "restore_workflow",
    request_body = RestoreWorkflow,
    responses((status = 200, body = SavedWorkflow, description = "The newest version."))
)]
pub(super) async fn restore(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    AskerName(author): AskerName,
    path: PathName,
    Json(body): Json<RestoreWorkflow>,
) -> Result<Response, ApiError> {
    let (handle, id) = (&coordinator.handle, id_of(&path)?);
    let old = save::any_version(&*app.store, handle.shard(), &id, Some(body.version)).await?;
    let old = old.ok_or_else(|| no_workflow(path.as_str(), Some(body.version)))?;
    let new = NewVersion {
        definition: old.definition,
        base: None,
        author,
        comment: Some(format!("version {} again", old.entry.version)),
    };
    let made = save(&app, handle, new).await?;
    let mut response = saved(&made);
    *response.status_mut() = StatusCode::OK;
    Ok(response)
}

/// Check a workflow
///
/// Nothing is kept. The body is the workflow, or has it under `workflow`.
#[utoipa::path(
    post, path = "/api/v1/workflows/validate", operation_id = "validate_workflow",
    request_body = ValidateWorkflow,
    responses(
        (status = 200, body = Validation, description = "What is wrong with it, all at once.")
    )
)]
pub(super) async fn validate(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    DefinitionBytes(body): DefinitionBytes,
) -> Result<Response, ApiError> {
    body.read::<serde::de::IgnoredAny>()?;
    let checking = app.programs.check(coordinator.handle.shard(), workflow_in(body.bytes()));
    let checked = checking.await.map_err(|_| {
        ApiError::invalid("the workflow", "nests too deep, or holds something that is no JSON")
    })?;
    let problems: Vec<_> = checked.problems.iter().map(problem).collect();
    let valid = problems.iter().all(|problem| problem.severity != "error");
    Ok(json(StatusCode::OK, &Validation { valid, problems }))
}

/// The workflow itself, where something is wrapped around it.
fn workflow_in(body: &Bytes) -> Bytes {
    let text = std::str::from_utf8(body).unwrap_or_default();
    let wrapped = Object::read(text).filter(|object| object.get("nodes").is_none());
    let inner = wrapped.and_then(|object| object.get("workflow").map(|raw| raw.get().to_owned()));
    inner.map_or_else(|| body.clone(), Bytes::from)
}
