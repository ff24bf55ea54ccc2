//! `astra worker start --resp`: a worker that pulls jobs over the Redis protocol.

use std::sync::Arc;
use std::time::Duration;

use model::WorkerId;
use worker::executor::Executor;
use worker::resp::address::Address;
use worker::resp::units;
use worker::resp::worker::{Options, RunningWorker, WorkerError};
use worker::session::capabilities::Offer;
use worker::session::worker::Credential;
use worker::worker::Summary;

use super::{farewell, machine_name};
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::{process, words};

/// The longest part of a machine's name that leaves room for the rest.
const MACHINE_CHARS_MAX: usize = 40;

/// What such a worker is made of.
pub(super) struct Parts {
    pub(super) address: Address,
    pub(super) name: Option<WorkerId>,
    pub(super) version: String,
    pub(super) credential: Credential,
    pub(super) offer: Offer,
    /// Names of agentic units.
    pub(super) units: Vec<String>,
    pub(super) executor: Arc<dyn Executor>,
    pub(super) drain_deadline: Duration,
}

/// Works until it is told to stop, then finishes what it has.
pub(super) async fn run(parts: Parts, output: Output) -> Result<ExitCode> {
    let deadline = parts.drain_deadline;
    let options = options(parts).await?;
    let slots = words::count(options.slots, "slot");
    let tools = words::count(options.tools.len(), "tool");
    let (name, address) = (options.worker_id.clone(), options.address.clone());
    output.note(format!("worker {name} · {slots} · {tools} · jobs of {address}"));
    let mut worker = RunningWorker::start(options);
    let ended = tokio::select! {
        ended = worker.ended() => ended,
        () = process::told_to_stop() => {
            worker.drain(deadline).await;
            output.note("finishing what is under way; Ctrl-C again leaves it behind");
            finish(&mut worker).await?
        }
    };
    let summary = ended.map_err(|error| failure(&error))?;
    Ok(farewell(&summary, output))
}

async fn finish(worker: &mut RunningWorker) -> Result<std::result::Result<Summary, WorkerError>> {
    tokio::select! {
        ended = worker.ended() => Ok(ended),
        () = process::told_to_stop() => {
            worker.stop().await;
            // What runs is stopped; how it went is of no interest any more.
            let _ = worker.ended().await;
            Err(crate::run::interrupted("jobs that were under way go back to the server"))
        }
    }
}

async fn options(parts: Parts) -> Result<Options> {
    let name = parts.name.unwrap_or_else(own_name);
    let mut options = Options::new(parts.address, name, parts.executor);
    options.key = match parts.credential {
        Credential::None => None,
        Credential::Token(key) => Some(key),
        Credential::Fingerprint(_) => {
            return Err(Failure::usage(
                "a certificate proves nothing over the Redis protocol",
                "unset ASTRA_WORKER_AUTH_MODE and show a key with --token or ASTRA_TOKEN",
            ));
        }
    };
    options.version = parts.version;
    options.slots = parts.offer.slots;
    options.queues = parts.offer.queues;
    options.tools = parts.offer.tools;
    options.units = units::describe_all(parts.units).await;
    options.tags = parts.offer.tags;
    options.drain_deadline = parts.drain_deadline;
    Ok(options)
}

/// `worker-<hostname>-<pid>`, as seed 004 section 2.2 has it: two workers of one machine must not
/// take each other's place, and nothing is kept from one start to the next.
fn own_name() -> WorkerId {
    let machine: String = machine_name().as_str().chars().take(MACHINE_CHARS_MAX).collect();
    let name = format!("worker-{machine}-{}", std::process::id());
    name.parse().expect("a worker's name and a number make one")
}

fn failure(error: &WorkerError) -> Failure {
    match error {
        WorkerError::WrongKey { .. } | WorkerError::NoKey { .. } => Failure::new(
            ExitCode::Auth,
            error,
            "show the right key with --token or ASTRA_TOKEN; whoever runs the server makes one \
             with `astra token create --role worker`",
        ),
        WorkerError::NotAllowed { .. } => Failure::new(
            ExitCode::Auth,
            error,
            "use a key of the role worker; one that was made for a single worker wants its --name",
        ),
        WorkerError::Refused { .. } => Failure::new(
            ExitCode::Conflict,
            error,
            "if the name is taken, choose another with --name, or show the key it was taken with",
        ),
        WorkerError::Panicked => Failure::new(ExitCode::Failed, error, ""),
    }
}
