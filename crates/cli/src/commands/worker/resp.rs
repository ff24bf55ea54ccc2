//! `astra worker start --resp`: a worker that pulls jobs over the Redis protocol.

use std::sync::Arc;

use model::WorkerId;
use worker::core::executor::Toolbox;
use worker::core::verdict::Summary;
use worker::runner::command::CommandRunner;
use worker::transport::resp::connection::Address;
use worker::transport::resp::{registration, worker as resp};
use worker::transport::ws::worker::Credential;

use super::start::Start;
use crate::failure::{ExitCode, Failure, Result};
use crate::output::Output;
use crate::run::interrupted;
use crate::{format, interrupts};

/// The longest part of a machine's name that leaves room for the rest.
const MACHINE_CHARS_MAX: usize = 40;
/// What is said while a worker finishes.
pub(super) const FINISHING: &str = "finishing what is under way; Ctrl-C again leaves it behind";

pub(super) fn farewell(summary: &Summary, output: Output) -> ExitCode {
    output.note(format!(
        "left: {} committed, {} superseded, {} refused",
        summary.committed, summary.cancelled, summary.rejected
    ));
    if summary.rejected == 0 { ExitCode::Success } else { ExitCode::Failed }
}

/// This machine's name, as far as it makes a worker's name.
pub(super) fn machine_name() -> WorkerId {
    let name = std::fs::read_to_string("/etc/hostname").ok();
    let name = name.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    let fitting = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let name: String = name.trim().chars().take(64).map(fitting).collect();
    name.parse().unwrap_or_else(|_| "worker".parse().expect("a name that fits"))
}

/// Works until it is told to stop, then finishes what it has.
pub(super) async fn run(address: Address, start: Start<'_>) -> Result<ExitCode> {
    let output = start.output;
    let options = resp_options(address, start).await?;
    let deadline = options.drain_deadline;
    let slots = format::count(options.slots, "slot");
    let tools = format::count(options.tools.len(), "tool");
    let (name, address) = (&options.worker_id, &options.address);
    output.note(format!("worker {name} · {slots} · {tools} · jobs of {address}"));
    let mut worker = resp::RunningWorker::start(options);
    let ended = tokio::select! {
        ended = worker.ended() => ended,
        () = interrupts::told_to_stop() => {
            worker.drain(deadline).await;
            output.note(FINISHING);
            tokio::select! {
                ended = worker.ended() => ended,
                () = interrupts::told_to_stop() => {
                    worker.stop().await;
                    // What runs is stopped; how it went is of no interest any more.
                    let _ = worker.ended().await;
                    return Err(interrupted("jobs that were under way go back to the server"));
                }
            }
        }
    };
    let summary = ended.map_err(|error| resp_failure(&error))?;
    Ok(farewell(&summary, output))
}

async fn resp_options(address: Address, start: Start<'_>) -> Result<resp::Options> {
    let commands = start.arguments.programs.options(&start.settings)?;
    let toolbox = Toolbox::usual(CommandRunner::new(commands.clone()));
    let name = match start.arguments.name.clone() {
        Some(name) => name,
        None => start.name_set()?.unwrap_or_else(own_name),
    };
    let mut options = resp::Options::new(address, name, Arc::new(toolbox));
    options.key = match start.credential()? {
        Credential::None => None,
        Credential::Token(key) => Some(key),
        Credential::Fingerprint(_) => {
            return Err(Failure::usage(
                "a certificate proves nothing over the Redis protocol",
                "unset ASTRA_WORKER_AUTH_MODE and show a key with --token or ASTRA_TOKEN",
            ));
        }
    };
    let Start { arguments, settings, .. } = start;
    options.version = settings.version.clone().unwrap_or(options.version);
    options.drain_deadline = arguments.drain_deadline.map_or(resp::DRAIN_DEADLINE, |span| span.0);
    let units = arguments.unit.iter().map(ToString::to_string).collect();
    options.units = registration::describe_all(units).await;
    let offer = super::start::offer(arguments, settings, &options.version, &commands);
    options.slots = offer.slots;
    options.queues = offer.queues;
    options.tools = offer.tools;
    options.tags = offer.tags;
    Ok(options)
}

/// `worker-<hostname>-<pid>`, as seed 004 section 2.2 has it: two workers of one machine must not
/// take each other's place, and nothing is kept from one start to the next.
fn own_name() -> WorkerId {
    let machine: String = machine_name().as_str().chars().take(MACHINE_CHARS_MAX).collect();
    let name = format!("worker-{machine}-{}", std::process::id());
    name.parse().expect("a worker's name and a number make one")
}

fn resp_failure(error: &resp::WorkerError) -> Failure {
    match error {
        resp::WorkerError::WrongKey { .. } | resp::WorkerError::NoKey { .. } => Failure::new(
            ExitCode::Auth,
            error,
            "show the right key with --token or ASTRA_TOKEN; whoever runs the server makes one \
             with `astra token create --role worker`",
        ),
        resp::WorkerError::NotAllowed { .. } => Failure::new(
            ExitCode::Auth,
            error,
            "use a key of the role worker; one that was made for a single worker wants its --name",
        ),
        resp::WorkerError::Refused { .. } => Failure::new(
            ExitCode::Conflict,
            error,
            "if the name is taken, choose another with --name, or show the key it was taken with",
        ),
        resp::WorkerError::Panicked => Failure::new(ExitCode::Failed, error, ""),
    }
}
