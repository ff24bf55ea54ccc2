//! A server, a worker and commands against them, each a process of its own.

use std::fmt::Debug;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde_json::Value;
use tempfile::TempDir;

use crate::waiting::wait_until;

/// Longer than anything here takes, and shorter than a person waits.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A process that ends with the test.
pub(crate) struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw).expect("a process");
        rustix::process::kill_process(pid, signal).expect("it is ours");
    }

    /// A reader of its stderr of its own, so that it can still be ended.
    pub(crate) fn stderr(&self) -> BufReader<File> {
        let stderr = self.0.stderr.as_ref().expect("piped");
        BufReader::new(stderr.as_fd().try_clone_to_owned().expect("cloned").into())
    }

    /// How it ended, and what is left of its stdout and stderr.
    pub(crate) fn end(mut self) -> (ExitStatus, String, String) {
        let mut stderr = self.0.stderr.take().expect("piped");
        let reader = std::thread::spawn(move || {
            let mut text = Vec::new();
            stderr.read_to_end(&mut text).expect("reads");
            String::from_utf8_lossy(&text).into_owned()
        });
        let mut stdout = String::new();
        if let Some(mut pipe) = self.0.stdout.take() {
            pipe.read_to_string(&mut stdout).expect("text");
        }
        let status = self.0.wait().expect("ends");
        (status, stdout, reader.join().expect("reads"))
    }
}

/// A folder with a server that runs, and everything that talks to it.
pub(crate) struct Site {
    folder: TempDir,
    token: String,
    pub(crate) http: String,
    server: Option<Process>,
    workers: Vec<Process>,
}

impl Site {
    /// A server without workers.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("folder");
        std::fs::create_dir(folder.path().join("work")).expect("made");
        let data = folder.path().join("data");
        let made = astra(folder.path())
            .args(["token", "create", "--role", "admin", "-o", "quiet", "--data"])
            .arg(&data)
            .output()
            .expect("starts");
        assert!(made.status.success(), "{made:?}");
        let token = String::from_utf8(made.stdout).expect("text").trim().to_owned();
        let mut site =
            Self { folder, token, http: String::new(), server: None, workers: Vec::new() };
        site.start_server("127.0.0.1:0");
        site
    }

    /// A server with a worker that is ready.
    pub(crate) fn with_worker() -> Self {
        let mut site = Self::new();
        site.add_worker("w1");
        site
    }

    fn start_server(&mut self, http: &str) {
        let log = self.path("server.log");
        let mut server = astra(self.folder.path());
        server.args(["server", "start", "--log", "json", "--http", http, "--resp", "127.0.0.1:0"]);
        server.arg("--data").arg(self.path("data")).stdin(Stdio::null()).stdout(Stdio::null());
        server.stderr(File::create(&log).expect("made"));
        self.server = Some(Process(server.spawn().expect("starts")));
        let is_serving = async || {
            let log = std::fs::read_to_string(&log).expect("text");
            let mut lines = log.lines().filter_map(|line| serde_json::from_str(line).ok());
            let serving = lines.find(|line: &Value| line["message"] == "serving");
            serving.ok_or(log)
        };
        let serving = wait("the server", is_serving);
        serving["address"].as_str().expect("an address").clone_into(&mut self.http);
    }

    /// SIGKILL, and nobody there until it is started again.
    pub(crate) fn kill_server(&mut self) {
        self.server = None;
    }

    pub(crate) fn restart_server(&mut self) {
        let http = self.http.clone();
        self.start_server(&http);
    }

    pub(crate) fn add_worker(&mut self, name: &str) {
        self.add_worker_with(name, &[]);
    }

    /// A worker that is started with these flags.
    pub(crate) fn add_worker_with(&mut self, name: &str, flags: &[&str]) {
        let log = File::create(self.path(&format!("{name}.log"))).expect("made");
        let data = self.path(name);
        let mut worker = self.astra(&["worker", "start", "--name", name, "--slots", "4", "--data"]);
        worker.arg(data).args(flags).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.workers.push(Process(worker.spawn().expect("starts")));
        self.until(&["worker", "list", "-o", "quiet"], |list| list.contains(name));
    }

    /// Asks until the answer is as it should be.
    pub(crate) fn until(&self, words: &[&str], is_good: impl Fn(&str) -> bool) {
        let answered = async || {
            let answer = self.astra(words).output().expect("starts");
            let is_good = is_good(&String::from_utf8_lossy(&answer.stdout));
            if is_good { Ok(()) } else { Err(answer) }
        };
        wait(&words.join(" "), answered);
    }

    /// Where commands run.
    pub(crate) fn work(&self) -> PathBuf {
        self.path("work")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command against the server.
    pub(crate) fn astra(&self, words: &[&str]) -> Command {
        let mut command = astra(&self.work());
        command.args(words).env("ASTRA_TOKEN", &self.token);
        command.env("ASTRA_SERVER", format!("http://{}", self.http));
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, words: &[&str]) -> Ended {
        self.astra(words).stdin(Stdio::null()).output().expect("starts").into()
    }

    /// Starts a command whose stdout and stderr are read while it runs.
    pub(crate) fn start(&self, words: &[&str]) -> (Process, BufReader<impl Read + use<>>) {
        let mut command = self.astra(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("starts");
        let stdout = child.stdout.take().expect("piped");
        (Process(child), BufReader::new(stdout))
    }

    /// A pipe in the work folder that holds a command up until it is written to.
    pub(crate) fn gate(&self, name: &str) -> Gate {
        let path = self.work().join(name);
        let made = Command::new("mkfifo").arg(&path).status().expect("starts");
        assert!(made.success());
        Gate(path)
    }
}

/// See [`Site::gate`].
pub(crate) struct Gate(PathBuf);

impl Gate {
    /// Lets the command read this.
    pub(crate) fn write(&self, text: &str) {
        std::fs::write(&self.0, text).expect("a reader is there");
    }
}

/// How a command ended and what it said.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Ended {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("text").trim_end()
    }

    /// Ended so, or the test ends here with everything that was said.
    #[track_caller]
    pub(crate) fn with_code(self, code: i32) -> Self {
        let stdout = String::from_utf8_lossy(&self.stdout);
        assert_eq!(self.code, Some(code), "stdout: {stdout}\nstderr: {}", self.stderr);
        self
    }
}

/// Waits on this thread until something is so.
fn wait<T, S: Debug>(what: &str, is_so: impl AsyncFnMut() -> Result<T, S>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(wait_until(what, PATIENCE, is_so))
}

/// The binary in a folder, without the settings of whoever runs the tests.
fn astra(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_astra"));
    command.current_dir(folder);
    for (key, _) in std::env::vars_os() {
        if key.to_string_lossy().starts_with("ASTRA_") {
            command.env_remove(key);
        }
    }
    command
}

pub(crate) fn line_of(reader: &mut impl BufRead) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).expect("text");
    line
}

/// Reads until a line says this.
pub(crate) fn until_line(reader: &mut impl BufRead, text: &str) {
    loop {
        let line = line_of(reader);
        assert!(!line.is_empty(), "it ended before it said {text}");
        if line.contains(text) {
            return;
        }
    }
}
