//! `astra internal`: processes and files for the project's own tools. Hidden; may change.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::WorkerId;
use server::app::{Options, RespOptions};
use worker::attempt::Listener;
use worker::builtin::Builtin;

use super::worker::StartArguments;
use crate::config::{self, Flags, LogLevel, ServerFlags};
use crate::context::Context;
use crate::embedded::EmbeddedServer;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::{self, Output};
use crate::process::ServerReady;
use crate::{bench, chaos, cuts, generate, journal, logging, process};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Write the files that are made from the code.
    Generate {
        /// The folder that is the repository's root.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// Kill real processes at random moments and check that nothing is lost or counted twice.
    Chaos(chaos::Arguments),
    /// Break connections between workers and a server, and check that nothing is lost or doubled.
    Cuts(cuts::Arguments),
    /// A server that lives as long as its stdin, and says on stdout where it listens.
    Server {
        #[arg(long)]
        data: PathBuf,
        #[arg(long)]
        http: SocketAddr,
        #[arg(long)]
        resp: Option<SocketAddr>,
    },
    /// A worker that lives as long as its stdin, and keeps a journal of verdicts.
    Worker {
        #[arg(long)]
        id: WorkerId,
        #[arg(long)]
        slots: usize,
        #[arg(long)]
        journal: PathBuf,
        /// How it reaches the server.
        #[arg(long, default_value = "http")]
        door: bench::Door,
        /// Also execute core.crash, which ends this process, and core.stamp.
        #[arg(long)]
        test_types: bool,
    },
    /// `astra worker start`, living as long as its stdin.
    SessionWorker(Box<super::worker::start::Arguments>),
    /// A load generator.
    #[command(subcommand)]
    Load(bench::load::Command),
}

impl Command {
    pub(crate) fn is_load(&self) -> bool {
        matches!(self, Self::Load(_))
    }
}

pub(crate) async fn run(command: Command, flags: &Flags, output: Output) -> Result<ExitCode> {
    let config = config::load(flags, ServerFlags::default())?;
    match command {
        Command::Generate { out } => generate::write(&out)?,
        Command::Chaos(arguments) => return chaos::run(arguments, output).await,
        Command::Cuts(arguments) => return cuts::run(arguments, output).await,
        Command::SessionWorker(arguments) => {
            process::end_with_parent();
            let start = super::worker::Command::Start(arguments);
            return super::worker::run(start, flags, output).await;
        }
        Command::Server { data, http, resp } => {
            logging::start(&config.log, LogLevel::Info);
            process::end_with_parent();
            let tcp = resp.unwrap_or_else(|| SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
            let resp = RespOptions { tcp: Some(tcp), ..RespOptions::default() };
            let options = Options { resp, ..Options::new(&data, http) };
            let server = EmbeddedServer::start(options).await?;
            let (http, resp) = (server.http_addr(), server.resp_addr().unwrap_or(tcp));
            output.line(&output::json(&ServerReady { http, resp }));
            std::future::pending::<()>().await;
        }
        Command::Worker { id, slots, journal, door: bench::Door::Ws, test_types } => {
            logging::start(&config.log, LogLevel::Info);
            process::end_with_parent();
            let context = Context::new(&config, output)?;
            let executor = Arc::new(Builtin { with_test_types: test_types });
            let folder = journal.with_extension("identity");
            let listener = open_journal(&journal)?;
            let mut options = super::worker::start::bare(&context, id.as_str(), &folder, executor)?;
            options.offer.slots = slots;
            options.listener = listener;
            let started = worker::Worker::start(options).await;
            let mut running = started.map_err(|error| super::worker::start::failure(&error))?;
            let ended = running.ended().await;
            ended.map_err(|error| super::worker::start::failure(&error))?;
        }
        Command::Worker { id, slots, journal, door: _, test_types } => {
            logging::start(&config.log, LogLevel::Info);
            process::end_with_parent();
            let context = Context::new(&config, output)?;
            let arguments = StartArguments { id: None, slots, ..StartArguments::default() };
            let executor = Arc::new(Builtin { with_test_types: test_types });
            let mut options = super::worker::options(context.client, id, arguments, executor);
            options.listener = open_journal(&journal)?;
            super::worker::work(options, output).await?;
        }
        Command::Load(command) => {
            let context = Context::new(&config, output)?;
            bench::load::run(command, &context).await?;
        }
    }
    Ok(ExitCode::Success)
}

fn open_journal(path: &Path) -> Result<Listener> {
    journal::listener(path).map_err(|error| {
        Failure::new(ExitCode::Failed, format!("cannot open the journal: {error}"), "")
    })
}
