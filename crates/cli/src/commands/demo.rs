//! `astra demo`: a story with real processes, real kills and a count at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use client::Client;
use indicatif::ProgressBar;
use protocol::rest::queues::Queues;
use protocol::rest::runs::{Run, RunRef, RunStatus, StartRun};
use protocol::rest::tasks::{SubmittedTasks, TaskPage};
use protocol::rest::workers::Workers;
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::failure::ExitCode;
use crate::output::{self, Output};
use crate::workflow_run::{self, NodeTree};
use crate::{format, interrupts};

/// Watch tasks survive: one server, three workers, and an accident for each of them.
///
/// Starts everything in a temporary folder, kills a worker and the server half-way (SIGKILL),
/// freezes another worker, and counts. A small workflow comes last. Exit code 0 only if nothing was
/// lost or counted twice.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many tasks.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    tasks: u32,
}

pub(crate) async fn run(arguments: Arguments, output: Output) -> crate::failure::Result<ExitCode> {
    let Played { report, run } = tokio::select! {
        played = play(arguments.tasks as usize, output) => played?,
        // Dropping the story ends its processes.
        () = interrupts::told_to_stop() => return Err(crate::run::interrupted("")),
    };
    output.answer(&report, report.text(), report.committed);
    show_workflow(&run, output);
    if report.lost == 0 && report.double == 0 && run.status == RunStatus::Succeeded {
        output.note("Nothing was lost and nothing counted twice. Next: astra dev");
        Ok(ExitCode::Success)
    } else {
        Ok(ExitCode::Failed)
    }
}

/// The workflow at the end: its nodes, as `astra flow run` shows them.
fn show_workflow(run: &Run, output: Output) {
    output.note(format!("\nA workflow on the same server: run {}, {}.\n", run.number, run.name));
    let nodes = run.nodes.as_deref().unwrap_or_default();
    for line in NodeTree::of(nodes, format::now()).lines(nodes.len()) {
        output.note(line);
    }
    output.note("");
}

impl Report {
    fn text(&self) -> String {
        let row = |number: usize, meaning: &str| {
            format!("{:>7}  {meaning}", format::thousands(number as u64))
        };
        let rows = [
            ("submitted", row(self.submitted, "")),
            ("committed", row(self.committed, "results that count, one per task")),
            ("superseded", row(self.superseded, "late results that were refused")),
            ("lost", row(self.lost, "")),
            ("double", row(self.double, "")),
            ("seconds", format!("{:>7.1}", self.seconds)),
        ];
        format!("\n{}", output::facts(&rows.map(|(name, value)| (name, value.trim_end().into()))))
    }
}

/// The small workflow at the end: two ways side by side, one of them a fan-out.
const WORKFLOW: &str = include_str!("demo/workflow.json");
/// A workflow that has not ended by then never will.
const WORKFLOW_WITHIN: Duration = Duration::from_secs(30);
const BAR: &str = "  {bar:40.green/dim} {pos:>6}/{len} committed  {elapsed}";
/// Without a bar, progress is said at each of these shares.
const STEPS: u64 = 4;
const SLOTS: usize = 6;
const BATCH: usize = 100;
/// Short, so that a killed worker's tasks come back while one watches.
const LEASE_TTL: Duration = Duration::from_secs(2);
/// Long enough that a frozen worker's leases end. Counted from the server's restart, which gives
/// every live lease one fresh term.
const FROZEN: Duration = Duration::from_millis(2_500);
/// How long the server stays away.
const AWAY: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// What is not done by then does not count as done.
const PATIENCE: Duration = Duration::from_mins(2);
/// A worker that was frozen hears within this time that its results are too late.
const LATE_VERDICTS_WITHIN: Duration = Duration::from_secs(1);

/// Shares of the work after which the accidents happen, in percent.
const FREEZE_AT: u64 = 20;
const KILL_WORKER_AT: u64 = 35;
const KILL_SERVER_AT: u64 = 50;

/// Plays the demo from beginning to end.
async fn play(n_tasks: usize, output: Output) -> Result<Played> {
    let amount = format::count(n_tasks, "task");
    output.note(format!(
        "One server, three workers with a session each, {amount}: processes in a temporary folder.\n\
         A task belongs to a worker by a lease of {} s. Watch what accidents do to it.\n",
        LEASE_TTL.as_secs()
    ));
    let site = Site::start().await?;
    let started = Instant::now();
    let mut demo = Demo {
        _w1: site.start_worker("w1", SLOTS)?,
        w2: site.start_worker("w2", SLOTS)?,
        w3: site.start_worker("w3", SLOTS)?,
        submitted: submit(&site, n_tasks).await?,
        site,
        display: Display::new(output, n_tasks),
        started,
        phase: Phase::Calm,
        frozen_tasks: 0,
    };
    let seconds = demo.run().await?;
    demo.report(seconds).await
}

