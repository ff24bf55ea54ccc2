//! How a run comes into being and is found again, and what its results must look like.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use coordinator::{NewRun, Reused, RunAbout, RunRecord};
use flow::{Node, Problem, RESULT_SENTENCES_MAX, SchemaCheck};
use model::{IdempotencyKey, IdempotencyMark, RunId, ShardId, TenantId};
use protocol::rest::runs::{NodeStatus, RunNode};
use serde_json::Value;
use shard::report_key::fingerprint;
use store::{RunKey, RunQuery, Store, StoreError};

use super::programs::{CompileError, Programs, Ready};
use crate::app::App;
use crate::handle::{AskError, ShardHandle};
use crate::workflows;

/// Limit: what a run may be given.
pub(crate) const RUN_INPUTS_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Limit: the name of a run's client.
pub(crate) const CLIENT_ID_CHARS_MAX: usize = 256;

/// A run that someone asks for. The words in it were checked at the door.
pub(crate) struct NewRunRequest {
    /// What is executed.
    pub(crate) source: Source,
    /// A JSON object.
    pub(crate) inputs: Bytes,
    /// Who wants to hear of it.
    pub(crate) client_id: Option<String>,
    /// Recognises the same request when it is sent again.
    pub(crate) mark: Option<IdempotencyMark>,
    /// Who asks.
    pub(crate) started_by: String,
    /// What an earlier run has done already.
    pub(crate) retry: Option<RetryPart>,
}

/// Where the definition comes from.
pub(crate) enum Source {
    /// It came with the request.
    Inline(Bytes),
    /// It is kept here.
    Kept {
        /// The workflow.
        workflow_id: String,
        /// Which version; `None` is the newest.
        version: Option<u64>,
    },
    /// It is the one of an earlier run, perhaps with other parameters.
    Earlier {
        /// The definition.
        definition: Bytes,
        /// The kept version that the earlier run was started from.
        version: Option<u64>,
    },
}

/// What an earlier run has done already.
pub(crate) struct RetryPart {
    /// Which run.
    pub(crate) of: RunId,
    /// Nodes that need not be executed again.
    pub(crate) reused: Vec<Reused>,
}

impl RetryPart {
    /// What it takes up again, for a digest.
    fn bytes(&self) -> Vec<u8> {
        let nodes = self.reused.iter().flat_map(|reused| reused.node.to_be_bytes());
        self.of.to_integer().to_be_bytes().into_iter().chain(nodes).collect()
    }
}

/// A run that exists.
pub(crate) struct Started {
    /// The run as it is durable, without its definition.
    pub(crate) record: RunRecord,
    /// Whether an earlier request with the same key made it.
    pub(crate) existed: bool,
    /// What is odd about its definition.
    pub(crate) warnings: Arc<[Problem]>,
}

/// Why there is no new run. Nothing was made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// The workflow cannot run.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// There is no such workflow, or no such version.
    #[error("no workflow with the id {workflow_id}{}", version_words(*.version))]
    NoWorkflow {
        /// Its id.
        workflow_id: String,
        /// The version, if one was asked for.
        version: Option<u64>,
    },
    /// The key belongs to a run with other content.
    #[error("the key belongs to a run with other content")]
    Conflict(IdempotencyKey),
    /// Nobody answered, or the coordinator refused.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The store could not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn version_words(version: Option<u64>) -> String {
    version.map_or_else(String::new, |version| format!(" in version {version}"))
}

/// Starts a run. The answer comes when it survives a crash.
pub(crate) async fn start(
    app: &App,
    tenant: &TenantId,
    request: NewRunRequest,
) -> Result<Started, RunError> {
    let handle = app.directory.of(tenant).await?;
    if let Some(mark) = &request.mark
        && let Some(record) = earlier(&*app.store, handle.shard(), mark).await?
    {
        return Ok(Started { record, existed: true, warnings: Arc::default() });
    }
    let (run, warnings) = ready_run(&*app.store, &app.programs, handle.shard(), request).await?;
    let (run, existed) = handle.start_run(run).await?;
    let record = row(app, run).await?.ok_or(AskError::Unavailable)?;
    Ok(Started { record, existed, warnings })
}

/// Finds and compiles what a request asks for: the run, and what is odd about its definition.
pub(crate) async fn ready_run(
    store: &dyn Store,
    programs: &Programs,
    shard: ShardId,
    request: NewRunRequest,
) -> Result<(NewRun, Arc<[Problem]>), RunError> {
    let (definition, version) = definition_of(store, shard, request.source).await?;
    let ready = programs.compile(shard, definition).await?;
    let retry_of = request.retry.as_ref().map(|retry| retry.of);
    let about = RunAbout {
        workflow_version: version,
        client_id: request.client_id,
        retry_of,
        started_by: request.started_by,
        ..about(&ready)
    };
    let run = NewRun {
        program: Arc::clone(&ready.program),
        inputs: request.inputs,
        idempotency: request.mark,
        about: Arc::new(about),
        reused: request.retry.map(|retry| retry.reused).unwrap_or_default(),
    };
    Ok((run, ready.warnings))
}

/// What the program says about itself.
fn about(ready: &Ready) -> RunAbout {
    let graph = ready.program.graphs.first();
    RunAbout {
        name: graph.map(|graph| graph.name.clone()).unwrap_or_default(),
        workflow_id: graph.map(|graph| graph.id.to_string()).unwrap_or_default(),
        definition_hash: ready.hash.to_string(),
        nodes: graph.map_or(0, |graph| u32::try_from(graph.nodes.len()).unwrap_or(u32::MAX)),
        ..RunAbout::default()
    }
}

