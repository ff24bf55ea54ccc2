//! `astra worker`.

use std::sync::Arc;

use model::WorkerId;
use protocol::rest::workers::{Health, Workers};
use tokio_util::sync::CancellationToken;
use worker::attempt::Listener;
use worker::builtin::Builtin;
use worker::client::Client;
use worker::executor::Executor;
use worker::worker::{Options, Summary, Worker, WorkerError};

use crate::config::{self, Flags, LogLevel, ServerFlags};
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::{self, Output, Show};
use crate::{logging, process, words};

mod manage;
pub(crate) mod programs;
mod resp;
pub(crate) mod start;

const LIST_EXAMPLES: &str = "\
Examples:
  astra worker list
  astra worker list -o json
";

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Start a worker: it executes tasks and reports. Ctrl-C lets it finish first.
    #[command(before_help = start::EXAMPLES)]
    Start(Box<start::Arguments>),
    /// List workers, as the server sees them.
    #[command(before_help = LIST_EXAMPLES)]
    List,
    /// Show one worker.
    #[command(before_help = manage::SHOW_EXAMPLES)]
    Show {
        /// Which one.
        name: String,
    },
    /// Let workers finish and give them nothing new, until `undrain`.
    #[command(before_help = manage::DRAIN_EXAMPLES)]
    Drain(manage::DrainArguments),
    /// Give workers work again.
    #[command(before_help = manage::UNDRAIN_EXAMPLES)]
    Undrain {
        /// Which ones.
        #[arg(required = true)]
        names: Vec<String>,
    },
}

/// What a worker that pulls over HTTP is told.
#[derive(Clone, Debug, Default)]
pub(crate) struct StartArguments {
    /// Its name, the same one every time it starts.
    pub(crate) id: Option<WorkerId>,
    /// How many tasks it executes at a time.
    pub(crate) slots: usize,
    /// The queues that it serves; none means every queue.
    pub(crate) queue: Vec<String>,
    /// The tools that it has.
    pub(crate) tool: Vec<String>,
    /// The tags that it carries.
    pub(crate) tag: Vec<(String, String)>,
    /// The packages that it has installed.
    pub(crate) package: Vec<protocol::rest::tasks::Package>,
}

pub(crate) async fn run(command: Command, flags: &Flags, output: Output) -> Result<ExitCode> {
    let config = config::load(flags, ServerFlags::default())?;
    match command {
        Command::Start(arguments) => {
            logging::start(&config.log, LogLevel::Info);
            start::run(*arguments, flags, &config, output).await
        }
        Command::List => {
            let context = Context::new(&config, output)?;
            let workers: Workers = context.ask(context.client.get("/api/v1/workers")).await?;
            output.show(&workers);
            Ok(ExitCode::Success)
        }
        Command::Show { name } => manage::show(&name, &Context::new(&config, output)?).await,
        Command::Drain(arguments) => {
            manage::drain(&arguments, &Context::new(&config, output)?).await
        }
        Command::Undrain { names } => {
            manage::undrain(&names, &Context::new(&config, output)?).await
        }
    }
}

/// Starts a worker that pulls over HTTP.
async fn pull(arguments: StartArguments, context: &Context) -> Result<ExitCode> {
    let id = arguments.id.clone().unwrap_or_else(machine_name);
    let endpoint = context.client.endpoint();
    let slots = words::count(arguments.slots, "slot");
    let types = Builtin::default().types().join(" ");
    context.output.note(format!("worker {id} · {slots} · {types} · asking {endpoint} for work"));
    let executor = Arc::new(Builtin::default());
    let options = options(context.client.clone(), id, arguments, executor);
    let summary = work(options, context.output).await?;
    Ok(farewell(&summary, context.output))
}

fn farewell(summary: &Summary, output: Output) -> ExitCode {
    output.note(format!(
        "left: {} committed, {} superseded, {} refused",
        summary.committed, summary.cancelled, summary.rejected
    ));
    if summary.rejected == 0 { ExitCode::Success } else { ExitCode::Failed }
}