/// What the demo came to.
struct Played {
    report: Report,
    /// The workflow at the end.
    run: Run,
}

struct Demo {
    // Workers before the site: they leave its folder before it is removed.
    _w1: Process,
    w2: Process,
    w3: Process,
    site: Site,
    submitted: BTreeSet<String>,
    display: Display,
    started: Instant,
    phase: Phase,
    /// What w3 held when it froze.
    frozen_tasks: usize,
}

/// Which accident comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing has happened yet; w3 freezes next.
    Calm,
    /// w3 is frozen; w2 dies next.
    Frozen,
    /// w2 is dead too; the server dies next.
    WorkerKilled,
    /// The server came back then; w3 thaws next.
    ServerKilled(Instant),
    /// All accidents are over.
    Over,
}

impl Demo {
    async fn run(&mut self) -> Result<f64> {
        let total = self.submitted.len() as u64;
        loop {
            let settled = total.saturating_sub(self.site.live_tasks().await?);
            self.display.progress(settled);
            self.advance(settled * 100 / total.max(1)).await?;
            let is_over = settled == total && self.phase == Phase::Over;
            if is_over || self.started.elapsed() > PATIENCE {
                return Ok(self.started.elapsed().as_secs_f64());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn advance(&mut self, percent: u64) -> Result<()> {
        self.phase = match self.phase {
            Phase::Calm if percent >= FREEZE_AT => {
                let held = self.held_by("w3").await?;
                self.w3.signal(Signal::STOP)?;
                self.frozen_tasks = held;
                let held = format::count(held, "task");
                self.display.say(&format!(
                    "froze worker w3 (SIGSTOP): it holds {held} and says nothing any more"
                ));
                Phase::Frozen
            }
            Phase::Frozen if percent >= KILL_WORKER_AT => {
                let held = format::count(self.held_by("w2").await?, "task");
                self.w2.kill().await?;
                self.display.say(&format!(
                    "killed worker w2 (SIGKILL): its {held} go back to the queue when their \
                     leases end"
                ));
                Phase::WorkerKilled
            }
            Phase::WorkerKilled if percent >= KILL_SERVER_AT => {
                self.kill_server().await?;
                Phase::ServerKilled(Instant::now())
            }
            Phase::ServerKilled(since) if since.elapsed() > FROZEN => {
                self.w3.signal(Signal::CONT)?;
                self.display.say(
                    "thawed worker w3: it hears that what it held is no longer its own \
                     (superseded)",
                );
                Phase::Over
            }
            unchanged => unchanged,
        };
        Ok(())
    }

    async fn kill_server(&mut self) -> Result<()> {
        self.display
            .say("killing the server (SIGKILL): workers keep what they have and come back to it");
        let took = self.site.restart_server(AWAY).await?;
        self.display.say(&format!(
            "started the server again: everything it had promised was back after {} ms",
            took.as_millis()
        ));
        Ok(())
    }

    async fn held_by(&self, worker: &str) -> Result<usize> {
        let workers: Workers = self.site.client.get("/api/v1/workers").await?;
        let held = workers.workers.iter().find(|w| w.worker_id == worker).map(|w| w.in_flight);
        Ok(usize::try_from(held.unwrap_or(0))?)
    }

    async fn report(self, seconds: f64) -> Result<Played> {
        let waiting = Instant::now();
        let verdicts = loop {
            let verdicts = verdicts(self.site.folder())?;
            let are_all_heard = superseded(&verdicts) >= self.frozen_tasks;
            if are_all_heard || waiting.elapsed() > LATE_VERDICTS_WITHIN {
                break verdicts;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        };
        let completed = completed(&self.site.client).await?;
        let committed = self.submitted.intersection(&completed).count();
        self.display.bar.finish();
        let run = run_workflow(&self.site).await?;
        let report = Report {
            submitted: self.submitted.len(),
            committed,
            superseded: superseded(&verdicts),
            lost: self.submitted.len() - committed,
            double: doubles(&verdicts),
            seconds,
            workflow: run.status,
        };
        Ok(Played { report, run })
    }
}

/// What the audience sees: a live bar on a terminal, plain lines elsewhere.
struct Display {
    output: Output,
    bar: ProgressBar,
    total: u64,
    steps_said: u64,
}

impl Display {
    fn new(output: Output, total: usize) -> Self {
        let total = total as u64;
        let bar = output::progress_bar(output.is_for_people(), Some(total), BAR);
        if !bar.is_hidden() {
            bar.enable_steady_tick(LOOK_EVERY);
        }
        Self { output, bar, total, steps_said: 0 }
    }

    /// A line of the story.
    fn say(&self, text: &str) {
        self.bar.suspend(|| self.output.note(text));
    }

    fn progress(&mut self, settled: u64) {
        self.bar.set_position(settled);
        let step = settled * STEPS / self.total.max(1);
        if self.bar.is_hidden() && step > self.steps_said {
            self.steps_said = step;
            let (settled, total) = (format::thousands(settled), format::thousands(self.total));
            self.output.note(format!("  {settled} of {total} committed"));
        }
    }
}

async fn submit(site: &Site, n_tasks: usize) -> Result<BTreeSet<String>> {
    let mut ids = BTreeSet::new();
    let numbers: Vec<usize> = (0..n_tasks).collect();
    for batch in numbers.chunks(BATCH) {
        let tasks: Vec<_> = batch.iter().map(|number| task(*number)).collect();
        let submitted: SubmittedTasks =
            site.client.post("/api/v1/tasks", &json!({ "tasks": tasks })).await?;
        ids.extend(submitted.tasks.into_iter().map(|task| task.task_id));
    }
    Ok(ids)
}

/// Two sleepers of 20 to 60 ms for each echo.
fn task(number: usize) -> Value {
    let (task_type, parameters) = match number % 3 {
        0 => ("core.echo", json!({ "number": number })),
        _ => ("core.sleep", json!({ "ms": 20 + number % 41 })),
    };
    json!({
        "type": task_type, "parameters": parameters, "retry": { "max_attempts": 10 },
        "lease_ttl_ms": LEASE_TTL.as_secs() * 1_000, "idempotency_key": format!("demo-{number}"),
    })
}

/// Runs the workflow to its end.
async fn run_workflow(site: &Site) -> Result<Run> {
    let workflow = Some(RawValue::from_string(WORKFLOW.into())?);
    let start = StartRun { workflow, ..StartRun::default() };
    let started: RunRef = site.client.post("/api/v1/runs", &start).await?;
    let (path, begun) = (workflow_run::path(&started.run_id), Instant::now());
    loop {
        let run: Run = site.client.get(&path).await?;
        if run.status.is_terminal() {
            return Ok(run);
        }
        ensure!(begun.elapsed() < WORKFLOW_WITHIN, "the workflow at the end did not end");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// A server that does not serve by then has failed.
const READY_WITHIN: Duration = Duration::from_mins(1);

/// A process of ours. Dropping it kills it.
struct Process(Child);

impl Process {
    async fn kill(&mut self) -> Result<()> {
        self.0.kill().await.context("cannot kill a process of the demo")
    }

    /// Freezes it, as a machine under heavy load does, or thaws it.
    fn signal(&self, signal: Signal) -> Result<()> {
        let id = self.0.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let id = id.context("a process of the demo has ended")?;
        rustix::process::kill_process(id, signal).context("cannot signal a process of the demo")
    }
}

/// A server, its folder, and a client of it.
struct Site {
    // Before the folder: fields are dropped in order, and the process uses the folder.
    server: Process,
    address: SocketAddr,
    client: Client,
    folder: TempDir,
}

impl Site {
    /// Starts a server in a new temporary folder.
    async fn start() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("astra-demo-").tempdir();
        let folder = folder.context("cannot make a folder for the server's data")?;
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let (server, address) = start_server(folder.path(), any_port).await?;
        let client = Client::new(address.to_string().parse()?, None)?;
        Ok(Self { server, address, client, folder })
    }

    /// Kills the server, waits, and starts it again at the same address. Gives the time from that
    /// start until it serves.
    async fn restart_server(&mut self, away: Duration) -> Result<Duration> {
        self.server.kill().await?;
        tokio::time::sleep(away).await;
        let started = Instant::now();
        (self.server, _) = start_server(self.folder(), self.address).await?;
        Ok(started.elapsed())
    }

    /// Starts a worker whose log tells every verdict.
    fn start_worker(&self, name: &str, slots: usize) -> Result<Process> {
        let url = self.client.endpoint().to_string();
        let mut command = astra(self.folder(), name)?;
        command.args(["worker", "start", "--name", name, "--server", &url]);
        command.args(["--slots", &slots.to_string(), "--log", "json", "--log-level", "debug"]);
        command.arg("--data").arg(self.folder().join(name)).stdout(Stdio::null());
        Ok(Process(command.spawn().context("cannot start a worker")?))
    }

    /// Where the logs are.
    fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Tasks that have not come to their end.
    async fn live_tasks(&self) -> Result<u64> {
        let queues: Queues = self.client.get("/api/v1/queues").await?;
        let live = |queue: &protocol::rest::queues::Queue| {
            queue.depth + queue.in_flight + queue.retries_due + queue.scheduled
        };
        Ok(queues.queues.iter().map(live).sum())
    }
}

async fn start_server(folder: &Path, http: SocketAddr) -> Result<(Process, SocketAddr)> {
    let mut command = astra(folder, "server")?;
    command.args(["dev", "--workers", "0", "--resp", "127.0.0.1:0", "-o", "quiet"]);
    command.arg("--http").arg(http.to_string()).arg("--data").arg(folder.join("data"));
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start the server")?;
    let mut stdout = BufReader::new(child.stdout.take().context("stdout is piped")?);
    let mut url = String::new();
    let said = tokio::time::timeout(READY_WITHIN, stdout.read_line(&mut url)).await;
    if said.context("the server does not serve")?? == 0 {
        let log = std::fs::read_to_string(log_path(folder, "server")).unwrap_or_default();
        bail!("the server ended before it served: {}", log.trim_end());
    }
    let port = url.trim_end().rsplit_once(':').context("a server says where it serves")?.1;
    Ok((Process(child), SocketAddr::new(http.ip(), port.parse()?)))
}

/// This program, without the settings of whoever watches.
fn astra(folder: &Path, name: &str) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("this program has no file")?);
    for (key, _) in std::env::vars_os() {
        if key.to_string_lossy().starts_with("ASTRA_") {
            command.env_remove(key);
        }
    }
    let log = File::options().create(true).append(true).open(log_path(folder, name))?;
    command.current_dir(folder).stdin(Stdio::null()).stderr(log).kill_on_drop(true);
    Ok(command)
}

fn log_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.log"))
}

const PAGE: usize = 500;

/// The numbers at the end.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Report {
    /// Tasks that the server accepted.
    submitted: usize,
    /// Tasks whose result counts, as the store has it.
    committed: usize,
    /// Results that came too late, as workers heard it.
    superseded: usize,
    /// Tasks that were accepted and have no result that counts.
    lost: usize,
    /// Tasks of which two results were accepted, as workers heard it.
    double: usize,
    /// From the first submit to the last result.
    seconds: f64,
    /// How the workflow at the end fared.
    workflow: RunStatus,
}

/// The ids of all tasks whose result counts.
async fn completed(client: &Client) -> Result<BTreeSet<String>> {
    let mut ids = BTreeSet::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/api/v1/tasks?state=COMPLETED&limit={PAGE}{cursor}");
        let page: TaskPage = client.get(&path).await?;
        ids.extend(page.tasks.into_iter().map(|task| task.task_id));
        let Some(next) = page.next_cursor else { return Ok(ids) };
        cursor = format!("&cursor={next}");
    }
}

