//! `astra worker start`: puts flags, environment and settings together, and runs the worker.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use model::{ToolName, WorkerId};
use protocol::rest::tasks::Package;
use protocol::session::payload::control::AuthMode;
use worker::core::capabilities::{self, Offer};
use worker::core::executor::Toolbox;
use worker::core::handle::{WorkerError, WorkerHandle};
use worker::core::identity::{Identity, IdentityError};
use worker::core::verdict::Summary;
use worker::runner::command::{self, CommandRunner};
use worker::transport::resp::connection::Address as RespAddress;
use worker::transport::ws::settings::{SLOTS_MAX, Settings};
use worker::transport::ws::socket::Address;
use worker::transport::ws::worker::{Credential, DRAIN_DEADLINE};
use worker::{Options, RunningWorker};

use super::programs::{self, ProgramFlags};
use super::resp::{self, machine_name};
use crate::commands::task::{parse_package, parse_tag};
use crate::config::{Config, DATA_DEFAULT, Flags};
use crate::context::Context;
use crate::duration::Span;
use crate::failure::{ExitCode, Failure, Result};
use crate::output::Output;
use crate::run::interrupted;
use crate::{format, interrupts};

/// Where workers keep what is theirs, inside the data folder.
const WORKERS_FOLDER: &str = "workers";
/// The package of the builtin types.
const CORE: &str = "core";

#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Arguments {
    /// The worker's name, the same at each start. Default: `ASTRA_WORKER_NAME`, else this
    /// machine's name.
    #[arg(long, alias = "id", value_name = "NAME")]
    pub(super) name: Option<WorkerId>,
    /// The number of tasks executed at a time. Default: `ASTRA_WORKER_CONCURRENCY_MAX_PARALLEL`,
    /// else the number of processors, at least 4.
    #[arg(long, value_parser = parse_slots)]
    pub(super) slots: Option<usize>,
    /// A queue to serve; may be given several times. Default: every queue; with `--resp`,
    /// `ready`.
    #[arg(long)]
    pub(super) queue: Vec<String>,
    /// A tool to offer besides those on PATH; may be given several times.
    #[arg(long)]
    pub(super) tool: Vec<String>,
    /// An agentic unit to offer, with `--resp`: a program that describes itself when it is called
    /// with `--describe`; may be given several times.
    #[arg(long, requires = "resp", value_name = "PROGRAM")]
    pub(super) unit: Vec<ToolName>,
    /// A label of the worker; may be given several times.
    #[arg(long, alias = "tag", value_name = "KEY=VALUE", value_parser = parse_tag)]
    pub(super) label: Vec<(String, String)>,
    /// An installed package; may be given several times.
    #[arg(long, value_name = "NAME@VERSION", value_parser = parse_package)]
    pub(super) package: Vec<Package>,
    /// The folder of the worker's identity. Default: `ASTRA_WORKER_DATA_DIR`, else `workers/NAME` in the
    /// data folder.
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// The address of the metrics for Prometheus, like 127.0.0.1:9100. Default: none.
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// How long running tasks may take to finish in a drain. Default: 30s; with `--resp`, 5m.
    #[arg(long, value_name = "DURATION")]
    pub(super) drain_deadline: Option<Span>,
    #[command(flatten)]
    pub(super) programs: ProgramFlags,
    /// Pull jobs over the Redis protocol from this address, like 127.0.0.1:6380 or
    /// `unix:/run/astra.sock`; other servers of the protocol work too. The token is the key, and
    /// `NAME@` before the address is the user.
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["metrics", "package", "data"])]
    pub(super) resp: Option<RespAddress>,
}

fn parse_slots(text: &str) -> std::result::Result<usize, String> {
    match text.parse() {
        Ok(slots) if (1..=SLOTS_MAX).contains(&slots) => Ok(slots),
        _ => Err(format!("not a number from 1 to {SLOTS_MAX}")),
    }
}

/// What a worker is started with.
pub(super) struct Start<'a> {
    pub(super) arguments: Arguments,
    pub(super) settings: Settings,
    pub(super) flags: &'a Flags,
    pub(super) config: &'a Config,
    pub(super) output: Output,
}