/// A worker's options, with nobody listening to its verdicts.
pub(crate) fn options(
    client: Client,
    worker_id: WorkerId,
    arguments: StartArguments,
    executor: Arc<dyn Executor>,
) -> Options {
    let nobody: Listener = Arc::new(|_| {});
    Options {
        client,
        worker_id,
        slots: arguments.slots,
        queues: (!arguments.queue.is_empty()).then_some(arguments.queue),
        tools: arguments.tool,
        tags: arguments.tag.into_iter().collect(),
        packages: arguments.package,
        executor,
        listener: nobody,
    }
}

/// Works until told to stop, then finishes what it holds; told a second time, leaves at once.
pub(crate) async fn work(options: Options, output: Output) -> Result<Summary> {
    let shutdown = CancellationToken::new();
    let running = Worker::new(options).run(shutdown.clone());
    tokio::pin!(running);
    let summary = tokio::select! {
        ended = &mut running => ended,
        () = process::told_to_stop() => {
            shutdown.cancel();
            output.note("finishing what is under way; Ctrl-C again leaves it behind");
            tokio::select! {
                ended = &mut running => ended,
                () = process::told_to_stop() => return Err(crate::run::interrupted(
                    "tasks that were under way come back when their leases end",
                )),
            }
        }
    };
    summary.map_err(|WorkerError::Refused(error)| Failure::from(error))
}

/// This machine's name, as far as it makes a worker's name.
fn machine_name() -> WorkerId {
    let name = std::fs::read_to_string("/etc/hostname").ok();
    let name = name.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    let fitting = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let name: String = name.trim().chars().take(64).map(fitting).collect();
    name.parse().unwrap_or_else(|_| "worker".parse().expect("a name that fits"))
}

impl Show for Workers {
    fn text(&self) -> String {
        if self.workers.is_empty() {
            return "no workers; start one with `astra worker start`".into();
        }
        let rows = self.workers.iter().map(|worker| {
            [
                worker.worker_id.clone(),
                state(worker),
                slots(worker),
                share(worker, |said| said.cpu_pct),
                share(worker, |said| said.mem_pct),
                worker.granted.to_string(),
                worker.session.as_ref().map_or("-".into(), |session| session.version.clone()),
                words::ago(&worker.last_seen),
            ]
        });
        let header = ["NAME", "STATE", "SLOTS", "CPU", "MEM", "GRANTED", "VERSION", "SEEN"];
        output::table(header, rows.collect())
    }

    fn quiet(&self) -> String {
        let ids: Vec<_> = self.workers.iter().map(|worker| worker.worker_id.as_str()).collect();
        ids.join("\n")
    }

    fn json_lines(&self) -> Vec<String> {
        self.workers.iter().map(output::json).collect()
    }
}

/// How a worker does, in a word, and why it is given nothing new.
fn state(worker: &protocol::rest::workers::Worker) -> String {
    let is_away = worker.session.as_ref().is_some_and(|session| !session.connected);
    match (worker.health, worker.drained_by.is_empty()) {
        (Health::Healthy, false) => "DRAINED".into(),
        (Health::Healthy, true) if is_away => "AWAY".into(),
        (other, _) => health(other).into(),
    }
}

/// `3/8`: what it works on, of what it can.
fn slots(worker: &protocol::rest::workers::Worker) -> String {
    match &worker.session {
        Some(session) => format!("{}/{}", worker.in_flight, session.slots),
        None => worker.in_flight.to_string(),
    }
}

fn share(
    worker: &protocol::rest::workers::Worker,
    which: impl Fn(&protocol::rest::workers::WorkerHeartbeat) -> Option<f64>,
) -> String {
    let said = worker.session.as_ref().and_then(|session| session.heartbeat.as_ref());
    said.and_then(which).map_or("-".into(), |share| format!("{share:.0}%"))
}

const fn health(health: Health) -> &'static str {
    match health {
        Health::Healthy => "READY",
        Health::Warn => "WARN",
        Health::Degraded => "DEGRADED",
        Health::Lost => "LOST",
    }
}