/// A verdict in the log of a worker.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Verdict {
    lease_id: String,
    verdict: String,
}

/// All verdicts in the logs of a folder.
fn verdicts(folder: &Path) -> Result<Vec<Verdict>> {
    let mut verdicts = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "log") {
            let log = String::from_utf8_lossy(&fs::read(path)?).into_owned();
            // Most lines say something else, and a killed worker may leave half a line.
            verdicts.extend(log.lines().filter_map(|line| serde_json::from_str(line).ok()));
        }
    }
    Ok(verdicts)
}

/// Results that came too late.
fn superseded(verdicts: &[Verdict]) -> usize {
    verdicts.iter().filter(|one| one.verdict == "CANCELLED").count()
}

/// Tasks that were committed under two different leases.
fn doubles(verdicts: &[Verdict]) -> usize {
    let mut leases: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for one in verdicts.iter().filter(|one| one.verdict == "COMMITTED") {
        let task = one.lease_id.rsplit_once('-').map_or("", |(task, _epoch)| task);
        leases.entry(task).or_default().insert(&one.lease_id);
    }
    leases.values().filter(|leases| leases.len() > 1).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workflow_can_run() {
        let compiled = flow::compile(WORKFLOW.into()).expect("no problems");
        assert_eq!(compiled.warnings, []);
        assert_eq!(compiled.program.graphs[0].nodes.len(), 4);
    }

    #[test]
    fn two_leases_of_one_task_are_a_double_and_a_repeated_line_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let line = |lease: &str, verdict: &str| {
            format!(r#"{{"level":"DEBUG","lease_id":"{lease}","verdict":"{verdict}"}}"#)
        };
        let check = |lines: &[String], expected: (usize, usize)| {
            fs::write(folder.path().join("w1.log"), lines.join("\n")).expect("written");
            let verdicts = verdicts(folder.path()).expect("reads");
            assert_eq!((superseded(&verdicts), doubles(&verdicts)), expected);
        };
        let fine = [
            line("t-1-1", "COMMITTED"),
            line("t-1-1", "COMMITTED"),
            line("t-2-1", "CANCELLED"),
            r#"{"level":"INFO","message":"connected"}"#.into(),
            line("t-2-2", "COMMITTED"),
            r#"{"level":"DEBUG","lease_id":"t-2-3","ver"#.into(),
        ];
        check(&fine, (1, 0));
        check(&[line("t-1-1", "COMMITTED"), line("t-1-2", "COMMITTED")], (0, 1));
    }
}
