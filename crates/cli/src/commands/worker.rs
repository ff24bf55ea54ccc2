//! `astra worker`.

pub(crate) mod programs;
mod resp;
pub(crate) mod start;

use std::time::{Duration, Instant};

use protocol::rest::workers::{
    AcceptedCommand, Health, KeptResources, Worker, WorkerCommand, Workers,
};
use tracing_subscriber::filter::LevelFilter;

use crate::config::{self, Flags, ServerFlags};
use crate::context::Context;
use crate::duration::Span;
use crate::failure::{ExitCode, Result};
use crate::format;
use crate::output::{self, Columns, Output, Show};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Start a worker. Ctrl-C drains it.
    Start(Box<start::Arguments>),
    /// List workers and their state on the server.
    List,
    /// Show one worker.
    Show {
        /// The worker's name.
        name: String,
    },
    /// Drain workers: running tasks finish, and no new ones are granted until `undrain`.
    Drain(DrainArguments),
    /// End a drain: workers are granted tasks again.
    Undrain {
        /// The workers' names.
        #[arg(required = true)]
        names: Vec<String>,
    },
}

pub(crate) async fn run(command: Command, flags: &Flags, output: Output) -> Result<ExitCode> {
    let config = config::load(flags, ServerFlags::default())?;
    match command {
        Command::Start(arguments) => {
            config::start_log(&config.log, LevelFilter::INFO);
            start::run(*arguments, flags, &config, output).await
        }
        Command::List => {
            let context = Context::new(&config, output)?;
            let workers: Workers = context.get("/api/v1/workers").await?;
            output.list(&workers, &workers.workers, &COLUMNS);
            Ok(ExitCode::Success)
        }
        Command::Show { name } => show(&name, &Context::new(&config, output)?).await,
        Command::Drain(arguments) => drain(&arguments, &Context::new(&config, output)?).await,
        Command::Undrain { names } => undrain(&names, &Context::new(&config, output)?).await,
    }
}

const COLUMNS: Columns<'_, Worker, 8> = Columns {
    none: "no workers; start one with `astra worker start`",
    id: |worker| worker.worker_id.clone(),
    header: ["NAME", "STATE", "SLOTS", "CPU", "MEM", "GRANTED", "VERSION", "SEEN"],
    row: |worker| {
        let session = worker.session.as_ref();
        let heartbeat = session.and_then(|session| session.heartbeat.as_ref());
        [
            worker.worker_id.clone(),
            state(worker),
            // What it works on, of what it can.
            match session {
                Some(session) => format!("{}/{}", worker.in_flight, session.slots),
                None => worker.in_flight.to_string(),
            },
            share(heartbeat.and_then(|said| said.cpu_pct)),
            share(heartbeat.and_then(|said| said.mem_pct)),
            worker.granted.to_string(),
            format::or_dash(session.map(|session| session.version.clone())),
            format::ago(&worker.last_seen),
        ]
    },
};

fn share(percent: Option<f64>) -> String {
    format::or_dash(percent.map(|percent| format!("{percent:.0}%")))
}

/// How a worker does, in a word, and why it is given nothing new.
fn state(worker: &Worker) -> String {
    let is_away = worker.session.as_ref().is_some_and(|session| !session.connected);
    match (worker.health, worker.drained_by.is_empty()) {
        (Health::Healthy, false) => "DRAINED".into(),
        (Health::Healthy, true) if is_away => "AWAY".into(),
        (other, _) => health(other).into(),
    }
}

const fn health(health: Health) -> &'static str {
    match health {
        Health::Healthy => "READY",
        Health::Warn => "WARN",
        Health::Degraded => "DEGRADED",
        Health::Lost => "LOST",
    }
}

/// How often a drain is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Tools that are shown by name.
const TOOLS_SHOWN: usize = 12;

#[derive(Debug, clap::Args)]
pub(crate) struct DrainArguments {
    /// The workers' names.
    #[arg(required = true)]
    names: Vec<String>,
    /// The reason, shown with the worker.
    #[arg(long)]
    reason: Option<String>,
    /// How long running tasks may take to finish.
    #[arg(long, value_name = "DURATION")]
    deadline: Option<Span>,
    /// Do not wait for the end of the drain.
    #[arg(short, long)]
    detach: bool,
}

async fn show(name: &str, context: &Context) -> Result<ExitCode> {
    let worker = look(name, context).await?;
    context.output.show(&worker);
    Ok(ExitCode::Success)
}

async fn look(name: &str, context: &Context) -> Result<Worker> {
    let path = format!("/api/v1/workers/{name}");
    context.get(&path).await
}

async fn tell(name: &str, command: &WorkerCommand, context: &Context) -> Result<AcceptedCommand> {
    let path = format!("/api/v1/workers/{name}/commands");
    context.post(&path, command).await
}

async fn drain(arguments: &DrainArguments, context: &Context) -> Result<ExitCode> {
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
            let took = format::span(started.elapsed());
            context.output.note(format!(
                "✓ {name} is done after {took}; it takes work again with `astra worker undrain {name}`"
            ));
            return Ok(());
        }
        if worker.in_flight != last {
            last = worker.in_flight;
            let tasks = format::count(last, "task");
            context.output.note(format!("{name} works on {tasks}; Ctrl-C leaves it draining"));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn undrain(names: &[String], context: &Context) -> Result<ExitCode> {
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
            ("seen", format::ago(&self.last_seen)),
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
            rows.push(("session since", format::ago(&session.since)));
            if let Some(said) = &session.heartbeat {
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
    let (resources, bytes) = (format::count(kept.count, "resource"), kept.disk_bytes);
    format!("{resources}, {} in use; {} bytes in files", kept.in_use, format::thousands(bytes))
}

fn some_of(names: &[String]) -> String {
    let shown = names[..names.len().min(TOOLS_SHOWN)].join(" ");
    match names.len().checked_sub(TOOLS_SHOWN).filter(|more| *more > 0) {
        Some(more) => format!("{shown} and {more} more"),
        None => shown,
    }
}