/// Whether a run of this could be started at all.
pub(crate) async fn check(app: &App, shard: ShardId, source: Source) -> Result<(), RunError> {
    let (definition, _) = definition_of(&*app.store, shard, source).await?;
    app.programs.compile(shard, definition).await?;
    Ok(())
}

/// The run that an earlier request with the same key made.
pub(crate) async fn earlier(
    store: &dyn Store,
    shard: ShardId,
    mark: &IdempotencyMark,
) -> Result<Option<RunRecord>, RunError> {
    let found = store.run(shard, RunKey::Idempotency(mark.key.clone())).await?;
    let Some(record) = found else { return Ok(None) };
    if record.idempotency.as_ref().is_some_and(|kept| kept.fingerprint == mark.fingerprint) {
        return Ok(Some(record));
    }
    Err(RunError::Conflict(mark.key.clone()))
}

async fn definition_of(
    store: &dyn Store,
    shard: ShardId,
    source: Source,
) -> Result<(Bytes, Option<u64>), RunError> {
    match source {
        Source::Inline(definition) => Ok((definition, None)),
        Source::Earlier { definition, version } => Ok((definition, version)),
        Source::Kept { workflow_id, version } => {
            let found = workflows::find(store, shard, &workflow_id, version).await?;
            let kept = found.ok_or(RunError::NoWorkflow { workflow_id, version })?;
            Ok((kept.definition, Some(kept.entry.version)))
        }
    }
}

impl NewRunRequest {
    /// A run that takes up no other one, without a key.
    pub(crate) fn new(source: Source, inputs: Bytes, started_by: String) -> Self {
        Self { source, inputs, client_id: None, mark: None, started_by, retry: None }
    }

    /// The same request under its sender's key, with a digest of what is asked. How the JSON was
    /// laid out makes a difference: who sends the same request again sends the same bytes.
    #[must_use]
    pub(crate) fn under(mut self, key: Option<IdempotencyKey>) -> Self {
        let Some(key) = key else { return self };
        let number = |version: &Option<u64>| version.unwrap_or(0).to_be_bytes();
        let source: [&[u8]; 3] = match &self.source {
            Source::Inline(definition) => [b"inline", definition, b""],
            Source::Kept { workflow_id, version } => {
                [b"kept", workflow_id.as_bytes(), &number(version)]
            }
            Source::Earlier { definition, .. } => [b"earlier", definition, b""],
        };
        let client = self.client_id.as_deref().unwrap_or_default();
        let again = self.retry.as_ref().map(RetryPart::bytes).unwrap_or_default();
        let [one, two, three] = source;
        let parts = [one, two, three, &self.inputs, client.as_bytes(), &again];
        let fingerprint = fingerprint(b"astra run\0", &parts);
        self.mark = Some(IdempotencyMark { key, fingerprint });
        self
    }
}

/// Waits until a run has ended, but no longer than this.
pub(crate) async fn wait(
    app: &App,
    handle: &ShardHandle,
    run: RunId,
    at_most: Duration,
) -> Result<(), AskError> {
    let until = app.clock.now().after(at_most);
    handle.watch_run(run, until).await
}

/// The run of this shard that a text names: its UUID, or its number.
pub(crate) fn by_name(name: &str, shard: ShardId) -> Option<RunId> {
    if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) {
        let number: u64 = name.parse().ok()?;
        let fits = number <= shard.last_task().number();
        return fits.then(|| RunId::of(shard, number));
    }
    name.parse().ok().filter(|run: &RunId| run.shard() == shard)
}

/// A run as it is durable, without its definition, which may be large.
pub(crate) async fn row(app: &App, run: RunId) -> Result<Option<RunRecord>, StoreError> {
    let shard = run.shard();
    let after = RunId::of(shard, run.number().saturating_add(1).min(shard.last_task().number()));
    let query = RunQuery { before: Some(after), limit: 1, ..RunQuery::default() };
    let page = app.store.runs(shard, query).await?;
    Ok(page.runs.into_iter().next().filter(|record| record.id == run))
}

/// Looks at the results of one run.
#[derive(Default)]
pub(crate) struct Promises<'a> {
    check: SchemaCheck<'a>,
}

impl<'a> Promises<'a> {
    /// Adds a warning for everything that is not as the author says. The result stands: what a
    /// worker reported has happened, and others may have gone on with it.
    pub(crate) fn look(&mut self, node: &'a Node, row: &mut RunNode) {
        let Some(schema) = &node.results else { return };
        if row.status != NodeStatus::Succeeded {
            return;
        }
        let given = row.result.as_deref().and_then(|raw| serde_json::from_str(raw.get()).ok());
        let Some(result) = given else { return };
        if node.map.is_none() {
            row.warnings = self.check.of_result(schema, &result);
            return;
        }
        // The author speaks of one element.
        let items = result.get("items").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for (index, item) in items.iter().enumerate().filter(|(_, item)| !item.is_null()) {
            let told = self.check.of_result(schema, item);
            row.warnings.extend(told.into_iter().map(|told| format!("element {index}: {told}")));
            if row.warnings.len() >= RESULT_SENTENCES_MAX {
                row.warnings.truncate(RESULT_SENTENCES_MAX);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_two_names_and_only_in_its_own_shard() {
        let shard = ShardId::new(3).expect("fits");
        let run = RunId::of(shard, 41);
        assert_eq!(by_name("41", shard), Some(run));
        assert_eq!(by_name(&run.to_string(), shard), Some(run));
        assert_eq!(by_name(&run.to_string(), ShardId::new(4).expect("fits")), None);
        for wrong in ["", "x", "-1", "+1", "1099511627776", "99999999999999999999999"] {
            assert_eq!(by_name(wrong, shard), None, "{wrong}");
        }
    }
}
