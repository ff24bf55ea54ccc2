//! `test-server`: the server that `astra` starts, on a store that may be told to end the process.
//!
//! It lives as long as its stdin, and says on stdout where it listens, as JSON. A number on stdin
//! moves its clock ahead by so many seconds: a test need not wait for them. What it can do beyond `astra server start` must never reach a server that people run, so it is a program of its
//! own and not a flag or a variable of theirs.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use clap::Parser;
use server::app::{Options, RespOptions, Server};
use store::SqliteStore;
use store::sqlite::Failpoint;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A server for tests.
#[derive(Parser)]
struct Arguments {
    /// The folder that holds everything the server knows.
    #[arg(long)]
    data: PathBuf,
    /// Where to listen.
    #[arg(long)]
    http: SocketAddr,
    /// Where to listen for Redis clients.
    #[arg(long, default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))]
    resp: SocketAddr,
    /// Ends the process at a commit: `before_commit:3` just before the third one,
    /// `after_commit_before_answer:3` just after it, before anyone hears of it.
    #[arg(long)]
    failpoint: Option<Failpoint>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let Arguments { data, http, resp, failpoint } = Arguments::parse();
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    std::thread::spawn(obey_stdin);
    let store = Arc::new(SqliteStore::open_with(&data, failpoint)?);
    let options = RespOptions { tcp: Some(resp), ..RespOptions::default() };
    let options = Options { resp: options, ..Options::new(&data, http) };
    let server = Server::start_on(store, options).await?;
    server.until_ready().await;
    let resp = server.resp_addr().unwrap_or(resp);
    println!("{}", serde_json::json!({ "http": server.http_addr(), "resp": resp }));
    std::future::pending().await
}

/// Moves the clock as told, until whoever started this program is gone.
fn obey_stdin() {
    for line in std::io::stdin().lines().map_while(Result::ok) {
        match line.trim().parse() {
            Ok(seconds) => server::clock::move_ahead(seconds),
            Err(error) => tracing::warn!(line, %error, "not a number of seconds"),
        }
    }
    std::process::exit(0);
}
