//! A server and workers, each a process of its own, with a folder and a token of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use client::Client;
use model::TaskId;
use protocol::rest::queues::Queues;
use protocol::rest::tasks::{Task, TaskPage};
use rustix::process::{Pid, Signal};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// The product, beside this program.
const ASTRA: &str = "astra";
/// The server that ends at a chosen commit, beside this program.
const TEST_SERVER: &str = "test-server";
/// A server that has not restored everything by then has failed.
const ANSWERS_WITHIN: Duration = Duration::from_mins(2);
const ASK_EVERY: Duration = Duration::from_millis(5);
const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// The last lines of a log that are shown when its process failed.
const LOG_LINES_SHOWN: usize = 5;
const PAGE: usize = 500;

/// How workers reach the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Door {
    /// They pull leases in batches.
    Http,
    /// They hold a session; work is pushed.
    Ws,
    /// They pop jobs, as Redis clients.
    Resp,
}

/// A server and everything that belongs to it. Dropping it ends the server and removes its folder.
pub(crate) struct TestCluster {
    // Before the folder: fields are dropped in order, and processes use the folder.
    server: Process,
    programs: Programs,
    pub(crate) client: Client,
    http: SocketAddr,
    resp: SocketAddr,
    folder: TempDir,
}

impl TestCluster {
    /// Starts a server in a new folder below `place`, or below the system's place for such things.
    pub(crate) async fn start(astra: Option<&Path>, place: Option<&Path>) -> Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("astra-harness-");
        let folder = match place {
            Some(place) => builder.tempdir_in(place.canonicalize()?),
            None => builder.tempdir(),
        };
        let folder = folder.context("cannot make a folder for the server's data")?;
        let mut programs = Programs::new(astra, folder.path())?;
        programs.token = programs.first_token().await?;
        let mut server = programs.server(ANY_PORT, None)?;
        let Serving { address: http, resp } = server.logs(Serving::read).await?;
        let client = Client::new(http.to_string().parse()?, Some(&programs.token))?;
        Ok(Self { server, programs, client, http, resp, folder })
    }

    /// Where logs are.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Where the server listens, now and after each restart.
    pub(crate) fn address(&self) -> SocketAddr {
        self.http
    }

    /// Where it serves Redis clients, until it is restarted.
    pub(crate) fn resp_address(&self) -> SocketAddr {
        self.resp
    }

    pub(crate) fn server(&mut self) -> &mut Process {
        &mut self.server
    }

    /// Starts the server again where it was, after its process has ended. The time is that until
    /// its coordinator answers, with everything that it remembers.
    pub(crate) async fn restart_server(&mut self, failpoint: Option<&str>) -> Result<Duration> {
        let started = Instant::now();
        self.server = self.programs.server(self.http, failpoint)?;
        while let Err(error) = self.live_tasks().await {
            ensure!(!self.server.has_ended(), "the server ended before it answered");
            ensure!(started.elapsed() < ANSWERS_WITHIN, "the server does not answer: {error:#}");
            tokio::time::sleep(ASK_EVERY).await;
        }
        Ok(started.elapsed())
    }

    /// Starts the worker of this program, which executes the types for tests too.
    pub(crate) fn test_worker(&self, name: &str, slots: usize, door: Door) -> Result<Process> {
        let door = if door == Door::Ws { "ws" } else { "http" };
        let (url, slots) = (self.url(), slots.to_string());
        let words = ["worker", "--server", &url, "--id", name, "--slots", &slots, "--door", door];
        let mut command = self.programs.harness(name)?;
        command.args(words).arg("--data").arg(self.folder().join(name));
        Process::spawn(name, command, self.programs.log(name))
    }

    /// Starts `astra worker start`, which reaches the server at `server` and logs each verdict.
    pub(crate) fn astra_worker(
        &self,
        name: &str,
        server: &str,
        slots: usize,
        heartbeat_seconds: &str,
    ) -> Result<Process> {
        let mut command = self.programs.leashed(name, &self.programs.astra)?;
        command.args(["worker", "start", "--server", server, "--name", name]);
        command.args(["--slots", &slots.to_string(), "--log", "json", "--log-level", "debug"]);
        command.arg("--data").arg(self.folder().join(name));
        command.env("ASTRA_WORKER_HEARTBEAT_INTERVAL_SECONDS", heartbeat_seconds);
        Process::spawn(name, command, self.programs.log(name))
    }

    /// Starts a load generator of this program.
    pub(crate) fn load(&self, name: &str, words: &[&str]) -> Result<Process> {
        let mut command = self.programs.harness(name)?;
        command.args(["load", "--server", &self.url()]).args(words);
        Process::spawn(name, command, self.programs.log(name))
    }

    /// Where a process of this name writes its log.
    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.programs.log(name)
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

    /// All tasks that the store has, of this filter: empty, or like `state=RUNNING&`.
    pub(crate) async fn tasks(&self, filter: &str) -> Result<BTreeMap<TaskId, Task>> {
        let mut tasks = BTreeMap::new();
        let mut cursor = String::new();
        loop {
            let path = format!("/api/v1/tasks?{filter}limit={PAGE}{cursor}");
            let page: TaskPage = self.client.get(&path).await?;
            for task in page.tasks {
                tasks.insert(task.task_id.parse()?, task);
            }
            let Some(next) = page.next_cursor else { return Ok(tasks) };
            cursor = format!("&cursor={next}");
        }
    }

    /// A task that lost three workers in a row is dead, as it should be. One that did not harm them
    /// itself is brought back by hand. Gives how many were.
    pub(crate) async fn requeue_dead(&self, harmful: &BTreeSet<TaskId>) -> Result<usize> {
        let mut requeued = 0;
        for (id, task) in self.tasks("state=DEAD&").await? {
            // A task of a run is not put back alone; its run has ended with it.
            if task.run.is_none() && !harmful.contains(&id) {
                let path = format!("/api/v1/tasks/{id}/requeue");
                let _: Value = self.client.post(&path, &json!({})).await?;
                requeued += 1;
            }
        }
        Ok(requeued)
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

/// What a server logs when it serves.
#[derive(Deserialize)]
struct Serving {
    address: SocketAddr,
    resp: SocketAddr,
}

impl Serving {
    fn read(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }
}

/// The programs, and the folder where their processes leave their logs.
struct Programs {
    astra: PathBuf,
    harness: PathBuf,
    test_server: PathBuf,
    folder: PathBuf,
    token: String,
}

impl Programs {
    fn new(astra: Option<&Path>, folder: &Path) -> Result<Self> {
        let harness = std::env::current_exe().context("cannot find this program's own file")?;
        let astra = match astra {
            Some(astra) => astra.canonicalize().with_context(|| astra.display().to_string())?,
            None => harness.with_file_name(ASTRA),
        };
        let test_server = harness.with_file_name(TEST_SERVER);
        for path in [&astra, &test_server] {
            ensure!(path.is_file(), "{} is missing; build the workspace", path.display());
        }
        Ok(Self { astra, harness, test_server, folder: folder.into(), token: String::new() })
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }

    async fn first_token(&self) -> Result<String> {
        let mut command = self.leashed("token", &self.astra)?;
        command.args(["token", "create", "--role", "admin", "-o", "quiet", "--data"]);
        let made = command.arg(self.data()).stdout(Stdio::piped()).output().await?;
        ensure!(made.status.success(), "cannot make a token: {}", made.status);
        Ok(String::from_utf8(made.stdout)?.trim().to_owned())
    }

    /// Starts a server, which is the product unless it is to end at a failpoint.
    fn server(&self, http: SocketAddr, failpoint: Option<&str>) -> Result<Process> {
        let mut command = match failpoint {
            None => {
                let mut command = self.leashed("server", &self.astra)?;
                command.args(["server", "start", "--log", "json"]);
                command
            }
            Some(failpoint) => {
                let mut command = self.leashed("server", &self.test_server)?;
                command.args(["--failpoint", failpoint]);
                command
            }
        };
        command.arg("--http").arg(http.to_string()).arg("--resp").arg(ANY_PORT.to_string());
        command.arg("--data").arg(self.data());
        Process::spawn("server", command, self.log("server"))
    }

    fn harness(&self, name: &str) -> Result<Command> {
        self.leashed(name, &self.harness)
    }

    /// A program that ends with this process, without the settings of whoever runs it.
    fn leashed(&self, name: &str, program: &Path) -> Result<Command> {
        let mut command = Command::new(&self.harness);
        command.arg("leash").arg("--").arg(program);
        for (key, _) in std::env::vars_os() {
            if key.to_string_lossy().starts_with("ASTRA_") {
                command.env_remove(key);
            }
        }
        let log = File::options().create(true).append(true).open(self.log(name))?;
        command.env("ASTRA_TOKEN", &self.token).current_dir(&self.folder).stderr(log);
        Ok(command)
    }
}

/// A process that we started; dropping it kills it.
pub(crate) struct Process {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    log: PathBuf,
}

impl Process {
    fn spawn(name: &str, mut command: Command, log: PathBuf) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let stdout = BufReader::new(child.stdout.take().context("stdout is piped")?);
        Ok(Self { name: name.into(), stdin: child.stdin.take(), child, stdout, log })
    }

    /// The next line of its stdout, as JSON.
    pub(crate) async fn line_within<T: DeserializeOwned>(&mut self, limit: Duration) -> Result<T> {
        let mut line = String::new();
        let read = tokio::time::timeout(limit, self.stdout.read_line(&mut line)).await;
        match read {
            Err(_) => bail!("{} said nothing within {limit:?}; {}", self.name, self.last_words()),
            Ok(Ok(0)) => bail!("{} ended too early; {}", self.name, self.last_words()),
            Ok(result) => result.with_context(|| format!("cannot hear {}", self.name))?,
        };
        serde_json::from_str(&line).with_context(|| format!("{} said {line}", self.name))
    }

    /// Waits until a line of its log can be read so.
    async fn logs<T>(&mut self, read: impl Fn(&str) -> Option<T>) -> Result<T> {
        let started = Instant::now();
        loop {
            let has_ended = self.has_ended();
            if let Some(found) = std::fs::read_to_string(&self.log)?.lines().find_map(&read) {
                return Ok(found);
            }
            let is_late = started.elapsed() > ANSWERS_WITHIN;
            ensure!(!has_ended && !is_late, "{} is not ready; {}", self.name, self.last_words());
            tokio::time::sleep(ASK_EVERY).await;
        }
    }

    /// Lets it know that nothing more is to come.
    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// SIGKILL, and waits until it is gone.
    pub(crate) async fn kill(&mut self) -> Result<()> {
        self.child.kill().await.with_context(|| format!("cannot kill {}", self.name))
    }

    pub(crate) async fn wait(&mut self) -> Result<ExitStatus> {
        self.child.wait().await.with_context(|| format!("cannot wait for {}", self.name))
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Freezes it, as a machine under heavy load does.
    pub(crate) fn freeze(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    pub(crate) fn thaw(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let raw = self.child.id().and_then(|id| i32::try_from(id).ok());
        let pid = raw.and_then(Pid::from_raw).with_context(|| format!("{} is gone", self.name))?;
        rustix::process::kill_process(pid, signal)
            .with_context(|| format!("cannot signal {}", self.name))
    }

    /// The memory that it holds right now, in bytes.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        let id = self.child.id().with_context(|| format!("{} is gone", self.name))?;
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_once(" kB"));
        let kib = kib.context("the system does not say how much memory is used")?.0;
        Ok(kib.trim().parse::<u64>()? * 1024)
    }

    fn last_words(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        let last = &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..];
        if last.is_empty() { "its log is empty".into() } else { last.join("\n") }
    }
}
