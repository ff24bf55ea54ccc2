//! The whole: cycles of accidents, then peace, then the audit.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use protocol::rest::tasks::{Task, TaskPage};
use serde::Serialize;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::audit::{self, Findings};
use super::dice::Dice;
use super::flows::{self, Flows};
use super::killer::Killer;
use super::ledger::Ledger;
use super::reporter::{self, Reporter};
use super::submitter::{self, Submitter};
use crate::exit_code::ExitCode;
use crate::failure;
use crate::lab::Lab;
use crate::output::{self, Output, Show};

const SUBMITTERS: u64 = 2;
/// Once in so many cycles a task is submitted that ends its worker's process.
const CRASH_EVERY: u64 = 8;
/// Old reports that are sent again after each accident.
const RESENT_PER_CYCLE: usize = 5;
/// When the accidents are over, everything comes to its end within this time.
const SETTLE_WITHIN: Duration = Duration::from_mins(1);
const LOOK_EVERY: Duration = Duration::from_millis(200);
const VIOLATIONS_SHOWN: usize = 20;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many accidents.
    #[arg(long, default_value_t = 25)]
    cycles: u64,
    /// Where chance starts.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Another binary to run instead of this one.
    #[arg(long, value_name = "PATH")]
    astra: Option<PathBuf>,
}

#[derive(Serialize)]
struct Outcome {
    cycles: u64,
    seed: u64,
    kills: usize,
    submitted: usize,
    committed: usize,
    superseded: usize,
    resent: usize,
    lost: usize,
    double: usize,
    runs: usize,
    violations: usize,
    seconds: f64,
}

pub(crate) async fn run(arguments: Arguments, output: Output) -> failure::Result<ExitCode> {
    let started = Instant::now();
    let ledger = Arc::new(Ledger::default());
    let lab = Lab::start(arguments.astra.clone(), None).await?;
    let mut killer = Killer::new(lab, Dice::new(arguments.seed))?;
    let played = play(&arguments, &mut killer, &ledger, output).await;
    let findings = match played {
        Ok(findings) => findings,
        Err(error) => {
            let kept = killer.lab.keep();
            return Err(error.context(format!("data is kept in {}", kept.display())).into());
        }
    };
    let outcome = outcome(&arguments, &killer, &ledger, findings, started);
    output.show(&outcome);
    if outcome.violations == 0 {
        return Ok(ExitCode::Success);
    }
    for violation in ledger.open().violations.iter().take(VIOLATIONS_SHOWN) {
        output::warn(violation);
    }
    output::warn(format!("data is kept in {}", killer.lab.keep().display()));
    Ok(ExitCode::Failed)
}

async fn play(
    arguments: &Arguments,
    killer: &mut Killer,
    ledger: &Arc<Ledger>,
    output: Output,
) -> Result<Findings> {
    let client = killer.lab.client.clone();
    let dice = Dice::new(arguments.seed);
    let stop = CancellationToken::new();
    let mut outside = JoinSet::new();
    for name in 0..SUBMITTERS {
        let (client, ledger) = (client.clone(), Arc::clone(ledger));
        let submitter = Submitter { name, client, ledger, dice: dice.fork(name + 1) };
        outside.spawn(submitter.run(stop.clone()));
    }
    let reporter =
        Reporter { client: client.clone(), ledger: Arc::clone(ledger), dice: dice.fork(100) };
    outside.spawn(reporter.run(stop.clone()));
    let flows = Flows { client: client.clone(), ledger: Arc::clone(ledger), dice: dice.fork(300) };
    outside.spawn(flows.run(stop.clone()));

    let mut choices = dice.fork(200);
    for cycle in 1..=arguments.cycles {
        let accident = killer.cycle().await.with_context(|| format!("cycle {cycle}"))?;
        output.note(format!("cycle {cycle}: {accident:?}"));
        if cycle % CRASH_EVERY == 3 {
            submitter::submit_crash(&client, ledger, cycle).await?;
        }
        let told = ledger.open().told.len();
        let chosen = (0..RESENT_PER_CYCLE).map(|_| choices.index(told)).collect();
        reporter::send_again(&client, ledger, chosen).await?;
    }
    stop.cancel();
    while let Some(ended) = outside.join_next().await {
        ended.context("a part of the outside client panicked")??;
    }
    settle(killer, ledger).await?;
    let told = ledger.open().told.len();
    reporter::send_again(&client, ledger, (0..told).collect()).await?;
    audit::audit(&client, killer.lab.folder(), ledger).await
}

/// Peace: workers run, nobody is killed, and everything comes to its end.
async fn settle(killer: &mut Killer, ledger: &Ledger) -> Result<()> {
    let started = Instant::now();
    loop {
        killer.revive()?;
        let live = killer.lab.live_tasks().await?;
        if live == 0 && requeue_unlucky(killer, ledger).await? == 0 {
            let runs = flows::live(&killer.lab.client, ledger).await?;
            ensure!(runs == 0, "{runs} runs have no live task, and have not come to their end");
            return Ok(());
        }
        ensure!(
            started.elapsed() < SETTLE_WITHIN,
            "{live} tasks have not come to their end within {SETTLE_WITHIN:?}"
        );
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// A task that lost three workers in a row is dead, as it should be; unless it killed them itself,
/// it is brought back by hand.
async fn requeue_unlucky(killer: &Killer, ledger: &Ledger) -> Result<usize> {
    let client = &killer.lab.client;
    let dead: TaskPage = client.get("/api/v1/tasks?state=DEAD&limit=100").await?;
    let crashing = ledger.open().crashing.clone();
    let mut requeued = 0;
    for task in dead.tasks {
        // A task of a run is not put back alone; its run has ended with it.
        if task.run.is_none() && !crashing.contains(&task.task_id.parse()?) {
            let path = format!("/api/v1/tasks/{}/requeue", task.task_id);
            let _: Task = client.post(&path, &serde_json::json!({})).await?;
            requeued += 1;
        }
    }
    Ok(requeued)
}

fn outcome(
    arguments: &Arguments,
    killer: &Killer,
    ledger: &Ledger,
    findings: Findings,
    started: Instant,
) -> Outcome {
    let books = ledger.open();
    Outcome {
        cycles: arguments.cycles,
        seed: arguments.seed,
        kills: killer.kills,
        submitted: books.acknowledged.len(),
        committed: findings.committed,
        superseded: findings.superseded,
        resent: books.resent,
        lost: findings.lost,
        double: findings.double,
        runs: findings.runs,
        violations: books.violations.len(),
        seconds: started.elapsed().as_secs_f64(),
    }
}

impl Show for Outcome {
    fn text(&self) -> String {
        let rows = [
            ("cycles", self.cycles.to_string()),
            ("seed", self.seed.to_string()),
            ("kills", self.kills.to_string()),
            ("submitted", self.submitted.to_string()),
            ("committed", self.committed.to_string()),
            ("superseded", self.superseded.to_string()),
            ("sent again", self.resent.to_string()),
            ("lost", self.lost.to_string()),
            ("double", self.double.to_string()),
            ("runs", self.runs.to_string()),
            ("violations", self.violations.to_string()),
            ("seconds", format!("{:.1}", self.seconds)),
        ];
        output::facts(&rows)
    }

    fn quiet(&self) -> String {
        self.violations.to_string()
    }
}
