//! `astra dev`: server and workers in one process, in one folder, without an account.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use client::Endpoint;
use serde_json::json;
use server::app::{Options, RespOptions};
use tracing_subscriber::filter::LevelFilter;
use worker::RunningWorker;
use worker::runner::command;
use worker::transport::ws::settings::Settings;
use worker::transport::ws::socket::Address;
use worker::transport::ws::worker::State;

use super::version::VERSION;
use super::worker::programs::ProgramFlags;
use super::worker::start;
use crate::config::{self, DATA_DEFAULT, Flags, HTTP_DEFAULT, RESP_DEFAULT, ServerFlags};
use crate::context::Profile;
use crate::embedded::{self, EmbeddedServer};
use crate::failure::{ExitCode, Failure, Result};
use crate::output::Output;
use crate::{format, interrupts};

/// Tasks that one worker of `astra dev` executes at a time.
const SLOTS: usize = 8;
/// Ports that are tried after the usual one.
const PORTS_TRIED: u16 = 100;
/// What is under way when Ctrl-C comes may end within this time; the rest comes back later.
const DRAIN: Duration = Duration::from_secs(2);
/// How long the first line waits for its workers.
const READY_WITHIN: Duration = Duration::from_secs(2);
/// What a server keeps in its folder. Anything else there is not ours to delete.
const OWN_FILES: [&str; 5] =
    ["astra.db", "astra.db-wal", "astra.db-shm", "astra.lock", "profile.toml"];
/// The same for folders: logs of tasks, identities of workers.
const OWN_FOLDERS: [&str; 2] = ["logs", "workers"];

/// Start a server and a worker in this folder. No account, this machine only.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The data folder. Default ./.astra.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The HTTP address. Default 127.0.0.1:8080, or the next free port.
    #[arg(long, value_name = "ADDR")]
    http: Option<SocketAddr>,
    /// The address for Redis clients. Default 127.0.0.1:6380, or the next free port.
    #[arg(long, value_name = "ADDR")]
    resp: Option<SocketAddr>,
    /// The number of workers in this process.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(0..=100))]
    workers: u16,
    /// Delete the contents of the data folder first.
    #[arg(long)]
    reset: bool,
    /// Skip the confirmation.
    #[arg(long, requires = "reset")]
    yes: bool,
    #[command(flatten)]
    programs: ProgramFlags,
}

pub(crate) async fn run(arguments: Arguments, flags: &Flags, output: Output) -> Result<ExitCode> {
    let Arguments { data, http, resp, .. } = &arguments;
    let given =
        ServerFlags { data: data.clone(), http: *http, resp: *resp, ..ServerFlags::default() };
    let config = config::load(flags, given)?;
    config::start_log(&config.log, LevelFilter::WARN);
    let commands = arguments.programs.options(&Settings::default())?;
    let data = config.data.clone().unwrap_or_else(|| DATA_DEFAULT.into());
    if arguments.reset {
        reset(&data, arguments.yes, output)?;
    }
    let http = choose_address(config.http, HTTP_DEFAULT, "--http")?;
    let resp = choose_address(config.resp, RESP_DEFAULT, "--resp")?;
    let resp = config.resp_options(Some(resp))?;
    let (resp_door, session_window) = (resp.clone(), config.session_window()?);
    let options =
        Options { dev: true, resp: resp_door, session_window, ..Options::new(&data, http) };
    let server = start_server(options).await?;
    if config.http.is_none() && http.to_string() != HTTP_DEFAULT {
        output.note(format!("{HTTP_DEFAULT} is taken, so this one is at {http}\n"));
    }
    let url = format!("http://{}", server.http_addr());
    write_profile(&data, &url)?;

    let workers = start_workers(server.http_addr(), &data, arguments.workers, &commands).await?;
    show_ready(&server, &resp, &data, &workers, output);
    interrupts::told_to_stop().await;
    output.note("\nstopping; what is queued stays in the folder");
    stop_workers(workers).await;
    Profile::remove(&data);
    server.stop().await;
    Ok(ExitCode::Success)
}

