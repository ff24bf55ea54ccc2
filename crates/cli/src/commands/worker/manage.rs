//! `astra worker show|drain|undrain`.

use std::time::{Duration, Instant};

use protocol::rest::workers::{AcceptedCommand, KeptResources, Worker, WorkerCommand};

use super::state;
use crate::context::Context;
use crate::duration::Span;
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::output::{self, Show};
use crate::words;

pub(super) const DRAIN_EXAMPLES: &str = "\
Examples:
  astra worker drain gpu-3                    give it nothing new, wait until it is done
  astra worker drain gpu-1 gpu-2 --detach     do not wait
  astra worker drain gpu-3 --deadline 10m --reason \"new kernel\"
";
pub(super) const SHOW_EXAMPLES: &str = "\
Examples:
  astra worker show gpu-3
  astra worker show gpu-3 -o json
";
pub(super) const UNDRAIN_EXAMPLES: &str = "\
Examples:
  astra worker undrain gpu-3
  astra worker undrain gpu-1 gpu-2
";
/// How often a drain is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Tools that are shown by name.
const TOOLS_SHOWN: usize = 12;

#[derive(Debug, clap::Args)]
pub(crate) struct DrainArguments {
    /// Which ones.
    #[arg(required = true)]
    names: Vec<String>,
    /// Why, for whoever looks.
    #[arg(long)]
    reason: Option<String>,
    /// How long they have to finish.
    #[arg(long, value_name = "DURATION")]
    deadline: Option<Span>,
    /// Do not wait until they are done.
    #[arg(short, long)]
    detach: bool,
}

pub(super) async fn show(name: &str, context: &Context) -> Result<ExitCode> {
    let worker = look(name, context).await?;
    context.output.show(&worker);
    Ok(ExitCode::Success)
}

async fn look(name: &str, context: &Context) -> Result<Worker> {
    let path = format!("/api/v1/workers/{name}");
    context.ask(context.client.get(&path)).await
}

async fn tell(name: &str, command: &WorkerCommand, context: &Context) -> Result<AcceptedCommand> {
    let path = format!("/api/v1/workers/{name}/commands");
    context.ask(context.client.post(&path, command)).await
}

pub(super) async fn drain(arguments: &DrainArguments, context: &Context) -> Result<ExitCode> {
    let deadline_ms = arguments.deadline.map(|span| u64::try_from(span.0.as_millis()));
    let command = WorkerCommand::Drain {
        reason: arguments.reason.clone(),
        deadline_ms: deadline_ms.and_then(std::result::Result::ok),
    };
    // All of them first: none shall take what another gives up.
    for name in &arguments.names {
        tell(name, &command, context).await?;
        context.output.note(format!("{name} is given nothing new"));
    }
    if arguments.detach {
        return Ok(ExitCode::Success);
    }
    for name in &arguments.names {
        until_done(name, context).await?;
    }
    Ok(ExitCode::Success)
}

async fn until_done(name: &str, context: &Context) -> Result<()> {
    let (started, mut last) = (Instant::now(), u64::MAX);
    loop {
        let worker = look(name, context).await?;
        if worker.in_flight == 0 {
            let took = words::span(started.elapsed());
            context.output.note(format!(
                "✓ {name} is done after {took}; it takes work again with `astra worker undrain {name}`"
            ));
            return Ok(());
        }
        if worker.in_flight != last {
            last = worker.in_flight;
            let tasks = words::count(usize::try_from(last).unwrap_or(usize::MAX), "task");
            context.output.note(format!("{name} works on {tasks}; Ctrl-C leaves it draining"));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

pub(super) async fn undrain(names: &[String], context: &Context) -> Result<ExitCode> {
    for name in names {
        tell(name, &WorkerCommand::Undrain, context).await?;
        context.output.note(format!("{name} takes work again"));
    }
    Ok(ExitCode::Success)
}

impl Show for Worker {
    fn text(&self) -> String {
        let mut rows = vec![
            ("state", state(self)),
            ("seen", words::ago(&self.last_seen)),
            ("running", self.in_flight.to_string()),
            ("granted", self.granted.to_string()),
        ];
        let causes: Vec<_> = self.drained_by.iter().map(output::json).collect();
        if !causes.is_empty() {
            rows.push(("drained by", causes.join(", ").replace('"', "")));
        }
        if let Some(session) = &self.session {
            rows.push(("slots", session.slots.to_string()));
            rows.push(("connected", if session.connected { "yes" } else { "no" }.into()));
            rows.push(("machine", session.hostname.clone()));
            rows.push(("version", session.version.clone()));
            rows.push(("instance", session.instance_id.clone()));
            rows.push(("session since", words::ago(&session.since)));
            if let Some(said) = &session.heartbeat {
                let share = |share: Option<f64>| share.map_or("-".into(), |s| format!("{s:.0}%"));
                let (cpu, mem) = (share(said.cpu_pct), share(said.mem_pct));
                let disk = share(said.disk_pct);
                rows.push(("load", format!("cpu {cpu}, memory {mem}, disk {disk}")));
                let kept = said.resources.filter(|kept| kept.count > 0);
                rows.extend(kept.map(|kept| ("keeps", keeps(&kept))));
            }
        }
        rows.push(("types", self.types.as_ref().map_or("every type".into(), |t| t.join(" "))));
        rows.push(("queues", self.queues.as_ref().map_or("every queue".into(), |q| q.join(" "))));
        let tags: Vec<_> = self.tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
        rows.extend((!tags.is_empty()).then(|| ("labels", tags.join(" "))));
        rows.extend((!self.tools.is_empty()).then(|| ("tools", some_of(&self.tools))));
        format!("{}\n{}", self.worker_id, output::facts(&rows))
    }

    fn quiet(&self) -> String {
        self.worker_id.clone()
    }
}

/// How much a worker keeps for later tasks.
fn keeps(kept: &KeptResources) -> String {
    let KeptResources { count, in_use, disk_bytes, mem_bytes } = *kept;
    let resources = words::count(usize::try_from(count).unwrap_or(usize::MAX), "resource");
    let (disk, mem) = (words::thousands(disk_bytes), words::thousands(mem_bytes));
    format!("{resources}, {in_use} in use; {disk} bytes in files, {mem} in memory")
}

fn some_of(names: &[String]) -> String {
    let shown = names[..names.len().min(TOOLS_SHOWN)].join(" ");
    match names.len().checked_sub(TOOLS_SHOWN).filter(|more| *more > 0) {
        Some(more) => format!("{shown} and {more} more"),
        None => shown,
    }
}
