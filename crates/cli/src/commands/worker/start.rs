//! `astra worker start`: puts flags, environment and settings together, and runs the worker.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
use model::{ToolName, WorkerId};
use protocol::rest::tasks::Package;
use protocol::session::payload::control::AuthMode;
use worker::executor::Executor;
use worker::resources::Limits;
use worker::resp::address::Address as RespAddress;
use worker::resp::worker::DRAIN_DEADLINE as RESP_DRAIN_DEADLINE;
use worker::runner::command::{self, CommandRunner};
use worker::session::address::Address;
use worker::session::capabilities::{self, Offer};
use worker::session::identity::{Identity, IdentityError};
use worker::session::settings::{Door, SLOTS_MAX, Settings};
use worker::session::worker::{Credential, DRAIN_DEADLINE, WorkerError};
use worker::toolbox::Toolbox;
use worker::{Options, RunningWorker, Worker};

use super::programs::{self, ProgramFlags};
use super::{StartArguments, farewell, machine_name, pull, resp};
use crate::commands::task::{parse_package, parse_tag};
use crate::config::{Config, DATA_DEFAULT, Flags};
use crate::context::Context;
use crate::duration::Span;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::{process, words};

pub(super) const EXAMPLES: &str = "\
Examples:
  astra worker start
  astra worker start --server http://10.0.0.5:8080 --token \"$TOKEN\" --slots 16
  astra worker start --name gpu-3 --label gpu=true --tool ffmpeg --queue video
  astra worker start --sandbox strict --allow-tool sort --allow-tool uniq
  astra worker start --resp 10.0.0.5:6380 --token \"$KEY\"
";
/// Where workers keep what is theirs, inside the data folder.
const WORKERS_FOLDER: &str = "workers";
/// The package of the builtin types.
const CORE: &str = "core";

#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Arguments {
    /// Its name, the same one every time it starts. Default: `ASTRA_WORKER_NAME`, else this
    /// machine's name.
    #[arg(long, alias = "id", value_name = "NAME")]
    name: Option<WorkerId>,
    /// How many tasks it executes at a time. Default: `ASTRA_WORKER_CONCURRENCY_MAX_PARALLEL`,
    /// else the number of processors, at least 4.
    #[arg(long, value_parser = parse_slots)]
    slots: Option<usize>,
    /// A queue that it serves; may be given several times. Default: every queue; with `--resp`,
    /// `ready`.
    #[arg(long)]
    queue: Vec<String>,
    /// A tool that it has, besides those on PATH; may be given several times.
    #[arg(long)]
    tool: Vec<String>,
    /// An agentic unit that it has, with `--resp`: a program that says what it does when it is
    /// asked to `--describe` itself; may be given several times.
    #[arg(long, requires = "resp", value_name = "PROGRAM")]
    unit: Vec<ToolName>,
    /// A label that it carries; may be given several times.
    #[arg(long, alias = "tag", value_name = "KEY=VALUE", value_parser = parse_tag)]
    label: Vec<(String, String)>,
    /// A package that it has installed; may be given several times.
    #[arg(long, value_name = "NAME@VERSION", value_parser = parse_package)]
    package: Vec<Package>,
    /// Where it keeps its identity. Default: `ASTRA_WORKER_DATA_DIR`, else `workers/NAME` in the
    /// data folder.
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Where it shows metrics for Prometheus, like 127.0.0.1:9100. Default: nowhere.
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// How long it finishes what it has when it is told to leave. Default: 30s; with `--resp`, 5m.
    #[arg(long, value_name = "DURATION")]
    drain_deadline: Option<Span>,
    /// How it talks to the server. Default: `ASTRA_WORKER_TRANSPORT`, else ws.
    #[arg(long)]
    door: Option<DoorArgument>,
    /// How many bytes of files that tasks leave behind it keeps. Default:
    /// `ASTRA_WORKER_RESOURCE_MAX_DISK_BYTES`, else 20 GiB.
    #[arg(long, value_name = "BYTES")]
    resource_disk_bytes: Option<u64>,
    /// How long it keeps what a task left behind and nobody uses. Default:
    /// `ASTRA_WORKER_RESOURCE_DEFAULT_TTL_SECONDS`, else 1h.
    #[arg(long, value_name = "DURATION")]
    resource_ttl: Option<Span>,
    #[command(flatten)]
    programs: ProgramFlags,
    /// Pulls jobs over the Redis protocol from this address, like 127.0.0.1:6380 or
    /// `unix:/run/astra.sock`; from a server of another make as well. The token is the key, and
    /// `NAME@` before the address the user.
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["door", "metrics", "package", "data"])]
    resp: Option<RespAddress>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DoorArgument {
    /// A session over a WebSocket: work is pushed, output is streamed.
    Ws,
    /// Leases over HTTP: work is pulled.
    Http,
}

fn parse_slots(text: &str) -> std::result::Result<usize, String> {
    match text.parse() {
        Ok(slots) if (1..=SLOTS_MAX).contains(&slots) => Ok(slots),
        _ => Err(format!("not a number from 1 to {SLOTS_MAX}")),
    }
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
    if let Some(address) = arguments.resp.clone() {
        let parts = resp_parts(address, arguments, settings, (flags, config))?;
        return resp::run(parts, output).await;
    }
    let door = match arguments.door {
        Some(DoorArgument::Ws) => Door::Ws,
        Some(DoorArgument::Http) => Door::Http,
        None => settings.door.unwrap_or_default(),
    };
    match door {
        Door::Http => {
            let context = Context::new(config, output)?;
            pull(pull_arguments(arguments, &settings)?, &context).await
        }
        Door::Ws => hold_session(arguments, settings, flags, config, output).await,
    }
}

