//! Servers and workers as processes of their own, for demo, bench and chaos.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::signal::unix::{SignalKind, signal};

/// A process that has not said that it is ready by then has failed.
const READY_WITHIN: Duration = Duration::from_mins(1);
/// The server of crate `harness`, which ends at a chosen commit.
const TEST_SERVER: &str = "test-server";
/// The last lines of a log that are shown when its process failed.
const LOG_LINES_SHOWN: usize = 5;

/// What a server process says on stdout when it serves.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ServerReady {
    pub(crate) http: SocketAddr,
    /// Where Redis clients are served.
    pub(crate) resp: SocketAddr,
}

/// The binary, and the folder where its processes leave their logs.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    binary: PathBuf,
    logs: PathBuf,
    token: String,
}

impl Program {
    /// This same binary, unless another one is named.
    pub(crate) fn new(binary: Option<PathBuf>, logs: &Path, token: &str) -> Result<Self> {
        let binary = match binary {
            Some(binary) => binary,
            None => std::env::current_exe().context("cannot find this program's own file")?,
        };
        Ok(Self { binary, logs: logs.into(), token: token.into() })
    }

    /// Starts `astra internal <words>`. It ends by itself when this process does: its stdin closes.
    pub(crate) fn spawn(
        &self,
        name: &str,
        words: &[&str],
        variable: Option<(&str, &str)>,
    ) -> Result<Process> {
        let mut command = Command::new(&self.binary);
        command.arg("internal").args(words);
        self.spawn_command(name, command, variable)
    }

    /// The program that ends at a commit, which `cargo xtask chaos` builds beside `astra`.
    pub(crate) fn test_server(&self) -> Result<PathBuf> {
        let path = self.binary.with_file_name(TEST_SERVER);
        if !path.is_file() {
            bail!("{} is missing; build it: cargo build --release -p harness", path.display());
        }
        Ok(path)
    }

    fn spawn_command(
        &self,
        name: &str,
        mut command: Command,
        variable: Option<(&str, &str)>,
    ) -> Result<Process> {
        let log_path = self.logs.join(format!("{name}.log"));
        let log = File::options().create(true).append(true).open(&log_path)?;
        for (key, _) in std::env::vars_os() {
            // What the person has set for their own servers must not reach ours.
            if key.to_string_lossy().starts_with("ASTRA_") {
                command.env_remove(key);
            }
        }
        command.env("ASTRA_TOKEN", &self.token).envs(variable);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).kill_on_drop(true);
        let binary = command.as_std().get_program().display().to_string();
        let mut child = command.spawn().with_context(|| format!("cannot start {binary}"))?;
        let stdout = child.stdout.take().context("stdout is piped")?;
        let stdin = child.stdin.take();
        Ok(Process { name: name.into(), child, stdin, stdout: BufReader::new(stdout), log_path })
    }

    /// Starts a server and waits until it serves.
    pub(crate) async fn server(
        &self,
        data: &Path,
        http: SocketAddr,
        failpoint: Option<&str>,
    ) -> Result<(Process, ServerReady)> {
        let data = data.to_str().context("the folder's name is not valid UTF-8")?;
        let http = http.to_string();
        let words = ["--data", data, "--http", &http];
        let mut process = match failpoint {
            None => self.spawn("server", &[&["server"], &words[..]].concat(), None)?,
            Some(failpoint) => {
                let mut command = Command::new(self.test_server()?);
                command.args(words).args(["--failpoint", failpoint]);
                self.spawn_command("server", command, None)?
            }
        };
        let ready: ServerReady = process.line().await?;
        Ok((process, ready))
    }
}

/// A process that we started; dropping it kills it.
pub(crate) struct Process {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    log_path: PathBuf,
}

impl Process {
    /// The next line of its stdout, as JSON.
    pub(crate) async fn line<T: serde::de::DeserializeOwned>(&mut self) -> Result<T> {
        self.line_within(READY_WITHIN).await
    }

    pub(crate) async fn line_within<T: serde::de::DeserializeOwned>(
        &mut self,
        limit: Duration,
    ) -> Result<T> {
        let mut line = String::new();
        let read = tokio::time::timeout(limit, self.stdout.read_line(&mut line)).await;
        match read {
            Err(_) => bail!("{} said nothing within {limit:?}; {}", self.name, self.last_words()),
            Ok(Ok(0)) => bail!("{} ended before it was ready; {}", self.name, self.last_words()),
            Ok(result) => result.with_context(|| format!("cannot hear {}", self.name))?,
        };
        serde_json::from_str(&line).with_context(|| format!("{} said {line}", self.name))
    }

    /// Lets it know that nothing more is to come.
    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    pub(crate) fn id(&self) -> Option<u32> {
        self.child.id()
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

    fn last_words(&self) -> String {
        let log = std::fs::read_to_string(&self.log_path).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        let last = &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..];
        if last.is_empty() { "its log is empty".into() } else { last.join("\n") }
    }
}

/// Ends this process when its parent is gone, however that came about.
pub(crate) fn end_with_parent() {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
}

/// Waits for a signal to stop: Ctrl-C or SIGTERM.
pub(crate) async fn told_to_stop() {
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}
