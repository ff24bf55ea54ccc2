//! What happens when.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use model::TaskId;
use protocol::rest::leases::VerdictWord;
use protocol::rest::runs::Run;
use protocol::rest::tasks::{Retry, SubmitTasks, SubmittedTasks, TaskToSubmit};
use protocol::rest::workers::Workers;
use serde_json::value::RawValue;

use super::stage::Stage;
use super::tally::{self, Tally};
use super::workflow;
use crate::bench::Door;
use crate::journal;
use crate::lab::Lab;
use crate::output::Output;
use crate::process::Process;
use crate::words;

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
pub(crate) async fn play(n_tasks: usize, output: Output) -> Result<Played> {
    let amount = words::count(n_tasks, "task");
    output.note(format!(
        "One server, three workers with a session each, {amount}: processes in a temporary folder.\n\
         A task belongs to a worker by a lease of {} s. Watch what accidents do to it.\n",
        LEASE_TTL.as_secs()
    ));
    let lab = Lab::start(None, None).await?;
    let workers = [1, 2, 3].map(|number| lab.worker(&format!("w{number}"), SLOTS, Door::Ws, false));
    let [w1, w2, w3] = workers;
    let started = Instant::now();
    let mut story = Story {
        submitted: submit(&lab, n_tasks).await?,
        lab,
        _w1: w1?,
        w2: w2?,
        w3: w3?,
        stage: Stage::new(output, n_tasks),
        started,
        chapter: Chapter::Calm,
        frozen_tasks: 0,
    };
    let seconds = story.run().await?;
    story.tally(seconds).await
}

/// What the demo came to.
pub(crate) struct Played {
    pub(crate) tally: Tally,
    /// The workflow at the end.
    pub(crate) run: Run,
}

struct Story {
    // Workers before the lab: they leave its folder before it is removed.
    _w1: Process,
    w2: Process,
    w3: Process,
    lab: Lab,
    submitted: BTreeSet<TaskId>,
    stage: Stage,
    started: Instant,
    chapter: Chapter,
    /// What w3 held when it froze.
    frozen_tasks: usize,
}

/// Which accident comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chapter {
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

impl Story {
    async fn run(&mut self) -> Result<f64> {
        let total = self.submitted.len() as u64;
        loop {
            let settled = total.saturating_sub(self.lab.live_tasks().await?);
            self.stage.progress(settled);
            self.act(settled * 100 / total.max(1)).await?;
            let is_over = settled == total && self.chapter == Chapter::Over;
            if is_over || self.started.elapsed() > PATIENCE {
                return Ok(self.started.elapsed().as_secs_f64());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn act(&mut self, percent: u64) -> Result<()> {
        self.chapter = match self.chapter {
            Chapter::Calm if percent >= FREEZE_AT => {
                let held = self.held_by("w3").await?;
                self.w3.freeze()?;
                self.frozen_tasks = held;
                let held = words::count(held, "task");
                self.stage.say(&format!(
                    "froze worker w3 (SIGSTOP): it holds {held} and says nothing any more"
                ));
                Chapter::Frozen
            }
            Chapter::Frozen if percent >= KILL_WORKER_AT => {
                let held = words::count(self.held_by("w2").await?, "task");
                self.w2.kill().await?;
                self.stage.say(&format!(
                    "killed worker w2 (SIGKILL): its {held} go back to the queue when their \
                     leases end"
                ));
                Chapter::WorkerKilled
            }
            Chapter::WorkerKilled if percent >= KILL_SERVER_AT => {
                self.kill_server().await?;
                Chapter::ServerKilled(Instant::now())
            }
            Chapter::ServerKilled(since) if since.elapsed() > FROZEN => {
                self.w3.thaw()?;
                self.stage.say(
                    "thawed worker w3: it hears that what it held is no longer its own \
                     (superseded)",
                );
                Chapter::Over
            }
            unchanged => unchanged,
        };
        Ok(())
    }

    async fn kill_server(&mut self) -> Result<()> {
        self.lab.server().kill().await?;
        self.stage
            .say("killed the server (SIGKILL): workers keep what they have and come back to it");
        tokio::time::sleep(AWAY).await;
        let took = self.lab.restart_server(None).await?;
        self.stage.say(&format!(
            "started the server again: everything it had promised was back after {} ms",
            took.as_millis()
        ));
        Ok(())
    }

    async fn held_by(&self, worker: &str) -> Result<usize> {
        let workers: Workers = self.lab.client.get("/api/v1/workers").await?;
        let held = workers.workers.iter().find(|w| w.worker_id == worker).map(|w| w.in_flight);
        Ok(usize::try_from(held.unwrap_or(0))?)
    }

    async fn tally(self, seconds: f64) -> Result<Played> {
        let waiting = Instant::now();
        let folder = self.lab.folder();
        while waiting.elapsed() < LATE_VERDICTS_WITHIN && late_verdicts(folder)? < self.frozen_tasks
        {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let mut tally = tally::count(&self.lab.client, folder, &self.submitted, seconds).await?;
        self.stage.end();
        let run = workflow::play(&self.lab.client).await?;
        tally.workflow = run.status;
        Ok(Played { tally, run })
    }
}

fn late_verdicts(folder: &Path) -> std::io::Result<usize> {
    let entries = journal::read_all(folder)?;
    Ok(entries.iter().filter(|entry| entry.verdict == VerdictWord::Cancelled).count())
}

async fn submit(lab: &Lab, n_tasks: usize) -> Result<BTreeSet<TaskId>> {
    let mut ids = BTreeSet::new();
    let numbers: Vec<usize> = (0..n_tasks).collect();
    for batch in numbers.chunks(BATCH) {
        let tasks = SubmitTasks { tasks: batch.iter().map(|number| task(*number)).collect() };
        let submitted: SubmittedTasks = lab.client.post("/api/v1/tasks", &tasks).await?;
        for task in submitted.tasks {
            ids.insert(task.task_id.parse()?);
        }
    }
    Ok(ids)
}

/// Two sleepers of 20 to 60 ms for each echo.
fn task(number: usize) -> TaskToSubmit {
    let (task_type, parameters) = match number % 3 {
        0 => ("core.echo", format!(r#"{{"number":{number}}}"#)),
        _ => ("core.sleep", format!(r#"{{"ms":{}}}"#, 20 + number % 41)),
    };
    TaskToSubmit {
        task_type: task_type.into(),
        parameters: Some(RawValue::from_string(parameters).expect("JSON as written above")),
        queue: None,
        priority: None,
        not_before: None,
        after: Vec::new(),
        timeout_ms: None,
        lease_ttl_ms: i64::try_from(LEASE_TTL.as_millis()).ok(),
        retry: Some(Retry { max_attempts: Some(10), ..Retry::default() }),
        concurrency_key: None,
        run: None,
        requires: None,
        idempotency_key: Some(format!("demo-{number}")),
    }
}
