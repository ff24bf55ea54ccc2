//! A worker with task types that exist to test the system itself.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::worker::builtin::Builtin;
use ::worker::core::executor::{Assignment, Context, Executor, Outcome, Work};
use ::worker::core::identity::Identity;
use ::worker::transport::ws::worker::Credential;
use ::worker::{Options, RunningWorker};
use anyhow::{Result, bail};
use client::Client;
use model::WorkerId;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::to_raw_value;
use tracing_subscriber::EnvFilter;

use crate::pull_worker::PullWorker;
use crate::test_cluster::Door;

/// Ends the worker's process.
pub(crate) const CRASH: &str = "core.crash";
/// Takes `ms`, then says under which lease it ran, so that a result tells whose it is.
pub(crate) const STAMP: &str = "core.stamp";
/// Builtin types that a worker without a session cannot execute.
const MIDDLEWARES: [&str; 3] = ["core.loop", "core.retry", "core.timeout"];
/// What the log tells: verdicts above all.
const LOG: &str = "info,worker::core::verdict=debug";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[arg(long)]
    server: String,
    #[arg(long, env = "ASTRA_TOKEN")]
    token: String,
    #[arg(long)]
    id: WorkerId,
    #[arg(long)]
    slots: usize,
    #[arg(long)]
    door: Door,
    /// Where it keeps its identity.
    #[arg(long)]
    data: PathBuf,
}

/// Works until it is killed, or until the server refuses it.
pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let Arguments { server, token, id, slots, door, data } = arguments;
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_env_filter(EnvFilter::new(LOG))
        .with_writer(std::io::stderr)
        .init();
    let client = Client::new(server.parse()?, Some(&token))?;
    match door {
        Door::Ws => {
            let identity = Identity::open(&data)?;
            let address = client.endpoint().clone().into();
            let executor = Arc::new(TestTypes::default());
            let mut options = Options::new(address, id.as_str(), identity, executor);
            options.credential = Credential::Token(token);
            options.offer.slots = slots;
            RunningWorker::start(options).await?.handle.ended().await?;
        }
        Door::Http => {
            let executor = Arc::new(TestTypes::default());
            // Middlewares call the next in line, which needs a session.
            let is_alone = |name: &String| !MIDDLEWARES.contains(&name.as_str());
            let types = executor.types().into_iter().filter(is_alone).collect();
            PullWorker { client, worker_id: id, slots, executor }.run(types).await?;
        }
        Door::Resp => bail!("jobs of Redis clients have no types for tests"),
    }
    Ok(())
}

/// What every worker executes, and the types for tests.
#[derive(Clone, Copy, Default)]
struct TestTypes(Builtin);

impl Executor for TestTypes {
    fn types(&self) -> Vec<String> {
        self.0.types().into_iter().chain([CRASH, STAMP].map(str::to_owned)).collect()
    }

    fn execute(&self, assignment: Assignment, context: Context) -> Work {
        match assignment.task_type.as_str() {
            CRASH => std::process::abort(),
            STAMP => Box::pin(stamp(assignment)),
            _ => self.0.execute(assignment, context),
        }
    }

    fn execute_at_once(&self, assignment: Assignment) -> Result<Outcome, Assignment> {
        match assignment.task_type.as_str() {
            CRASH | STAMP => Err(assignment),
            _ => self.0.execute_at_once(assignment),
        }
    }
}

#[derive(Default, Deserialize)]
struct Pause {
    #[serde(default)]
    ms: u64,
}

async fn stamp(assignment: Assignment) -> Outcome {
    let pause: Pause = serde_json::from_str(assignment.parameters.get()).unwrap_or_default();
    tokio::time::sleep(Duration::from_millis(pause.ms)).await;
    let result = to_raw_value(&json!({ "lease_id": assignment.lease_id }));
    Outcome::done(result.expect("a lease id is JSON"))
}
