//! Workflows: keep, look at, list, forget, compare, bring back, check.

use std::sync::Arc;

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

use super::auth_layer::Context;
use super::convert::{BASE_VERSION, RUNS_LIMIT, WORKFLOW_VERSION, prose};
use super::request::{DefinitionBytes, Json, PathName, QueryPairs};
use super::runs::limit_of;
use crate::runs::definition::Object;
use crate::runs::view::problem;
use crate::wire_words::problem::{Answer, ApiError, json, json_bytes, ok};
use crate::workflows::{
    self as kept_workflows, COMMENT_CHARS_MAX, KeptVersion, NewVersion, find, save,
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
    context: Context,
    query: QueryPairs,
    headers: HeaderMap,
    DefinitionBytes(body): DefinitionBytes,
) -> Answer {
    let query = query.only(&[BASE_VERSION.name(), "comment"])?;
    let comment = query.first("comment").map(str::to_owned);
    prose(&"comment", comment.as_deref().unwrap_or_default(), COMMENT_CHARS_MAX)?;
    let asked = query.number(BASE_VERSION)?.map(i64::unsigned_abs);
    let matched = if_match(&headers)?;
    if asked.zip(matched).is_some_and(|(asked, matched)| asked != matched) {
        return Err(ApiError::invalid("baseVersion", "and If-Match name different versions"));
    }
    // What is not JSON at all is no draft either.
    body.read::<serde::de::IgnoredAny>()?;
    let definition = body.bytes().clone();
    let (base, author) = (asked.or(matched), context.asker_name());
    let new = NewVersion { definition, base, author, comment };
    let saved = save(&context.app, &context.handle, new).await?;
    let status = if saved.version == 1 { StatusCode::CREATED } else { StatusCode::OK };
    Ok(answer(&saved, status))
}

fn answer(saved: &SavedWorkflow, status: StatusCode) -> Response {
    let mut response = json(status, saved);
    tag(&mut response, saved.version);
    response
}

/// A version as an `ETag`, so that it comes back as `If-Match`.
fn tag(response: &mut Response, version: u64) {
    if let Ok(value) = HeaderValue::from_str(&format!("\"{version}\"")) {
        response.headers_mut().insert(header::ETAG, value);
    }
}

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
pub(super) async fn list(context: Context, query: QueryPairs) -> Answer {
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
    let items = context.handle.look(page).await?;
    let next_cursor =
        items.last().filter(|_| items.len() >= limit).map(|last| last.workflow_id.clone());
    ok(&WorkflowPage { items, next_cursor })
}

/// Look at a workflow
///
/// As it was authored, byte for byte. `ETag` is its version.
#[utoipa::path(
    get, path = "/api/v1/workflows/{workflow_id}", operation_id = "get_workflow",
    params(("version" = Option<i64>, Query, description = "Default: the newest.")),
    responses((status = 200, body = serde_json::Value, description = "The workflow."))
)]
pub(super) async fn show(context: Context, path: PathName, query: QueryPairs) -> Answer {
    let query = query.only(&[WORKFLOW_VERSION.name()])?;
    let version = query.number(WORKFLOW_VERSION)?.map(i64::unsigned_abs);
    let kept = kept(&context, &path, version).await?;
    let mut response = json_bytes(StatusCode::OK, kept.definition.to_vec());
    tag(&mut response, kept.entry.version);
    Ok(response)
}

async fn kept(
    context: &Context,
    path: &PathName,
    version: Option<u64>,
) -> Result<KeptVersion, ApiError> {
    let shard = context.shard();
    let found = find(&*context.app.store, shard, &id_of(path)?, version).await?;
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
pub(super) async fn remove(context: Context, path: PathName) -> Result<StatusCode, ApiError> {
    let (id, at_ms) = (id_of(&path)?, context.app.clock.now().as_millis());
    let hide = move |documents: &mut TenantDocuments| documents.workflows.hide(&id, at_ms);
    if context.handle.change(hide).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(no_workflow(path.as_str(), None))
}

/// List the versions of a workflow
#[utoipa::path(
    get, path = "/api/v1/workflows/{workflow_id}/versions", operation_id = "list_workflow_versions",
    responses((status = 200, body = WorkflowVersions, description = "Newest first."))
)]
pub(super) async fn versions(context: Context, path: PathName) -> Answer {
    let id = id_of(&path)?;
    let kept = kept_workflows::versions(&*context.app.store, context.shard(), &id).await?;
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
    ok(&WorkflowVersions { workflow_id: id, items: items.collect() })
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
pub(super) async fn diff(context: Context, path: PathName, query: QueryPairs) -> Answer {
    let query = query.only(&["from", "to"])?;
    let number = |name| query.number(WORKFLOW_VERSION.named(name));
    let (from, to) = (number("from")?.map(i64::unsigned_abs), number("to")?.map(i64::unsigned_abs));
    let new = kept(&context, &path, to).await?;
    let from = from.unwrap_or_else(|| new.entry.version.saturating_sub(1).max(1));
    let old = kept(&context, &path, Some(from)).await?;
    let (from, to) = (old.entry.version, new.entry.version);
    let comparing = tokio::task::spawn_blocking(move || {
        let read = |definition: &Bytes| serde_json::from_slice::<Value>(definition);
        Some(kept_workflows::diff(&read(&old.definition).ok()?, &read(&new.definition).ok()?))
    });
    let made = comparing.await.ok().flatten();
    let made = made.ok_or_else(|| ApiError::internal("the versions cannot be compared"))?;
    let workflow_id = id_of(&path)?;
    ok(&WorkflowDiff { workflow_id, from, to, ..made })
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
    context: Context,
    path: PathName,
    Json(body): Json<RestoreWorkflow>,
) -> Answer {
    let author = context.asker_name();
    let (handle, id) = (&context.handle, id_of(&path)?);
    let old =
        kept_workflows::any_version(&*context.app.store, handle.shard(), &id, Some(body.version))
            .await?;
    let old = old.ok_or_else(|| no_workflow(path.as_str(), Some(body.version)))?;
    let new = NewVersion {
        definition: old.definition,
        base: None,
        author,
        comment: Some(format!("version {} again", old.entry.version)),
    };
    Ok(answer(&save(&context.app, handle, new).await?, StatusCode::OK))
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
pub(super) async fn validate(context: Context, DefinitionBytes(body): DefinitionBytes) -> Answer {
    body.read::<serde::de::IgnoredAny>()?;
    let checking = context.app.programs.check(context.shard(), workflow_in(body.bytes()));
    let checked = checking.await.map_err(|_| {
        ApiError::invalid("the workflow", "nests too deep, or holds something that is no JSON")
    })?;
    let problems: Vec<_> = checked.problems.iter().map(problem).collect();
    let valid = problems.iter().all(|problem| problem.severity != "error");
    ok(&Validation { valid, problems })
}

/// The workflow itself, where something is wrapped around it.
fn workflow_in(body: &Bytes) -> Bytes {
    let text = std::str::from_utf8(body).unwrap_or_default();
    let wrapped = Object::read(text).filter(|object| object.get("nodes").is_none());
    let inner = wrapped.and_then(|object| object.get("workflow").map(|raw| raw.get().to_owned()));
    inner.map_or_else(|| body.clone(), Bytes::from)
}
