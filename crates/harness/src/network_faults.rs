//! Workers with sessions over a network that fails, while the client knows what every task must
//! have printed.
//!
//! Reading order: this file, `program` (what a task prints, and whether that is so), `injection`
//! (which fault when), `stories` (a worker that is frozen, a server that hangs up at once).

mod injection;
mod program;
mod stories;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::ValueEnum;
use serde::Serialize;

use self::injection::{Injection, ProxiedWorker, Seen, Sessions};
use self::program::{Executions, Program};
use crate::audit::{self, Findings};
use crate::ledger::Ledger;
use crate::proxy::Kind;
use crate::rng::{Rng, fresh_seed};
use crate::test_cluster::TestCluster;

const SLOTS: usize = 8;
/// Long enough for a worker to notice that it is cut off, and to come back.
const LEASE_TTL: Duration = Duration::from_secs(10);
/// A server that needs more for three workers and a few thousand tasks keeps what it should not.
const SERVER_BYTES_MAX: u64 = 256 * 1024 * 1024;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many tasks run.
    #[arg(long, default_value_t = 2_000)]
    tasks: usize,
    /// How many times something happens to a connection.
    #[arg(long, default_value_t = 200)]
    faults: usize,
    /// How many times the server is killed.
    #[arg(long, default_value_t = 5)]
    kills: usize,
    /// How many workers.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=64))]
    workers: u64,
    /// The kinds of faults. Default: all.
    #[arg(long, value_delimiter = ',', value_name = "KIND")]
    kinds: Vec<Kind>,
    /// Leave out the worker whose server hangs up, which takes 20 seconds.
    #[arg(long)]
    short: bool,
    /// Where the random choices start; without it a new one each time, which is printed.
    #[arg(long)]
    seed: Option<u64>,
}

impl Arguments {
    fn kinds(&self) -> &[Kind] {
        if self.kinds.is_empty() { Kind::value_variants() } else { &self.kinds }
    }

    fn leases_may_end(&self) -> bool {
        self.kills > 0 || self.kinds().iter().any(|kind| kind.is_silence())
    }
}

/// The figures, as the last line on stdout.
#[derive(Default, Serialize)]
struct Outcome {
    seed: u64,
    tasks: usize,
    completed: usize,
    heard: usize,
    superseded: usize,
    lost: usize,
    double: usize,
    faults: usize,
    happened: BTreeMap<&'static str, u64>,
    server_kills: usize,
    connections: u64,
    sessions: Sessions,
    /// Tasks that were given up for lost workers, and brought back by hand.
    requeued: usize,
    attempted_again: usize,
    executed_again: usize,
    log_bytes: usize,
    server_rss_mib_max: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    hang_ups: Option<u64>,
    violations: usize,
    seconds: f64,
}

pub(crate) async fn run(arguments: &Arguments, astra: Option<&Path>) -> Result<()> {
    let Arguments { tasks, faults, kills, .. } = arguments;
    let seed = arguments.seed.unwrap_or_else(fresh_seed);
    eprintln!("faults: {tasks} tasks, {faults} faults, {kills} kills of the server, seed {seed}");
    let started = Instant::now();
    let played = async |cluster: &mut TestCluster, ledger: &Ledger| {
        play(arguments, Rng::new(seed), cluster, ledger).await
    };
    let (mut outcome, mut violations) = on_cluster(astra, seed, played).await?;
    let frozen =
        async |cluster: &mut TestCluster, ledger: &Ledger| stories::frozen(cluster, ledger).await;
    violations += on_cluster(astra, seed, frozen).await?.1;
    if !arguments.short {
        let hung_up_on = async |cluster: &mut TestCluster, ledger: &Ledger| {
            stories::hung_up_on(cluster, ledger).await
        };
        let (n_connections, more) = on_cluster(astra, seed, hung_up_on).await?;
        outcome.hang_ups = Some(n_connections);
        violations += more;
    }
    (outcome.seed, outcome.violations) = (seed, violations);
    outcome.seconds = started.elapsed().as_secs_f64();
    println!("{}", serde_json::to_string(&outcome)?);
    ensure!(violations == 0, "{violations} violations with seed {seed}");
    Ok(())
}

/// Plays something on a cluster of its own, which is kept if a promise was broken. Gives how many
/// were, too.
async fn on_cluster<T>(
    astra: Option<&Path>,
    seed: u64,
    play: impl AsyncFnOnce(&mut TestCluster, &Ledger) -> Result<T>,
) -> Result<(T, usize)> {
    let mut cluster = TestCluster::start(astra, None).await?;
    let ledger = Ledger::default();
    let played = play(&mut cluster, &ledger).await;
    let violations = audit::show(&ledger.open().violations);
    if played.is_err() || violations > 0 {
        eprintln!("seed {seed}; data is kept in {}", cluster.keep().display());
    }
    Ok((played?, violations))
}

async fn play(
    arguments: &Arguments,
    rng: Rng,
    cluster: &mut TestCluster,
    ledger: &Ledger,
) -> Result<Outcome> {
    let mut workers = Vec::new();
    for number in 1..=arguments.workers {
        workers.push(ProxiedWorker::start(cluster, &format!("w{number}"), SLOTS).await?);
    }
    let mut choices = rng.fork(1);
    let programs = (0..arguments.tasks as u64)
        .map(|number| Program::random(number, &mut choices, LEASE_TTL))
        .collect::<Vec<_>>();
    let kinds = arguments.kinds();
    let faults = injection::plan(arguments.faults, kinds, workers.len(), &mut rng.fork(2));
    let injection = Injection::new(&programs, ledger, &faults, arguments.kills, rng.fork(3));
    let seen = injection.run(cluster, &workers).await?;
    if seen.resident_bytes_max > SERVER_BYTES_MAX {
        let bytes = seen.resident_bytes_max;
        ledger.violation(format!("the server needed {bytes} bytes of memory"));
    }
    let (findings, tasks) = audit::audit(cluster, ledger).await?;
    let expected = (&programs[..], arguments.leases_may_end());
    let executions = program::check(cluster, ledger, &tasks, expected).await?;
    let mut outcome = outcome(&seen, findings, executions);
    outcome.tasks = arguments.tasks;
    outcome.happened = injection::happened(&workers);
    outcome.connections = workers.iter().map(|worker| worker.proxy.n_connections()).sum();
    outcome.sessions = Sessions::of(&workers)?;
    Ok(outcome)
}

fn outcome(seen: &Seen, findings: Findings, executions: Executions) -> Outcome {
    Outcome {
        completed: findings.committed,
        heard: findings.heard,
        superseded: findings.superseded,
        lost: findings.lost,
        double: findings.double,
        faults: seen.injected,
        server_kills: seen.kills,
        requeued: seen.requeued,
        attempted_again: executions.attempted_again,
        executed_again: executions.executed_again,
        log_bytes: executions.log_bytes,
        server_rss_mib_max: seen.resident_bytes_max / (1024 * 1024),
        ..Outcome::default()
    }
}
