//! `astra worker start --resp`: a worker that pulls jobs over the Redis protocol.

use std::sync::Arc;

use model::WorkerId;
use worker::core::executor::Toolbox;
use worker::core::identity::hostname;
use worker::runner::command::CommandRunner;
use worker::transport::resp::connection::Address;
use worker::transport::resp::{registration, worker as resp};
use worker::transport::ws::worker::Credential;

use super::start::{Start, offer, until_left};
use crate::failure::{ExitCode, Failure, Result};
use crate::format;

/// The longest part of a machine's name that leaves room for the rest.
const MACHINE_CHARS_MAX: usize = 40;

/// This machine's name, as far as it makes a worker's name.
pub(super) fn machine_name() -> WorkerId {
    let fitting = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let name: String = hostname().chars().take(64).map(fitting).collect();
    name.parse().unwrap_or_else(|_| "worker".parse().expect("a name that fits"))
}

/// Works until it is told to stop, then finishes what it has.
pub(super) async fn run(address: Address, start: Start<'_>) -> Result<ExitCode> {
    let output = start.output;
    let options = resp_options(address, start).await?;
    let deadline = options.drain_deadline;
    let slots = format::count(options.offer.slots, "slot");
    let tools = format::count(options.offer.tools.len(), "tool");
    let (name, address) = (&options.worker_id, &options.address);
    output.note(format!("worker {name} · {slots} · {tools} · jobs of {address}"));
    let hint = "jobs that were under way go back to the server";
    until_left(&mut resp::start(options), deadline, hint, output).await
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
    options.offer = offer(arguments, settings, &options.version, &commands);
    Ok(options)
}

/// `worker-<hostname>-<pid>`, as seed 004 section 2.2 has it: two workers of one machine must not
/// take each other's place, and nothing is kept from one start to the next.
fn own_name() -> WorkerId {
    let machine: String = machine_name().as_str().chars().take(MACHINE_CHARS_MAX).collect();
    let name = format!("worker-{machine}-{}", std::process::id());
    name.parse().expect("a worker's name and a number make one")
}
