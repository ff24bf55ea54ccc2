//! Real processes, killed at random moments, while clients keep their own books: cycles of
//! accidents, then peace, then the audit.
//!
//! Reading order: this file, `killer` (what is done to the processes), `outside` (the clients).

mod killer;
mod outside;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use client::Client;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::killer::Killer;
use self::outside::{Outside, live_runs, send_again, submit_crash};
use crate::audit::{self, Findings};
use crate::ledger::Ledger;
use crate::rng::{Rng, fresh_seed};
use crate::test_cluster::TestCluster;

const SUBMITTERS: u64 = 2;
/// Once in so many cycles a task is submitted that ends its worker's process.
const CRASH_EVERY: u64 = 8;
/// Old reports that are sent again after each accident.
const RESENT_PER_CYCLE: usize = 5;
/// When the accidents are over, everything comes to its end within this time.
const SETTLE_WITHIN: Duration = Duration::from_mins(1);
const LOOK_EVERY: Duration = Duration::from_millis(200);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many accidents.
    #[arg(long, default_value_t = 25)]
    cycles: u64,
    /// Where the random choices start; without it a new one each time, which is printed.
    #[arg(long)]
    seed: Option<u64>,
}

/// The figures, as the last line on stdout.
#[derive(Serialize)]
struct Outcome {
    cycles: u64,
    seed: u64,
    kills: usize,
    submitted: usize,
    committed: usize,
    heard: usize,
    superseded: usize,
    resent: usize,
    lost: usize,
    double: usize,
    runs: usize,
    violations: usize,
    seconds: f64,
}

pub(crate) async fn run(arguments: &Arguments, astra: Option<&Path>) -> Result<()> {
    let (cycles, seed) = (arguments.cycles, arguments.seed.unwrap_or_else(fresh_seed));
    eprintln!("chaos: {cycles} cycles, seed {seed}");
    let started = Instant::now();
    let ledger = Arc::new(Ledger::default());
    let mut killer = Killer::new(TestCluster::start(astra, None).await?, Rng::new(seed))?;
    let played = play(cycles, seed, &mut killer, &ledger).await;
    let played = played.and_then(|(findings, runs)| {
        let books = ledger.open();
        let outcome = Outcome {
            cycles,
            seed,
            kills: killer.kills,
            submitted: books.acknowledged.len(),
            committed: findings.committed,
            heard: findings.heard,
            superseded: findings.superseded,
            resent: books.resent,
            lost: findings.lost,
            double: findings.double,
            runs,
            violations: books.violations.len(),
            seconds: started.elapsed().as_secs_f64(),
        };
        println!("{}", serde_json::to_string(&outcome)?);
        let violations = audit::show(&books.violations);
        ensure!(violations == 0, "{violations} violations");
        Ok(())
    });
    played.with_context(|| {
        format!(
            "chaos with seed {seed} failed; data is kept in {}",
            killer.cluster.keep().display()
        )
    })
}

async fn play(
    cycles: u64,
    seed: u64,
    killer: &mut Killer,
    ledger: &Arc<Ledger>,
) -> Result<(Findings, usize)> {
    let client = killer.cluster.client.clone();
    let rng = Rng::new(seed);
    let stop = CancellationToken::new();
    let mut clients = start_clients(&client, ledger, &rng, &stop);
    let mut choices = rng.fork(200);
    for cycle in 1..=cycles {
        let accident = killer.cycle().await.with_context(|| format!("cycle {cycle}"))?;
        eprintln!("cycle {cycle}: {accident:?}");
        if cycle % CRASH_EVERY == 3 {
            submit_crash(&client, ledger, cycle).await?;
        }
        let told = ledger.open().told.len();
        let chosen = (0..RESENT_PER_CYCLE).map(|_| choices.index(told)).collect();
        send_again(&client, ledger, chosen).await?;
    }
    stop.cancel();
    while let Some(ended) = clients.join_next().await {
        ended.context("a client panicked")??;
    }
    settle(killer, ledger).await?;
    let told = ledger.open().told.len();
    send_again(&client, ledger, (0..told).collect()).await?;
    let runs = audit::audit_runs(&client, ledger, outside::TASKS_OF_RUN).await?;
    let (findings, _) = audit::audit(&killer.cluster, ledger).await?;
    Ok((findings, runs))
}

fn start_clients(
    client: &Client,
    ledger: &Arc<Ledger>,
    rng: &Rng,
    stop: &CancellationToken,
) -> JoinSet<Result<()>> {
    let outside = |part: u64| Outside {
        client: client.clone(),
        ledger: Arc::clone(ledger),
        rng: rng.fork(part),
    };
    let mut clients = JoinSet::new();
    for name in 0..SUBMITTERS {
        clients.spawn(outside(name + 1).submit(name, stop.clone()));
    }
    clients.spawn(outside(100).work(stop.clone()));
    clients.spawn(outside(300).start_runs(stop.clone()));
    clients
}

/// Peace: workers run, nobody is killed, and everything comes to its end.
async fn settle(killer: &mut Killer, ledger: &Ledger) -> Result<()> {
    let started = Instant::now();
    loop {
        killer.revive()?;
        let harmful = ledger.open().harmful.clone();
        let live = killer.cluster.live_tasks().await?;
        if live == 0 && killer.cluster.requeue_dead(&harmful).await? == 0 {
            let runs = live_runs(&killer.cluster.client, ledger).await?;
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
