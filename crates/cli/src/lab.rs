//! A server with its own folder and token, in a process of its own, to be shown, measured or
//! killed.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use protocol::rest::queues::Queues;
use protocol::rest::tokens::Role;
use tempfile::TempDir;
use worker::client::Client;

use crate::bench::Door;
use crate::embedded::{self, NewToken};
use crate::failure::Failure;
use crate::process::{Process, Program, ServerReady};

/// A server that has not restored everything by then has failed.
const ANSWERS_WITHIN: Duration = Duration::from_mins(2);
const ASK_EVERY: Duration = Duration::from_millis(5);

/// A server and everything that belongs to it. Dropping it ends its processes and removes its
/// folder.
pub(crate) struct Lab {
    // Before the folder: fields are dropped in order, and processes use the folder.
    server: Process,
    program: Program,
    pub(crate) client: Client,
    http: SocketAddr,
    resp: SocketAddr,
    folder: TempDir,
}

impl Lab {
    /// Starts a server in a new folder below `place`, or below the system's place for such things.
    pub(crate) async fn start(binary: Option<PathBuf>, place: Option<&Path>) -> Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("astra-lab-");
        let folder = match place {
            Some(place) => builder.tempdir_in(place),
            None => builder.tempdir(),
        };
        let folder = folder.context("cannot make a folder for the server's data")?;
        let token = first_token(&folder.path().join("data")).await?;
        let program = Program::new(binary, folder.path(), &token)?;
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let data = folder.path().join("data");
        let (server, ServerReady { http, resp }) = program.server(&data, any_port, None).await?;
        let client = Client::new(http.to_string().parse()?, Some(&token))?;
        Ok(Self { server, program, client, http, resp, folder })
    }

    pub(crate) fn program(&self) -> &Program {
        &self.program
    }

    /// Where logs and journals are.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Where the server listens, now and after each restart.
    pub(crate) fn address(&self) -> SocketAddr {
        self.http
    }

    /// Where it serves Redis clients; another place after each restart.
    pub(crate) fn resp_address(&self) -> SocketAddr {
        self.resp
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(crate) fn server(&mut self) -> &mut Process {
        &mut self.server
    }

    /// Starts the server again where it was, after its process has ended. The time is that until
    /// its coordinator answers, with everything that it remembers.
    pub(crate) async fn restart_server(&mut self, failpoint: Option<&str>) -> Result<Duration> {
        let started = Instant::now();
        let (server, ready) = self.program.server(&self.data(), self.http, failpoint).await?;
        (self.server, self.resp) = (server, ready.resp);
        while let Err(error) = self.live_tasks().await {
            ensure!(!self.server.has_ended(), "the server ended before it answered");
            ensure!(started.elapsed() < ANSWERS_WITHIN, "the server does not answer: {error:#}");
            tokio::time::sleep(ASK_EVERY).await;
        }
        Ok(started.elapsed())
    }

    /// Starts a worker process that keeps a journal.
    pub(crate) fn worker(
        &self,
        name: &str,
        slots: usize,
        door: Door,
        with_test_types: bool,
    ) -> Result<Process> {
        let journal = self.folder.path().join(format!("{name}.journal"));
        let journal = journal.to_str().context("the folder's name is not valid UTF-8")?;
        let (url, slots) = (self.url(), slots.to_string());
        let mut words = vec!["worker", "--server", &url, "--id", name, "--slots", &slots];
        words.extend(["--journal", journal]);
        if door == Door::Ws {
            words.extend(["--door", "ws"]);
        }
        if with_test_types {
            words.push("--test-types");
        }
        self.program.spawn(name, &words, None)
    }

    /// Starts a worker process with a session, which reaches the server at `server`.
    pub(crate) fn session_worker(
        &self,
        name: &str,
        server: &str,
        slots: usize,
        heartbeat_seconds: &str,
    ) -> Result<Process> {
        let data = self.folder.path().join(name);
        let data = data.to_str().context("the folder's name is not valid UTF-8")?;
        let slots = slots.to_string();
        let mut words = vec!["session-worker", "--server", server, "--name", name];
        words.extend(["--slots", &slots, "--data", data, "--metrics", "127.0.0.1:0"]);
        let heartbeat = ("ASTRA_WORKER_HEARTBEAT_INTERVAL_SECONDS", heartbeat_seconds);
        self.program.spawn(name, &words, Some(heartbeat))
    }

    /// Starts `astra internal load <words>`.
    pub(crate) fn load(&self, name: &str, words: &[&str]) -> Result<Process> {
        let url = self.url();
        let mut all = vec!["load"];
        all.extend(words);
        all.extend(["--server", &url]);
        self.program.spawn(name, &all, None)
    }

    /// Tasks that have not come to their end.
    pub(crate) async fn live_tasks(&self) -> Result<u64> {
        let queues: Queues = self.client.get("/api/v1/queues").await?;
        let live = queues
            .queues
            .iter()
            .map(|queue| queue.depth + queue.in_flight + queue.retries_due + queue.scheduled);
        Ok(live.sum())
    }

    /// Leaves the folder behind, for whoever wants to find out what went wrong.
    pub(crate) fn keep(&mut self) -> PathBuf {
        self.folder.disable_cleanup(true);
        self.folder.path().to_owned()
    }

    fn url(&self) -> String {
        format!("http://{}", self.http)
    }
}

async fn first_token(data: &Path) -> Result<String> {
    let token = NewToken {
        tenant: "default".parse()?,
        role: Role::Admin,
        worker_id: None,
        name: Some("lab".into()),
        expires_at: None,
    };
    let created = embedded::create_token(data, token).await;
    Ok(created.map_err(|Failure { message, .. }| anyhow::anyhow!(message))?.token)
}