/// The name that the environment gives it.
fn name_set(settings: &Settings) -> Result<Option<WorkerId>> {
    let Some(name) = &settings.name else { return Ok(None) };
    let why = |error| format!("ASTRA_WORKER_NAME: {name} is no name of a worker: {error}");
    let invalid = |error| Failure::usage(why(error), "use letters, digits, - and _");
    name.parse().map(Some).map_err(invalid)
}

fn resp_parts(
    address: RespAddress,
    arguments: Arguments,
    settings: Settings,
    (flags, config): (&Flags, &Config),
) -> Result<resp::Parts> {
    let commands = arguments.programs.options(&settings)?;
    let toolbox = Toolbox::usual(CommandRunner::new(commands.clone()));
    let version = settings.version.clone().unwrap_or_else(|| env!("CARGO_PKG_VERSION").into());
    Ok(resp::Parts {
        address,
        name: arguments.name.clone().map_or_else(|| name_set(&settings), |name| Ok(Some(name)))?,
        credential: credential(&settings, flags, config)?,
        drain_deadline: arguments.drain_deadline.map_or(RESP_DRAIN_DEADLINE, |span| span.0),
        units: arguments.unit.iter().map(ToString::to_string).collect(),
        offer: offer(arguments, settings, &version, &commands),
        version,
        executor: Arc::new(toolbox),
    })
}

fn resource_limits(arguments: &Arguments, settings: &Settings) -> Limits {
    let usual = Limits::default();
    let disk = arguments.resource_disk_bytes.or(settings.resource_disk_bytes_max);
    let ttl = arguments.resource_ttl.map(|span| span.0).or(settings.resource_ttl);
    Limits {
        disk_bytes_max: disk.unwrap_or(usual.disk_bytes_max),
        mem_bytes_max: settings.resource_mem_bytes_max.unwrap_or(usual.mem_bytes_max),
        ttl: ttl.unwrap_or(usual.ttl),
        gc_every: settings.resource_gc_every.unwrap_or(usual.gc_every),
    }
}

fn pull_arguments(arguments: Arguments, settings: &Settings) -> Result<StartArguments> {
    let named = name_set(settings)?;
    let slots = arguments.slots.or(settings.slots).unwrap_or_else(capabilities::slots_default);
    Ok(StartArguments {
        id: arguments.name.or(named),
        slots,
        queue: arguments.queue,
        tool: arguments.tool,
        tag: arguments.label,
        package: arguments.package,
    })
}

async fn hold_session(
    arguments: Arguments,
    settings: Settings,
    flags: &Flags,
    config: &Config,
    output: Output,
) -> Result<ExitCode> {
    let deadline = arguments.drain_deadline.map_or(DRAIN_DEADLINE, |span| span.0);
    let options = options(arguments, settings, flags, config, output)?;
    let types = options.executor.types().join(" ");
    let slots = words::count(options.offer.slots, "slot");
    let (name, address) = (options.name.clone(), options.address.clone());
    output.note(format!("worker {name} · {slots} · {types} · session with {address}"));
    let mut worker = Worker::start(options).await.map_err(|error| failure(&error))?;
    if let Some(address) = worker.metrics_address() {
        output.note(format!("metrics at http://{address}/metrics"));
    }
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

async fn finish(
    worker: &mut RunningWorker,
) -> Result<std::result::Result<::worker::worker::Summary, WorkerError>> {
    tokio::select! {
        ended = worker.ended() => Ok(ended),
        () = process::told_to_stop() => {
            worker.stop().await;
            // What runs is stopped; how it went is of no interest any more.
            let _ = worker.ended().await;
            Err(crate::run::interrupted("tasks that were under way come back when their leases end"))
        }
    }
}

fn options(
    arguments: Arguments,
    settings: Settings,
    flags: &Flags,
    config: &Config,
    output: Output,
) -> Result<Options> {
    let flag_name = arguments.name.as_ref().map(ToString::to_string);
    let name = flag_name.or(settings.name.clone()).unwrap_or_else(|| machine_name().to_string());
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
    options.credential = credential(&settings, flags, config)?;
    options.metrics = arguments.metrics;
    options.resources = resource_limits(&arguments, &settings);
    options.tenant = settings.tenant.clone().unwrap_or(options.tenant);
    options.version = settings.version.clone().unwrap_or(options.version);
    options.heartbeat_every = settings.heartbeat_every.unwrap_or(options.heartbeat_every);
    options.accept_timeout = settings.accept_timeout;
    options.window = settings.window.unwrap_or(options.window);
    options.offer = offer(arguments, settings, &options.version, &commands);
    Ok(options)
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

/// A worker that executes just this and shows the token of the command, for measurements and
/// stories.
pub(crate) fn bare(
    context: &Context,
    name: &str,
    data: &Path,
    executor: Arc<dyn Executor>,
) -> Result<Options> {
    let identity = Identity::open(data).map_err(|error| identity_failure(&error))?;
    let address = context.client.endpoint().clone().into();
    let mut options = Options::new(address, name, identity, executor);
    options.credential = context.token.clone().map_or(Credential::None, Credential::Token);
    Ok(options)
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

fn credential(settings: &Settings, flags: &Flags, config: &Config) -> Result<Credential> {
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

fn offer(
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
    match error {
        WorkerError::Refused { .. } => Failure::new(
            ExitCode::Auth,
            error,
            "show a token with --token or ASTRA_TOKEN; whoever runs the server makes one with \
             `astra token create --role worker`",
        ),
        WorkerError::Metrics { .. } => {
            Failure::new(ExitCode::Conflict, error, "choose another address with --metrics")
        }
        WorkerError::Resources(_) => {
            Failure::new(ExitCode::Failed, error, "check the folder and its owner, or use --data")
        }
        WorkerError::Panicked => Failure::new(ExitCode::Failed, error, ""),
    }
}
