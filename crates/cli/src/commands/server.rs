//! `astra server start`.

use std::net::SocketAddr;
use std::path::PathBuf;

use server::app::Options;
use tracing_subscriber::filter::LevelFilter;

use crate::config::{self, Flags, HTTP_DEFAULT, RESP_DEFAULT, ServerFlags};
use crate::embedded::{self, EmbeddedServer};
use crate::failure::{ExitCode, Failure, Result};
use crate::interrupts;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Start a server. Every request needs a token.
    Start {
        /// The server's data folder.
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// The HTTP address. Default 127.0.0.1:8080.
        #[arg(long, value_name = "ADDR")]
        http: Option<SocketAddr>,
        /// The address for Redis clients. Default 127.0.0.1:6380.
        #[arg(long, value_name = "ADDR")]
        resp: Option<SocketAddr>,
        /// A Unix socket for Redis clients.
        #[arg(long, value_name = "PATH")]
        resp_unix: Option<PathBuf>,
    },
}

pub(crate) async fn run(command: Command, flags: &Flags) -> Result<ExitCode> {
    let Command::Start { data, http, resp, resp_unix } = command;
    let config = config::load(flags, ServerFlags { data, http, resp, resp_unix })?;
    config::start_log(&config.log, LevelFilter::INFO);
    let data = config.data.clone().ok_or_else(|| {
        Failure::usage(
            "a server needs a folder for its data",
            "give one: --data DIR (or ASTRA_DATA)",
        )
    })?;
    let resp = config.resp_options(resp_address(config.resp))?;
    let is_open = embedded::has_tokens(&data).await?;
    let http = config.http.unwrap_or_else(|| HTTP_DEFAULT.parse().expect("a plain address"));
    let session_window = config.session_window()?;
    let options = Options { resp, session_window, ..Options::new(&data, http) };
    let server = EmbeddedServer::start(options).await?;
    let address = server.http_addr();
    // The log is the only thing on stderr: machines read it.
    let resp = server.resp_addr().map_or_else(|| "none".to_owned(), |address| address.to_string());
    tracing::info!(%address, resp, data = %data.display(), "serving");
    if !is_open {
        tracing::warn!(
            "no token opens this server yet; stop it and make the first one: \
             astra token create --role admin --data {}",
            data.display()
        );
    }
    interrupts::told_to_stop().await;
    tracing::info!("stopping");
    server.stop().await;
    Ok(ExitCode::Success)
}

/// The given address, or the usual one if it is free: a server that nobody asked to serve Redis
/// clients does not fail for want of a port.
fn resp_address(given: Option<SocketAddr>) -> Option<SocketAddr> {
    let usual: SocketAddr = RESP_DEFAULT.parse().expect("a plain address");
    match given {
        Some(address) => Some(address),
        None if std::net::TcpListener::bind(usual).is_ok() => Some(usual),
        None => {
            tracing::warn!("{usual} is taken, so Redis clients are not served; choose --resp ADDR");
            None
        }
    }
}
