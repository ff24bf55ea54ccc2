//! Work, from its dispatch to the verdict about it.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::super::decode::DecodeError;
use super::super::encode::raw;
use super::super::open::OpenObject;
use super::super::read::{Fields, Value};
use super::resource::{Affinity, Artifact, ResourceRef};
use crate::rest::leases::VerdictWord;

/// The server has work. The envelope's `id` is the lease, its `corr` the task.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dispatch {
    /// The run that it belongs to.
    pub run_id: String,
    /// Which task.
    pub task_id: String,
    /// Which node of the workflow.
    pub node_id: String,
    /// Which handler executes it.
    pub node_type: String,
    /// The package that has the handler.
    pub package_name: String,
    /// The version of that package.
    pub package_version: String,
    /// What the node is given.
    pub parameters: OpenObject,
    /// What it must keep to.
    pub constraints: Constraints,
    /// What goes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// The node that a middleware is attached to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_node_id: Option<String>,
    /// The middlewares of that node, in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub middleware_chain: Option<Vec<String>>,
    /// This middleware's place among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain_index: Option<u64>,
    /// At most one task with this key runs at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency_key: Option<String>,
    /// What must already be on the worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_refs: Option<Vec<ResourceRef>>,
    /// What keeps it on one worker with others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
}

impl Dispatch {
    pub(super) fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        let refs = |value: &Value<'_>| value.list(ResourceRef::read);
        Ok(Self {
            run_id: fields.required("run_id", Value::name)?,
            task_id: fields.required("task_id", Value::name)?,
            node_id: fields.required("node_id", Value::name)?,
            node_type: fields.required("node_type", Value::name)?,
            package_name: read_package(&fields, "package_name", "name")?,
            package_version: read_package(&fields, "package_version", "version")?,
            parameters: fields.required("parameters", Value::open)?,
            constraints: fields.required("constraints", Constraints::read)?,
            priority: fields.optional("priority", Value::integer)?,
            host_node_id: fields.optional("host_node_id", Value::text)?,
            middleware_chain: fields.optional("middleware_chain", |list| list.list(Value::text))?,
            chain_index: fields.optional("chain_index", Value::count)?,
            concurrency_key: fields.optional("concurrency_key", Value::text)?,
            resource_refs: fields.optional("resource_refs", refs)?,
            affinity: fields.optional("affinity", Affinity::read)?,
        })
    }

    /// The same for a peer of the plain vocabulary, which calls the owner of a resource otherwise.
    pub(super) fn encode_plain(&self) -> Box<RawValue> {
        let Some(refs) = &self.resource_refs else { return raw(self) };
        let refs: Vec<_> = refs.iter().map(ResourceRef::encode_plain).collect();
        let rest = raw(&Self { resource_refs: None, ..self.clone() });
        let open = rest.get().strip_suffix('}').expect("a struct is an object");
        // The refs become the last key, so that nothing else is written twice.
        let text = format!("{open},\"resource_refs\":{}}}", raw(&refs));
        RawValue::from_string(text).expect("an object with one more key")
    }
}

/// Seed 003 section 2 writes `"package": {"name", "version"}`.
fn read_package(
    fields: &Fields<'_>,
    key: &'static str,
    inner_key: &'static str,
) -> Result<String, DecodeError> {
    let inner = |package: &Value<'_>| package.object()?.required(inner_key, Value::name);
    match fields.optional(key, Value::name)? {
        Some(text) => Ok(text),
        None => match fields.optional("package", inner)? {
            Some(text) => Ok(text),
            None => fields.required(key, Value::name),
        },
    }
}

/// What a task must keep to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Constraints {
    /// How long it may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

impl Constraints {
    fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        Ok(Self { timeout_ms: value.object()?.optional("timeout_ms", Value::positive)? })
    }
}

/// The worker is done. The envelope's `corr` is the dispatch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExecResult {
    /// The run that it belongs to.
    pub run_id: String,
    /// Which task.
    pub task_id: String,
    /// How it ended.
    pub status: ResultStatus,
    /// What it made.
    pub result: OpenObject,
    /// How long it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Whatever else is known about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<OpenObject>,
    /// What it left on the worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Vec<Artifact>>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ResultError>,
}

impl ExecResult {
    pub(super) fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        let artifacts = |value: &Value<'_>| value.list(Artifact::read);
        Ok(Self {
            run_id: fields.required("run_id", Value::name)?,
            task_id: fields.required("task_id", Value::name)?,
            status: fields.required("status", ResultStatus::read)?,
            result: fields.required("result", Value::open)?,
            duration_ms: fields.optional("duration_ms", Value::count)?,
            metadata: fields.optional("metadata", Value::open)?,
            artifacts: fields.optional("artifacts", artifacts)?,
            error: fields.optional("error", ResultError::read)?,
        })
    }
}

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ResultStatus {
    /// It did what it should.
    Succeeded,
    /// It did not.
    Failed,
    /// There was nothing to do.
    Skipped,
    /// It was stopped.
    Cancelled,
}

impl ResultStatus {
    fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        value.capital_word("SUCCEEDED, FAILED, SKIPPED or CANCELLED")
    }
}

/// Why a task failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResultError {
    /// A code.
    pub code: String,
    /// The same for people.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remediation: Option<String>,
}

impl ResultError {
    fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        Ok(Self {
            code: fields.required("code", Value::name)?,
            message: fields.required("message", Value::text)?,
            remediation: fields.optional("remediation", Value::text)?,
        })
    }
}

/// The worker could not do what it was told.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExecError {
    /// A code.
    pub code: String,
    /// The same for people.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remediation: Option<String>,
    /// Where it happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<ErrorContext>,
}

impl ExecError {
    pub(super) fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        Ok(Self {
            code: fields.required("code", Value::name)?,
            message: fields.required("message", Value::text)?,
            remediation: fields.optional("remediation", Value::text)?,
            context: fields.optional("context", ErrorContext::read)?,
        })
    }
}

/// Where an error happened.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ErrorContext {
    /// In which part of the worker.
    #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// With what, such as the run and the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<OpenObject>,
}

impl ErrorContext {
    fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        Ok(Self {
            place: fields.optional("where", Value::text)?,
            details: fields.optional("details", Value::open)?,
        })
    }
}

/// The server wants the work of a lease to be stopped at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cancel {
    /// The run that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Which task.
    pub task_id: String,
    /// Why.
    pub reason: String,
    /// Which attempt.
    pub lease_id: String,
}

impl Cancel {
    pub(super) fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        Ok(Self {
            run_id: fields.optional("run_id", Value::name)?,
            task_id: fields.required("task_id", Value::name)?,
            reason: fields.required("reason", Value::text)?,
            lease_id: fields.required("lease_id", Value::name)?,
        })
    }
}

/// What became of a report; final for the attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Which attempt was reported.
    pub lease_id: String,
    /// The verdict.
    pub verdict: VerdictWord,
    /// Why, unless it was committed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Where the task stands after it. Any text: a worker obeys a verdict whatever states there
    /// will be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_state: Option<String>,
}

impl Verdict {
    pub(super) fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        let verdict = |value: &Value<'_>| value.word("COMMITTED, CANCELLED or REJECTED");
        Ok(Self {
            lease_id: fields.required("lease_id", Value::name)?,
            verdict: fields.required("verdict", verdict)?,
            reason: fields.optional("reason", Value::text)?,
            task_state: fields.optional("task_state", Value::text)?,
        })
    }
}
