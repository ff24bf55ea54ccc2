//! Webhooks: keep, list, forget; and the calls from outside.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use protocol::error_code::ErrorCode;
use protocol::rest::runs::RunRef;
use protocol::rest::schedules::{CreatedHook, Hook, HookPage, NewHook};
use serde_json::{Map, Value, json as value};
use shard::documents::HookHead;

use super::auth_layer::{AskerName, Coordinator};
use super::body::{Json, read_json};
use super::params::{PathName, QueryPairs};
use super::run_starts::key_of;
use super::schedules::{checked_name, workflow_of};
use crate::app::App;
use crate::clock::wall_now;
use crate::runs::start::{NewRunRequest, Source, start};
use crate::runs::view;
use crate::schedules::hooks::{self, HOOK_BODY_BYTES_MAX, HookError};
use crate::wire_words::payload::{PAYLOAD_DEPTH_MAX, is_deeper_than};
use crate::wire_words::problem::{ApiError, json};

/// Headers that are the caller's own business.
const HIDDEN_HEADERS: [header::HeaderName; 3] =
    [header::AUTHORIZATION, header::COOKIE, header::PROXY_AUTHORIZATION];

/// Keep a webhook
///
/// The answer holds its secret, which is shown this once.
#[utoipa::path(
    post, path = "/api/v1/hooks", operation_id = "create_hook", request_body = NewHook,
    responses(
        (status = 201, body = CreatedHook, description = "It is kept."),
        (status = 404, description = "E.WORKFLOW.NOT_FOUND"),
        (status = 429, description = "E.LIMIT.SCHEDULES")
    )
)]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    AskerName(created_by): AskerName,
    Json(body): Json<NewHook>,
) -> Result<Response, ApiError> {
    let hook = HookHead {
        hook_id: String::new(),
        name: checked_name(body.name)?,
        workflow_id: workflow_of(&app, &coordinator, &body.workflow_id, None).await?,
    };
    let made = hooks::add(&coordinator.handle, hook, (created_by, wall_now())).await?;
    let (hook_id, token) = made;
    let url = format!("/hooks/{token}");
    Ok(json(StatusCode::CREATED, &CreatedHook { hook_id, token, url }))
}

/// List webhooks
#[utoipa::path(
    get, path = "/api/v1/hooks", operation_id = "list_hooks",
    responses((status = 200, body = HookPage, description = "Oldest first, without secrets."))
)]
pub(super) async fn list(coordinator: Coordinator) -> Result<Response, ApiError> {
    let kept = hooks::list(&coordinator.handle).await?;
    let items = kept.iter().map(|hook| Hook {
        hook_id: hook.head.hook_id.clone(),
        name: hook.head.name.clone(),
        workflow_id: hook.head.workflow_id.clone(),
        created_at: model::Timestamp::from_millis(hook.at_ms).to_string(),
        created_by: hook.by.clone(),
    });
    Ok(json(StatusCode::OK, &HookPage { items: items.collect(), next_cursor: None }))
}

/// Forget a webhook
///
/// Its secret opens nothing any more.
#[utoipa::path(
    delete, path = "/api/v1/hooks/{hook_id}", operation_id = "delete_hook",
    responses((status = 204, description = "It is gone."))
)]
pub(super) async fn remove(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    path: PathName,
) -> Result<StatusCode, ApiError> {
    hooks::remove(&coordinator.handle, &app.hook_calls, path.as_str()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Call a webhook
///
/// Starts a run of its workflow. The secret in the path is all that it takes. The run is given
/// `body`, `headers` and `query`.
#[utoipa::path(
    post, path = "/hooks/{token}", operation_id = "call_hook", request_body = serde_json::Value,
    security(()),
    params(
        ("Idempotency-Key" = Option<String>, Header,
            description = "The same call with the same key starts no second run.")
    ),
    responses(
        (status = 202, body = RunRef, description = "The run exists."),
        (status = 404, description = "E.HOOK.NOT_FOUND, E.WORKFLOW.NOT_FOUND"),
        (status = 409, description = "E.RUN.CONFLICT: another call had the key."),
        (status = 422, description = "E.FLOW.INVALID, E.REQUEST.INVALID"),
        (status = 429,
            description = "E.LIMIT.OVERLOADED, E.LIMIT.RUNS, E.LIMIT.LIVE_TASKS, E.LIMIT.DEMANDS. \
                `Retry-After` says in how many seconds it may be called again.")
    )
)]
pub(super) async fn call(
    State(app): State<Arc<App>>,
    path: PathName,
    query: QueryPairs,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, ApiError> {
    // Whoever does not know the secret sends nothing.
    let (tenant, hook) = hooks::call(&app, path.as_str()).await?;
    let key = key_of(&headers)?;
    let body = read_json(request.into_body(), HOOK_BODY_BYTES_MAX).await?;
    let request = NewRunRequest {
        source: Source::Kept { workflow_id: hook.head.workflow_id.clone(), version: None },
        inputs: inputs(&body, &headers, &query)?,
        client_id: None,
        mark: None,
        started_by: format!("hook {}", hook.head.hook_id),
        retry: None,
    };
    let made = start(&app, &tenant, request.under(key)).await?;
    let mut answer = view::started(&made);
    // Whoever calls need not know what the workflow looks like inside.
    answer.warnings.clear();
    Ok(json(StatusCode::ACCEPTED, &answer))
}

/// What the run is given. A call without a body gives `null`.
fn inputs(body: &Bytes, headers: &HeaderMap, query: &QueryPairs) -> Result<Bytes, ApiError> {
    if is_deeper_than(body, PAYLOAD_DEPTH_MAX) {
        let rule = format!("nests more than {PAYLOAD_DEPTH_MAX} levels deep");
        return Err(ApiError::invalid("the body", rule));
    }
    let body: Value = match body.trim_ascii() {
        b"" => Value::Null,
        text => serde_json::from_slice(text).map_err(|error| {
            let message = format!("the body is not JSON: {error}");
            ApiError::new(ErrorCode::RequestMalformed, message)
        })?,
    };
    let shown = headers.iter().filter(|(name, _)| !HIDDEN_HEADERS.contains(name));
    let headers: Map<String, Value> = shown
        .map(|(name, value)| {
            let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
            (name.as_str().to_owned(), Value::String(text))
        })
        .collect();
    let query: Map<String, Value> =
        query.pairs().map(|(name, text)| (name.to_owned(), text.into())).collect();
    let inputs = value!({"body": body, "headers": headers, "query": query});
    Ok(serde_json::to_vec(&inputs).expect("values are JSON").into())
}

impl From<HookError> for ApiError {
    fn from(error: HookError) -> Self {
        let message = error.to_string();
        match error {
            HookError::Full => Self::new(ErrorCode::LimitSchedules, message),
            HookError::Unknown => Self::new(ErrorCode::HookNotFound, message),
            HookError::TooOften { again_in } => {
                Self { again_in: Some(again_in), ..Self::new(ErrorCode::LimitOverloaded, message) }
            }
            HookError::NoRandomness => Self::internal(message),
            HookError::Ask(error) => error.into(),
            HookError::Store(error) => error.into(),
        }
    }
}
