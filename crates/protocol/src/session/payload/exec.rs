//! Work, from its dispatch to the verdict about it: how it fares meanwhile, what its middlewares
//! ask for, and who else gets it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Number;
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::super::codec::{OpenObject, raw};
use super::super::rule::{Capitals, Fraction, Positive, Rule, Text};
use super::resource::{Affinity, Artifact, ResourceRef};
use crate::rest::leases::VerdictWord;

/// The server has work. The envelope's `id` is the lease, its `corr` the task.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    pub priority: Option<i64>,
    /// The node that a middleware is attached to.
    #[serde(deserialize_with = "Text::read")]
    pub host_node_id: Option<String>,
    /// The middlewares of that node, in order.
    #[serde(deserialize_with = "Text::read")]
    pub middleware_chain: Option<Vec<String>>,
    /// This middleware's place among them.
    pub chain_index: Option<u64>,
    /// At most one task with this key runs at a time.
    #[serde(deserialize_with = "Text::read")]
    pub concurrency_key: Option<String>,
    /// What must already be on the worker.
    pub resource_refs: Option<Vec<ResourceRef>>,
    /// What keeps it on one worker with others.
    pub affinity: Option<Affinity>,
}

impl Dispatch {
    /// The same for a peer of the plain vocabulary, which calls the owner of a resource otherwise.
    pub(in super::super) fn encode_plain(&self) -> Box<RawValue> {
        let Some(refs) = &self.resource_refs else { return raw(self) };
        let refs: Vec<_> = refs.iter().map(ResourceRef::encode_plain).collect();
        let rest = raw(&Self { resource_refs: None, ..self.clone() });
        let open = rest.get().strip_suffix('}').expect("a struct is an object");
        // The refs become the last key, so that nothing else is written twice.
        let text = format!("{open},\"resource_refs\":{}}}", raw(&refs));
        RawValue::from_string(text).expect("an object with one more key")
    }
}

/// What a task must keep to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Constraints {
    /// How long it may run.
    #[serde(deserialize_with = "Positive::read", skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// The worker is done. The envelope's `corr` is the dispatch.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecResult {
    /// The run that it belongs to.
    pub run_id: String,
    /// Which task.
    pub task_id: String,
    /// How it ended.
    #[serde(deserialize_with = "Capitals::read")]
    pub status: ResultStatus,
    /// What it made.
    pub result: OpenObject,
    /// How long it took.
    pub duration_ms: Option<u64>,
    /// Whatever else is known about it.
    pub metadata: Option<OpenObject>,
    /// What it left on the worker.
    pub artifacts: Option<Vec<Artifact>>,
    /// Why it failed.
    pub error: Option<ResultError>,
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

/// Why a task failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultError {
    /// A code.
    pub code: String,
    /// The same for people.
    #[serde(deserialize_with = "Text::read")]
    pub message: String,
    /// What to do about it.
    #[serde(deserialize_with = "Text::read", skip_serializing_if = "Option::is_none")]
    pub remediation: Option<String>,
}

/// The worker could not do what it was told.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecError {
    /// A code.
    pub code: String,
    /// The same for people.
    #[serde(deserialize_with = "Text::read")]
    pub message: String,
    /// What to do about it.
    #[serde(deserialize_with = "Text::read")]
    pub remediation: Option<String>,
    /// Where it happened.
    pub context: Option<ErrorContext>,
}

/// Where an error happened.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorContext {
    /// In which part of the worker.
    #[serde(rename = "where", deserialize_with = "Text::read")]
    pub place: Option<String>,
    /// With what, such as the run and the task.
    pub details: Option<OpenObject>,
}

/// The server wants the work of a lease to be stopped at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    /// The run that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Which task.
    pub task_id: String,
    /// Why.
    #[serde(deserialize_with = "Text::read")]
    pub reason: String,
    /// Which attempt.
    pub lease_id: String,
}

/// What became of a report; final for the attempt.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Which attempt was reported.
    pub lease_id: String,
    /// The verdict.
    pub verdict: VerdictWord,
    /// Why, unless it was committed.
    #[serde(deserialize_with = "Text::read")]
    pub reason: Option<String>,
    /// Where the task stands after it. Any text: a worker obeys a verdict whatever states there
    /// will be.
    #[serde(deserialize_with = "Text::read")]
    pub task_state: Option<String>,
}

/// The worker says how it goes.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Feedback {
    /// The run that it belongs to.
    pub run_id: String,
    /// Which task.
    pub task_id: String,
    /// What it is at, in a word.
    #[serde(deserialize_with = "Text::read")]
    pub stage: Option<String>,
    /// How much is done, from 0 to 1.
    #[serde(deserialize_with = "Fraction::read")]
    pub progress: Option<f64>,
    /// What it is at, for people.
    #[serde(deserialize_with = "Text::read")]
    pub message: Option<String>,
    /// What it put out.
    pub chunks: Option<Vec<Chunk>>,
    /// What it measured.
    pub metrics: Option<BTreeMap<String, Number>>,
    /// Whatever else; `results` in it is a part of the result.
    pub metadata: Option<OpenObject>,
}

/// A piece of what a task puts out.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chunk {
    /// Where it was put out.
    pub channel: Channel,
    /// Its place in the channel.
    pub index: Option<u64>,
    /// What kind of data it is.
    #[serde(deserialize_with = "Text::read")]
    pub mime_type: Option<String>,
    /// The data, if it is text.
    #[serde(deserialize_with = "Text::read")]
    pub text: Option<String>,
    /// The data, if it is not.
    #[serde(deserialize_with = "Text::read")]
    pub data_base64: Option<String>,
    /// Whatever else is known about it.
    pub metadata: Option<OpenObject>,
}

model::words! {
    /// Where a task puts something out.
    Channel {
        /// The standard output.
        Stdout = "stdout",
        /// The standard error.
        Stderr = "stderr",
        /// A log.
        Log = "log",
        /// The words of a language model.
        Llm = "llm",
        /// Measures.
        Metric = "metric",
        /// Anything else.
        Custom = "custom",
    }
}

/// A middleware asks for the next link of its chain to be executed.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    pub chain_index: Option<u64>,
    /// What the host was given.
    pub host_ctx: Option<OpenObject>,
    /// What the middleware keeps.
    pub middleware_ctx: Option<OpenObject>,
    /// What the next link is given.
    pub payload: Option<OpenObject>,
    /// How long the middleware waits.
    pub timeout_ms: Option<u64>,
}

/// What the next link of the chain answered.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    pub result: Option<OpenObject>,
    /// Why it made nothing.
    pub error: Option<CodedError>,
    /// How it went.
    pub trace: Option<OpenObject>,
}

/// Why the next link made nothing, or a part of a resource cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodedError {
    /// A code, like `next_timeout` or `E.RESOURCE.MISSING`.
    pub code: String,
    /// The same for people.
    #[serde(deserialize_with = "Text::read")]
    pub message: String,
}

/// How the work of a run is bound, as far as it concerns the worker that is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rebind {
    /// Which run.
    pub run_id: String,
    /// What it means for the worker that is told.
    pub mode: RebindMode,
    /// The work that was this worker's, or is from here on.
    pub bindings: Vec<ReboundWork>,
}

/// What a rebind means for the worker that is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RebindMode {
    /// The work goes to whom `bindings` names first.
    Switch,
    /// It gets nothing more of the run.
    Drain,
}

/// Who has some work of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReboundWork {
    /// Its package, or its type where it needs none.
    pub package: String,
    /// Who has it; the next that asks, where nobody is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_name: Option<String>,
}