pub(super) async fn run(
    arguments: Arguments,
    flags: &Flags,
    config: &Config,
    output: Output,
) -> Result<ExitCode> {
    let settings = Settings::read(|name| std::env::var(name).ok()).map_err(|error| {
        Failure::usage(error, "correct the variable, or unset it to have the default")
    })?;
    let start = Start { arguments, settings, flags, config, output };
    match start.arguments.resp.clone() {
        Some(address) => resp::run(address, start).await,
        None => start.hold_session().await,
    }
}

/// Waits until the worker has left: at the first signal to stop it finishes what it has, at the
/// second it leaves that behind.
pub(super) async fn until_left(
    worker: &mut WorkerHandle,
    deadline: Duration,
    hint: &str,
    output: Output,
) -> Result<ExitCode> {
    let ended = tokio::select! {
        ended = worker.ended() => ended,
        () = interrupts::told_to_stop() => {
            worker.drain(deadline).await;
            output.note("finishing what is under way; Ctrl-C again leaves it behind");
            tokio::select! {
                ended = worker.ended() => ended,
                () = interrupts::told_to_stop() => {
                    worker.stop().await;
                    // What runs is stopped; how it went is of no interest any more.
                    let _ = worker.ended().await;
                    return Err(interrupted(hint));
                }
            }
        }
    };
    let Summary { committed, cancelled, rejected, .. } = ended.map_err(|error| failure(&error))?;
    output.note(format!("left: {committed} committed, {cancelled} superseded, {rejected} refused"));
    Ok(if rejected == 0 { ExitCode::Success } else { ExitCode::Failed })
}

impl Start<'_> {
    /// The name that the environment gives it.
    pub(super) fn name_set(&self) -> Result<Option<WorkerId>> {
        let Some(name) = &self.settings.name else { return Ok(None) };
        let why = |error| format!("ASTRA_WORKER_NAME: {name} is no name of a worker: {error}");
        let invalid = |error| Failure::usage(why(error), "use letters, digits, - and _");
        name.parse().map(Some).map_err(invalid)
    }

    async fn hold_session(self) -> Result<ExitCode> {
        let output = self.output;
        let deadline = self.arguments.drain_deadline.map_or(DRAIN_DEADLINE, |span| span.0);
        let options = self.options()?;
        let types = options.executor.types().join(" ");
        let slots = format::count(options.offer.slots, "slot");
        let (name, address) = (options.name.clone(), options.address.clone());
        output.note(format!("worker {name} · {slots} · {types} · session with {address}"));
        let mut worker = RunningWorker::start(options).await.map_err(|error| failure(&error))?;
        if let Some(address) = worker.metrics_address() {
            output.note(format!("metrics at http://{address}/metrics"));
        }
        let hint = "tasks that were under way come back when their leases end";
        until_left(&mut worker.handle, deadline, hint, output).await
    }

    fn options(self) -> Result<Options> {
        let credential = self.credential()?;
        let Start { arguments, settings, flags, config, output } = self;
        let flag_name = arguments.name.as_ref().map(ToString::to_string);
        let name =
            flag_name.or(settings.name.clone()).unwrap_or_else(|| machine_name().to_string());
        // A flag goes before a variable, and a variable of workers before one of all commands.
        let address = match &settings.address {
            Some(address) if flags.server.is_none() => address.clone(),
            _ => Context::new(config, output)?.client.endpoint().clone().into(),
        };
        let data = arguments.data.clone().or(settings.data.clone()).unwrap_or_else(|| {
            let folder = config.data.as_deref().unwrap_or(Path::new(DATA_DEFAULT));
            folder.join(WORKERS_FOLDER).join(&name)
        });
        let commands = arguments.programs.options(&settings)?;
        let mut options = plain(address, &name, &data, &commands)?;
        options.credential = credential;
        options.metrics = arguments.metrics;
        options.resources = settings.resources;
        options.tenant = settings.tenant.clone().unwrap_or(options.tenant);
        options.version = settings.version.clone().unwrap_or(options.version);
        options.heartbeat_every = settings.heartbeat_every.unwrap_or(options.heartbeat_every);
        options.accept_timeout = settings.accept_timeout;
        options.window = settings.window.unwrap_or(options.window);
        options.offer = offer(arguments, settings, &options.version, &commands);
        Ok(options)
    }

    pub(super) fn credential(&self) -> Result<Credential> {
        let Start { settings, flags, config, .. } = self;
        if settings.auth_mode == Some(AuthMode::Mtls) {
            let wanted = "ASTRA_WORKER_AUTH_MODE=mtls needs ASTRA_WORKER_AUTH_FINGERPRINT";
            let print = settings.auth_fingerprint.clone();
            let print = print.ok_or_else(|| Failure::usage(wanted, "set both, or show a token"))?;
            return Ok(Credential::Fingerprint(print));
        }
        let has_flag = flags.token.is_some() || flags.token_file.is_some();
        let of_worker = settings.auth_token.clone().filter(|_| !has_flag);
        let token = match of_worker {
            Some(token) => Some(token),
            None => config.token()?,
        };
        Ok(token.map_or(Credential::None, Credential::Token))
    }
}

