//! Middlewares: asking for the next link of a chain, and the answer. These frames have camel case.

use serde::Serialize;

use super::super::decode::DecodeError;
use super::super::open::OpenObject;
use super::super::read::Value;

/// A middleware asks for the next link of its chain to be executed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NextRequest {
    /// Names the request within its worker.
    pub request_id: String,
    /// The run that it belongs to.
    pub run_id: String,
    /// The node that the middleware is attached to.
    pub node_id: String,
    /// Which middleware asks.
    pub middleware_id: String,
    /// Its place in the chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain_index: Option<u64>,
    /// What the host was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_ctx: Option<OpenObject>,
    /// What the middleware keeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub middleware_ctx: Option<OpenObject>,
    /// What the next link is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<OpenObject>,
    /// How long the middleware waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

impl NextRequest {
    pub(super) fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        Ok(Self {
            request_id: fields.required("requestId", Value::name)?,
            run_id: fields.required("runId", Value::name)?,
            node_id: fields.required("nodeId", Value::name)?,
            middleware_id: fields.required("middlewareId", Value::name)?,
            chain_index: fields.optional("chainIndex", Value::count)?,
            host_ctx: fields.optional("hostCtx", Value::open)?,
            middleware_ctx: fields.optional("middlewareCtx", Value::open)?,
            payload: fields.optional("payload", Value::open)?,
            timeout_ms: fields.optional("timeoutMs", Value::count)?,
        })
    }
}

/// What the next link of the chain answered.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NextResponse {
    /// The request that is answered.
    pub request_id: String,
    /// The run that it belongs to.
    pub run_id: String,
    /// The node that the middleware is attached to.
    pub node_id: String,
    /// Which middleware asked.
    pub middleware_id: String,
    /// What the next link made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<OpenObject>,
    /// Why it made nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<NextError>,
    /// How it went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<OpenObject>,
}

impl NextResponse {
    pub(super) fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        Ok(Self {
            request_id: fields.required("requestId", Value::name)?,
            run_id: fields.required("runId", Value::name)?,
            node_id: fields.required("nodeId", Value::name)?,
            middleware_id: fields.required("middlewareId", Value::name)?,
            result: fields.optional("result", Value::open)?,
            error: fields.optional("error", NextError::read)?,
            trace: fields.optional("trace", Value::open)?,
        })
    }
}

/// Why the next link made nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NextError {
    /// A code, like `next_timeout`.
    pub code: String,
    /// The same for people.
    pub message: String,
}

impl NextError {
    fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        Ok(Self {
            code: fields.required("code", Value::name)?,
            message: fields.required("message", Value::text)?,
        })
    }
}