/// The given address, or the usual one, or the next one that is free.
fn choose_address(given: Option<SocketAddr>, usual: &str, flag: &str) -> Result<SocketAddr> {
    if let Some(address) = given {
        return if address.ip().is_loopback() {
            Ok(address)
        } else {
            Err(embedded::beyond_loopback(address))
        };
    }
    let usual: SocketAddr = usual.parse().expect("a plain address");
    let mut address = usual;
    for port in usual.port()..usual.port() + PORTS_TRIED {
        address.set_port(port);
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    Err(Failure::new(
        ExitCode::Conflict,
        format!("no port from {} on is free", usual.port()),
        format!("choose one with {flag} 127.0.0.1:PORT"),
    ))
}

async fn start_server(options: Options) -> Result<EmbeddedServer> {
    let data = options.data_dir.clone();
    let started = EmbeddedServer::start(options).await;
    started.map_err(|failure| match Profile::read(&data) {
        // The folder, not the port: another `astra dev` is at home here.
        Some(profile) if profile.is_current() && !failure.message.contains("listen") => failure
            .with_hint(format!(
                "`astra dev` already runs in this folder, at {}; use it, or give --data DIR",
                profile.url
            )),
        _ => failure,
    })
}

fn write_profile(data: &Path, url: &str) -> Result<()> {
    let pid = i32::try_from(std::process::id()).unwrap_or(0);
    Profile { url: url.into(), pid }.write(data).map_err(|error| {
        let message = format!("cannot write {}: {error}", Profile::path(data).display());
        Failure::new(ExitCode::Failed, message, "check the folder and the disk")
    })
}

/// Starts the workers, and waits a moment for them: what is shown as ready should be.
async fn start_workers(
    http: SocketAddr,
    data: &Path,
    count: u16,
    commands: &command::Options,
) -> Result<Vec<DevWorker>> {
    let endpoint: Endpoint = format!("http://{http}").parse().expect("an address is one");
    let address = Address::from(endpoint);
    let mut workers = Vec::new();
    for number in 1..=count {
        let name = format!("dev-{number}");
        let options = start::usual(address.clone(), &name, data, (SLOTS, commands))?;
        let tools = options.offer.tools.len();
        let python = options.offer.runtime_versions.get("python").cloned();
        let running =
            RunningWorker::start(options).await.map_err(|error| start::failure(&error))?;
        workers.push(DevWorker { running, tools, python });
    }
    for worker in &workers {
        let mut state = worker.running.state();
        let ready = state.wait_for(|state| *state == State::Ready);
        let _ = tokio::time::timeout(READY_WITHIN, ready).await;
    }
    Ok(workers)
}

async fn stop_workers(mut workers: Vec<DevWorker>) {
    for worker in &workers {
        worker.running.handle.drain(DRAIN).await;
    }
    let all = async {
        for worker in &mut workers {
            if let Err(error) = worker.running.handle.ended().await {
                tracing::error!(%error, "the worker ended badly");
            }
        }
    };
    let _ = tokio::time::timeout(DRAIN, all).await;
}

/// A worker of this process, and what it has.
struct DevWorker {
    running: RunningWorker,
    tools: usize,
    python: Option<String>,
}

/// Deletes what a server keeps in its folder, and nothing else.
fn reset(data: &Path, is_sure: bool, output: Output) -> Result<()> {
    if !data.exists() {
        return Ok(());
    }
    embedded::check_unused(data)?;
    if !is_sure {
        let message = format!("--reset would delete everything in {}", data.display());
        let nobody = Failure::usage(message, "say that you mean it: --reset --yes");
        let question = format!("Delete every task and token in {}?", data.display());
        if !output.confirm(&question, nobody)? {
            return Err(Failure::new(ExitCode::Interrupted, "nothing was deleted", ""));
        }
    }
    let files = OWN_FILES.map(|name| (name, std::fs::remove_file(data.join(name))));
    let folders = OWN_FOLDERS.map(|name| (name, std::fs::remove_dir_all(data.join(name))));
    for (name, removed) in files.into_iter().chain(folders) {
        match removed {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                let message = format!("cannot delete {name} in {}: {error}", data.display());
                return Err(Failure::new(ExitCode::Failed, message, "check who owns the folder"));
            }
            _ => {}
        }
    }
    output.note(format!("{} is empty again", data.display()));
    Ok(())
}

/// Says where everything is.
fn show_ready(
    server: &EmbeddedServer,
    resp: &RespOptions,
    data: &Path,
    workers: &[DevWorker],
    output: Output,
) {
    let http = server.http_addr();
    // People read and type `localhost`; it is the same machine.
    let is_usual = http.ip() == std::net::Ipv4Addr::LOCALHOST;
    let host = if is_usual { format!("localhost:{}", http.port()) } else { http.to_string() };
    let (url, api) = (format!("http://{host}"), format!("http://{host}/api/v1"));
    let certificate = resp.tls.as_ref().map(|(certificate, _)| certificate);
    let redis = server.resp_addr().map(|address| redis_command(address, certificate.is_some()));
    let here = if data.is_relative() { "./" } else { "" };
    let mut text = format!(
        "astra {VERSION} · dev mode · data in {here}{} (delete the folder to start over)\n\n\
         \x20 UI        {url}\n  API       {api}\n",
        data.display()
    );
    if let Some(redis) = &redis {
        let how = certificate.map_or_else(String::new, |certificate| {
            format!("  (with --cacert: the CA of {})", certificate.display())
        });
        format::push(&mut text, format_args!("  Redis     {redis}{how}\n"));
    }
    if let Some(socket) = &resp.unix {
        format::push(&mut text, format_args!("  Redis     redis-cli -s {}\n", socket.display()));
    }
    for DevWorker { running, tools, python } in workers {
        let (name, slots) = (running.name(), format::count(SLOTS, "slot"));
        let python = python.as_ref().map_or_else(String::new, |it| format!(" · python {it}"));
        let tools = format::count(*tools, "tool");
        format::push(
            &mut text,
            format_args!("  Worker    {name} READY · {slots}{python} · {tools}\n"),
        );
    }
    if workers.is_empty() {
        text.push_str("  Worker    none; start one in another terminal: astra worker start\n");
    }
    text.push_str("\n  Try       astra run -- echo hello\n  Keys      Ctrl-C to stop\n");
    let workers = workers.iter().map(|DevWorker { running, tools, python }| {
        json!({ "name": running.name(), "slots": SLOTS, "tools": tools, "python": python })
    });
    let answer = json!({
        "version": VERSION, "url": url, "api": api, "redis": redis,
        "redis_certificate": certificate, "redis_socket": resp.unix, "data": data,
        "workers": workers.collect::<Vec<_>>(),
    });
    output.answer(&answer, text, url);
}

/// How a person gets in.
fn redis_command(address: SocketAddr, is_encrypted: bool) -> String {
    let host = match address.ip().to_string().as_str() {
        "127.0.0.1" => String::new(),
        host => format!("-h {host} "),
    };
    let tls = if is_encrypted { " --tls" } else { "" };
    format!("redis-cli {host}-p {}{tls}", address.port())
}