/// A worker of this machine, which offers nothing yet.
fn plain(
    address: Address,
    name: &str,
    data: &Path,
    commands: &command::Options,
) -> Result<Options> {
    let identity = Identity::open(data).map_err(|error| identity_failure(&error))?;
    let toolbox = Toolbox::usual(CommandRunner::new(commands.clone()));
    Ok(Options::new(address, name, identity, Arc::new(toolbox)))
}

/// A worker with what this machine has, for a server in the same process.
pub(crate) fn usual(
    address: Address,
    name: &str,
    data: &Path,
    (slots, commands): (usize, &command::Options),
) -> Result<Options> {
    let mut options = plain(address, name, &data.join(WORKERS_FOLDER).join(name), commands)?;
    let arguments = Arguments { slots: Some(slots), ..Arguments::default() };
    options.offer = offer(arguments, Settings::default(), &options.version, commands);
    Ok(options)
}

pub(super) fn offer(
    arguments: Arguments,
    settings: Settings,
    version: &str,
    commands: &command::Options,
) -> Offer {
    let tools = programs::offered(commands, arguments.tool);
    // What holds programs is not a matter of what somebody writes on the worker.
    let labels = arguments.label.into_iter().filter(|(key, _)| key != programs::SANDBOX_LABEL);
    let tags = labels.chain(programs::label(commands)).collect();
    let mut runtimes = vec!["builtin".to_owned(), "command".to_owned()];
    let python = capabilities::find_python();
    runtimes.extend(python.as_ref().map(|_| "python".to_owned()));
    let mut packages = vec![Package { name: CORE.into(), version: version.into() }];
    packages.extend(arguments.package);
    Offer {
        slots: arguments.slots.or(settings.slots).unwrap_or_else(capabilities::slots_default),
        per_type_limits: settings.per_type_limits.unwrap_or_default(),
        runtimes: settings.runtimes.unwrap_or(runtimes),
        runtime_versions: python
            .map(|version| ("python".to_owned(), version))
            .into_iter()
            .collect(),
        features: settings.features.unwrap_or_default(),
        tools,
        tags,
        queues: arguments.queue,
        packages,
    }
}

fn identity_failure(error: &IdentityError) -> Failure {
    match error {
        IdentityError::InUse(_) => Failure::new(
            ExitCode::Conflict,
            error,
            "give this one a folder of its own with --data, or another --name",
        ),
        IdentityError::Damaged(_) => {
            Failure::new(ExitCode::Failed, error, "or bring the file back from a backup")
        }
        IdentityError::Folder { .. } => {
            Failure::new(ExitCode::Failed, error, "check the folder and its owner, or use --data")
        }
    }
}

pub(crate) fn failure(error: &WorkerError) -> Failure {
    let (exit, hint) = match error {
        WorkerError::NoSession { .. }
        | WorkerError::WrongKey { .. }
        | WorkerError::NoKey { .. } => (
            ExitCode::Auth,
            "show the right token with --token or ASTRA_TOKEN; whoever runs the server makes one \
             with `astra token create --role worker`",
        ),
        WorkerError::NotAllowed { .. } => (
            ExitCode::Auth,
            "use a key of the role worker; one that was made for a single worker wants its --name",
        ),
        WorkerError::Refused { .. } => (
            ExitCode::Conflict,
            "if the name is taken, choose another with --name, or show the key it was taken with",
        ),
        WorkerError::Metrics { .. } => {
            (ExitCode::Conflict, "choose another address with --metrics")
        }
        WorkerError::Resources(_) => {
            (ExitCode::Failed, "check the folder and its owner, or use --data")
        }
        WorkerError::Panicked => (ExitCode::Failed, ""),
    };
    Failure::new(exit, error, hint)
}
