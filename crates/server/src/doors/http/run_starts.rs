//! How runs are asked for: a new one, or an ended one taken up again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use coordinator::Refusal;
use model::IdempotencyKey;
use protocol::error_code::ErrorCode;
use protocol::rest::runs::{RetryRun, RunRef, StartRun};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::auth_layer::Context;
use super::convert::{RUN_WAIT, prose, text};
use super::request::{DefinitionBytes, OptionalJson, PathName, QueryPairs};
use super::runs::{row, with_snapshot};
use crate::app::App;
use crate::runs::programs::CompileError;
use crate::runs::retry::{self, Again};
use crate::runs::start::{
    self, CLIENT_ID_CHARS_MAX, NewRunRequest, RUN_INPUTS_BYTES_MAX, RetryPart, RunError, Source,
};
use crate::runs::view;
use crate::wire_words::payload::{is_object, payload};
use crate::wire_words::problem::{Answer, ApiError, json};

const IDEMPOTENCY_HEADER: &str = "idempotency-key";

/// Start a run
///
/// Of a workflow that comes with the request, or of a kept one. The answer comes when the run
/// survives a crash; with `wait`, when it has ended or the time is over.
#[utoipa::path(
    post, path = "/api/v1/runs", operation_id = "start_run", request_body = StartRun,
    params(
        ("wait" = Option<i64>, Query, description = "Seconds, 0 to 60. Default 0."),
        ("Idempotency-Key" = Option<String>, Header,
            description = "The same request with the same key starts no second run.")
    ),
    responses(
        (status = 202, body = RunRef, description = "The run exists."),
        (status = 404, description = "E.WORKFLOW.NOT_FOUND"),
        (status = 409, description = "E.RUN.CONFLICT: another request had the key."),
        (status = 422, description = "E.FLOW.INVALID, E.REQUEST.INVALID"),
        (status = 429,
            description = "E.LIMIT.RUNS, E.LIMIT.LIVE_TASKS, E.LIMIT.DEMANDS, E.LIMIT.OVERLOADED")
    )
)]
pub(super) async fn submit(
    context: Context,
    starter: Starter,
    DefinitionBytes(body): DefinitionBytes,
) -> Answer {
    let request: StartRun = body.read()?;
    // Its bytes live on in the request alone.
    drop(body);
    let inputs = inputs_of(request.inputs)?;
    let client_id = checked_client(request.client_id)?;
    let source = source_of(request.workflow, request.workflow_id, request.version)?;
    let request = NewRunRequest::new(source, inputs, context.asker_name());
    start_run(&context, starter, NewRunRequest { client_id, ..request }).await
}

fn source_of(
    workflow: Option<Box<RawValue>>,
    workflow_id: Option<String>,
    version: Option<u64>,
) -> Result<Source, ApiError> {
    match (workflow, workflow_id) {
        (Some(_), Some(_)) => {
            Err(ApiError::invalid("workflow", "and workflowId exclude each other"))
        }
        (Some(_), None) if version.is_some() => {
            Err(ApiError::invalid("version", "goes with workflowId, not with workflow"))
        }
        (Some(workflow), None) => {
            Ok(Source::Inline(Box::<str>::from(workflow).into_boxed_bytes().into()))
        }
        (None, Some(workflow_id)) => Ok(Source::Kept { workflow_id, version }),
        (None, None) => Err(ApiError::invalid("workflow", "is missing")
            .with_hint("send `workflow` whole, or the `workflowId` of one that is kept here")),
    }
}

/// What a run is given: a JSON object.
pub(super) fn inputs_of(inputs: Option<Box<RawValue>>) -> Result<Bytes, ApiError> {
    let Some(inputs) = inputs else { return Ok(Bytes::from_static(b"{}")) };
    if !is_object(inputs.get().as_bytes()) {
        return Err(ApiError::invalid("inputs", "must be an object, like `{\"name\": \"value\"}`"));
    }
    payload("inputs", inputs, RUN_INPUTS_BYTES_MAX)
}

fn checked_client(client_id: Option<String>) -> Result<Option<String>, ApiError> {
    prose(&"clientId", client_id.as_deref().unwrap_or_default(), CLIENT_ID_CHARS_MAX)?;
    Ok(client_id)
}

/// How a run is asked for.
pub(super) struct Starter {
    /// Recognises the same request when it is sent again.
    key: Option<IdempotencyKey>,
    /// How long the answer waits for the end of the run.
    wait: Duration,
}

impl FromRequestParts<Arc<App>> for Starter {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        let query = QueryPairs::from_request_parts(parts, app).await?.only(&[RUN_WAIT.name()])?;
        let wait = query.number(RUN_WAIT)?.unwrap_or(0).unsigned_abs();
        Ok(Self { key: key_of(&parts.headers)?, wait: Duration::from_secs(wait) })
    }
}

