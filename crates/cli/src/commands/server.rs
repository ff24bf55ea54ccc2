//! `astra server start`.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::config::{self, Flags, HTTP_DEFAULT, LogLevel, ServerFlags};
use crate::embedded::{self, EmbeddedServer};
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::{logging, process};

const EXAMPLES: &str = "\
Examples:
  astra token create --role admin --data /var/lib/astra    once, before the first start
  astra server start --data /var/lib/astra
  astra server start --data /var/lib/astra --http 0.0.0.0:8080 --log json
";

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Start a server that asks everyone for a token.
    #[command(before_help = EXAMPLES)]
    Start {
        /// The folder that holds everything the server knows.
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// Where to listen. Default 127.0.0.1:8080.
        #[arg(long, value_name = "ADDR")]
        http: Option<SocketAddr>,
        /// Where to listen for Redis clients; not served yet.
        #[arg(long, value_name = "ADDR")]
        resp: Option<SocketAddr>,
    },
}

pub(crate) async fn run(command: Command, flags: &Flags) -> Result<ExitCode> {
    let Command::Start { data, http, resp } = command;
    let config = config::load(flags, ServerFlags { data, http, resp })?;
    logging::start(&config.log, LogLevel::Info);
    let data = config.data.ok_or_else(|| {
        Failure::usage(
            "a server needs a folder for its data",
            "give one: --data DIR (or ASTRA_DATA)",
        )
    })?;
    if config.resp.is_some() {
        tracing::warn!("the Redis door is not served yet; --resp has no effect");
    }
    let is_open = embedded::has_tokens(&data).await?;
    let http = config.http.unwrap_or_else(|| HTTP_DEFAULT.parse().expect("a plain address"));
    let server = EmbeddedServer::start(&data, http, false).await?;
    let address = server.http_addr();
    // The log is the only thing on stderr: machines read it.
    tracing::info!(%address, data = %data.display(), "serving");
    if !is_open {
        tracing::warn!(
            "no token opens this server yet; stop it and make the first one: \
             astra token create --role admin --data {}",
            data.display()
        );
    }
    process::told_to_stop().await;
    tracing::info!("stopping");
    server.stop().await;
    Ok(ExitCode::Success)
}
