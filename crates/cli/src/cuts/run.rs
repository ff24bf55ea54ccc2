//! The whole: tasks, faults, and the count at the end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

use super::audit::{self, Expected, Findings};
use super::crew::{self, Member, Sessions};
use super::job::Job;
use super::plan;
use super::stories;
use super::storm::{Seen, Storm};
use crate::chaos::Dice;
use crate::exit_code::ExitCode;
use crate::failure;
use crate::lab::Lab;
use crate::output::{self, Output};
use crate::proxy::Kind;

const SLOTS: usize = 8;
/// Long enough for a worker to notice that it is cut off, and to come back.
const LEASE_TTL: Duration = Duration::from_secs(10);
/// A server that needs more for three workers and a few thousand tasks keeps what it should not.
const SERVER_BYTES_MAX: u64 = 256 * 1024 * 1024;
const VIOLATIONS_SHOWN: usize = 20;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many tasks.
    #[arg(long, default_value_t = 2_000)]
    tasks: usize,
    /// How many faults.
    #[arg(long, default_value_t = 200)]
    cuts: usize,
    /// How many workers.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=64))]
    workers: u64,
    /// Where chance starts.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The kinds of faults. Default: all.
    #[arg(long, value_delimiter = ',', value_name = "KIND")]
    kinds: Vec<Kind>,
    /// How often the server is killed meanwhile.
    #[arg(long, value_name = "N", default_value_t = 0)]
    with_server_kills: usize,
    /// Also freeze a worker past its lease.
    #[arg(long)]
    with_freeze: bool,
    /// Also let a worker connect to a server that closes at once.
    #[arg(long)]
    with_hang_ups: bool,
    /// Another binary to run instead of this one.
    #[arg(long, value_name = "PATH")]
    astra: Option<PathBuf>,
}

impl Arguments {
    fn kinds(&self) -> &[Kind] {
        if self.kinds.is_empty() { Kind::value_variants() } else { &self.kinds }
    }

    fn leases_may_end(&self) -> bool {
        self.with_server_kills > 0 || self.kinds().iter().any(|kind| kind.is_silence())
    }
}

#[derive(Default, Serialize)]
struct Outcome {
    seed: u64,
    tasks: usize,
    completed: usize,
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

pub(crate) async fn run(arguments: Arguments, output: Output) -> failure::Result<ExitCode> {
    let started = Instant::now();
    let mut lab = Lab::start(arguments.astra.clone(), None).await?;
    let played = play(&arguments, &mut lab).await;
    let (mut outcome, mut findings) = match played {
        Ok(played) => played,
        Err(error) => return Err(kept(error, &arguments, &mut lab).into()),
    };
    if let Err(error) = tell_stories(&arguments, &mut outcome, &mut findings).await {
        return Err(kept(error, &arguments, &mut lab).into());
    }
    outcome.violations = findings.violations.len();
    outcome.seconds = started.elapsed().as_secs_f64();
    output.line(&output::json(&outcome));
    if findings.violations.is_empty() {
        return Ok(ExitCode::Success);
    }
    for violation in findings.violations.iter().take(VIOLATIONS_SHOWN) {
        output::warn(violation);
    }
    output::warn(format!("seed {}; data is kept in {}", arguments.seed, lab.keep().display()));
    Ok(ExitCode::Failed)
}

fn kept(error: anyhow::Error, arguments: &Arguments, lab: &mut Lab) -> anyhow::Error {
    error.context(format!("seed {}; data is kept in {}", arguments.seed, lab.keep().display()))
}

async fn play(arguments: &Arguments, lab: &mut Lab) -> Result<(Outcome, Findings)> {
    let dice = Dice::new(arguments.seed);
    let mut crew = Vec::new();
    for number in 1..=arguments.workers {
        crew.push(Member::start(lab, &format!("w{number}"), SLOTS).await?);
    }
    let jobs = jobs(arguments.tasks, &mut dice.fork(1));
    let executions = lab.folder().join("executions");
    let faults = plan::plan(arguments.cuts, arguments.kinds(), crew.len(), &mut dice.fork(2));
    let n_kills = arguments.with_server_kills;
    let storm = Storm::new(&jobs, &executions, &faults, n_kills, dice.fork(3));
    let seen = storm.rage(lab, &crew).await?;
    let leases_may_end = arguments.leases_may_end();
    let expected = Expected { jobs: &jobs, executions: &executions, leases_may_end };
    let mut findings = audit::audit(&lab.client, &expected).await?;
    check_workers(&crew, &mut findings).await?;
    if seen.resident_bytes_max > SERVER_BYTES_MAX {
        let bytes = seen.resident_bytes_max;
        findings.violations.push(format!("the server needed {bytes} bytes of memory"));
    }
    Ok((outcome(arguments, &crew, seen, &findings)?, findings))
}

fn jobs(n: usize, dice: &mut Dice) -> Vec<Job> {
    (0..n as u64).map(|number| Job::by_chance(number, dice, LEASE_TTL)).collect()
}

/// A task is committed once: no two workers are told that theirs counts.
async fn check_workers(crew: &[Member], findings: &mut Findings) -> Result<()> {
    let mut n_committed = 0;
    for member in crew {
        let verdicts = member.verdicts().await?;
        n_committed += verdicts.committed;
        if verdicts.rejected > 0 {
            let what = format!("{} had {} reports refused", member.name, verdicts.rejected);
            findings.violations.push(what);
        }
    }
    if n_committed > findings.completed as u64 {
        let completed = findings.completed;
        findings.violations.push(format!("{n_committed} commits of {completed} completed tasks"));
    }
    Ok(())
}

/// Each on a stage of its own: nobody else is to take the task.
async fn tell_stories(
    arguments: &Arguments,
    outcome: &mut Outcome,
    findings: &mut Findings,
) -> Result<()> {
    if arguments.with_freeze {
        let mut lab = Lab::start(arguments.astra.clone(), None).await?;
        let found = stories::frozen(&lab).await;
        let found = found.map_err(|error| kept(error, arguments, &mut lab))?;
        if !found.violations.is_empty() {
            output::warn(format!("the frozen worker is kept in {}", lab.keep().display()));
        }
        findings.violations.extend(found.violations);
    }
    if arguments.with_hang_ups {
        let lab = Lab::start(arguments.astra.clone(), None).await?;
        outcome.hang_ups = Some(stories::hung_up_on(&lab, findings).await?);
    }
    Ok(())
}

fn outcome(
    arguments: &Arguments,
    crew: &[Member],
    seen: Seen,
    findings: &Findings,
) -> Result<Outcome> {
    let mut sessions = Sessions::default();
    for member in crew {
        let of_one = member.sessions()?;
        sessions.resumed += of_one.resumed;
        sessions.begun += of_one.begun;
        sessions.reset += of_one.reset;
    }
    Ok(Outcome {
        seed: arguments.seed,
        tasks: arguments.tasks,
        completed: findings.completed,
        faults: seen.injected,
        happened: crew::happened(crew),
        server_kills: seen.kills,
        connections: crew.iter().map(|member| member.proxy.n_connections()).sum(),
        sessions,
        requeued: seen.requeued,
        attempted_again: findings.attempted_again,
        executed_again: findings.executed_again,
        log_bytes: findings.log_bytes,
        server_rss_mib_max: seen.resident_bytes_max / (1024 * 1024),
        ..Outcome::default()
    })
}