/// The sender's own name for its request.
pub(super) fn key_of(headers: &HeaderMap) -> Result<Option<IdempotencyKey>, ApiError> {
    let Some(value) = headers.get(IDEMPOTENCY_HEADER) else { return Ok(None) };
    let value = value.to_str().map_err(|_| ApiError::invalid("Idempotency-Key", "is no text"))?;
    text(&"header ", value).map(Some)
}

/// Starts a run, and answers after the wait that was asked for.
pub(super) async fn start_run(
    context: &Context,
    Starter { key, wait }: Starter,
    request: NewRunRequest,
) -> Answer {
    let app = &context.app;
    let started = start::start(app, &context.caller.tenant, request.under(key)).await?;
    let mut answer = view::started(&started);
    if !wait.is_zero() && started.record.end.is_none() {
        let run = started.record.id;
        start::wait(app, &context.handle, run, wait).await?;
        answer.status = view::reference(&row(app, run).await?, false).status;
    }
    Ok(json(StatusCode::ACCEPTED, &answer))
}

/// Take a run up again
///
/// A new run that uses what the old one has done: what succeeded is not executed again, unless it
/// lies behind something that is.
#[utoipa::path(
    post, path = "/api/v1/runs/{run_id}/retry", operation_id = "retry_run", request_body = RetryRun,
    params(
        ("wait" = Option<i64>, Query, description = "Seconds, 0 to 60. Default 0."),
        ("Idempotency-Key" = Option<String>, Header,
            description = "The same request with the same key starts no second run.")
    ),
    responses(
        (status = 202, body = RunRef, description = "The new run."),
        (status = 409,
            description = "E.RUN.CONFLICT: the run has not ended, or nothing of it failed."),
        (status = 422, description = "E.FLOW.INVALID, E.REQUEST.INVALID"),
        (status = 429,
            description = "E.LIMIT.RUNS, E.LIMIT.LIVE_TASKS, E.LIMIT.DEMANDS, E.LIMIT.OVERLOADED")
    )
)]
pub(super) async fn retry(
    context: Context,
    path: PathName,
    starter: Starter,
    OptionalJson(body): OptionalJson<RetryRun>,
) -> Answer {
    let run = path.run(context.shard())?;
    let name = context.asker_name();
    let new_inputs = body.inputs.is_some();
    let inputs = inputs_of(body.inputs)?;
    let client_id = checked_client(body.client_id)?;
    let again = again(body.from_failed, body.node_id.as_deref(), body.parameters)?;
    let prepared = with_snapshot(&context.app, run, move |snapshot| {
        let reused = retry::reused(snapshot, &again)?;
        let definition = retry::patched(&snapshot.record.definition, &again.parameters)?;
        let inputs = if new_inputs { inputs } else { snapshot.record.inputs.clone() };
        let about = &snapshot.record.about;
        let source = Source::Earlier { definition, version: about.workflow_version };
        Ok::<_, ApiError>(NewRunRequest {
            client_id: client_id.or_else(|| about.client_id.clone()),
            retry: Some(RetryPart { of: run, reused }),
            ..NewRunRequest::new(source, inputs, name)
        })
    });
    start_run(&context, starter, prepared.await??).await
}

fn again(
    from_failed: Option<bool>,
    node: Option<&str>,
    parameters: BTreeMap<String, Map<String, Value>>,
) -> Result<Again, ApiError> {
    let id = |field: &str, text: &str| {
        Uuid::try_parse(text).map_err(|_| ApiError::invalid(field, "is not a UUID"))
    };
    let node = node.map(|node| id("nodeId", node)).transpose()?;
    let mut by_node = BTreeMap::new();
    for (node, over) in parameters {
        by_node.insert(id("a key of parameters", &node)?, over);
    }
    let everything = from_failed == Some(false) && node.is_none();
    Ok(Again { everything, node, parameters: by_node })
}

impl From<CompileError> for ApiError {
    fn from(error: CompileError) -> Self {
        match error {
            CompileError::Invalid(problems) => {
                Self::flow(problems.iter().map(view::problem).collect())
            }
            CompileError::Broken => Self::internal("the definition could not be read"),
        }
    }
}

impl From<RunError> for ApiError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Compile(error) => error.into(),
            RunError::NoWorkflow { .. } => {
                Self::new(ErrorCode::WorkflowNotFound, error.to_string())
            }
            RunError::Conflict(key) => Refusal::RunConflict { key }.into(),
            RunError::Ask(error) => error.into(),
            RunError::Store(error) => error.into(),
        }
    }
}
