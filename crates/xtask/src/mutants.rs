//! `cargo xtask mutants`: how many small mistakes do the tests find?
//!
//! A mutant is the product with one small mistake that a machine made: `<` became `<=`, a statement
//! is missing. Tests that stay green with it do not look at that place. A seed draws a sample of all
//! mutants of the pure crates, and each is judged: found by a test, or survived.
//!
//! All mutants are in one build, each behind a switch that an environment variable turns on (mutant
//! schemata). `cargo-mutants` builds the tree anew for each mutant, which takes hours for a few
//! hundred; here a mutant costs what the tests cost that find it.
//!
//! Reading order: `sites` (what can be changed), `draw` (which of it), `schemata` (one text with all
//! mutants), `build` (the copy that holds them), `judge` (one mutant), `results` (the file and the
//! report).

mod build;
mod draw;
mod judge;
mod results;
mod schemata;
mod sites;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use self::build::Schemata;
use self::draw::{Draw, Mutant};
use self::judge::{Outcome, Trial};
use self::results::{Header, Judged, Results};
use crate::tools::{self, OutOfTime};

/// Any number does; the same one makes two commits comparable.
const SEED: u64 = 2026;
/// What is changed, and what finds the changes: results hold until one of these is touched.
const JUDGED: [&str; 7] = [
    "crates/model",
    "crates/flow",
    "crates/coordinator",
    "crates/protocol",
    "crates/shard",
    "crates/store",
    "crates/sim",
];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Draws the mutants.
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// How many mutants are judged.
    #[arg(long, default_value_t = 600)]
    count: usize,
    /// Stop after so many minutes; the same command goes on.
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// How many mutants are judged at once.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Judge this one of them again, and say how to run the test that finds it.
    #[arg(long, value_name = "ID")]
    only: Option<u32>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(options.minutes * 60);
    let root = tools::repository_root()?;
    let draw = Draw::new(&root, options.seed)?;
    let Options { seed, count, .. } = *options;
    println!("mutants: {count} of {}, drawn with --seed {seed}", draw.all.len());
    let folder = tools::workspace()?.target_directory.join("mutants");
    std::fs::create_dir_all(&folder)?;
    let commit = tools::commit_of(&JUDGED)?;
    let header = Header { seed, count, commit, dropped: BTreeSet::new() };
    let mut results = Results::open(&folder, header)?;

    let mut schemata = Schemata::new(&root, &draw)?;
    let mut dropped = results.header.dropped.clone();
    let mutants = schemata.settle(count, &mut dropped)?;
    println!("mutants: {} dropped because they do not compile", dropped.len());
    let mut trials = schemata.build()?;
    judge::measure(&mut trials)?;
    if let Some(id) = options.only {
        return judge_again(&mutants, &trials, id);
    }
    let file = results.begin(dropped, &mutants)?;
    println!(
        "mutants: {} judged before; results in {}",
        results.judged.len(),
        results.path().display()
    );
    judge_all(
        &mut results,
        &mutants,
        &Bench { trials, file: Mutex::new(file), deadline, jobs: options.jobs },
    )?;
    print!("{}", results::report(&results.judged));
    let n_left = mutants.len() - results.judged.len();
    if n_left > 0 {
        return Err(OutOfTime(format!("{n_left} mutants are not judged")).into());
    }
    Ok(())
}

/// Where mutants are judged.
struct Bench {
    trials: Vec<Trial>,
    file: Mutex<File>,
    deadline: Instant,
    jobs: usize,
}

/// Judges what has not been, until the deadline.
fn judge_all(results: &mut Results, mutants: &[Mutant], bench: &Bench) -> Result<()> {
    let left = mutants.iter().filter(|mutant| !results.judged.contains_key(&mutant.id));
    let left: Vec<&Mutant> = left.collect();
    let queue = Mutex::new(left.into_iter());
    let work = || -> Result<BTreeMap<u32, Judged>> {
        let mut judged = BTreeMap::new();
        while Instant::now() < bench.deadline {
            let next = queue.lock().ok().and_then(|mut queue| queue.next());
            let Some(mutant) = next else { break };
            judged.insert(mutant.id, bench.judge(mutant)?);
        }
        Ok(judged)
    };
    let done: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..bench.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker does not panic")).collect()
    });
    for judged in done {
        results.judged.extend(judged?);
    }
    Ok(())
}

impl Bench {
    /// Judges one mutant and keeps what came out.
    fn judge(&self, mutant: &Mutant) -> Result<Judged> {
        let began = Instant::now();
        let outcome = judge::judge(&judge::ordered(&self.trials, mutant.package()), mutant.id)?;
        let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let judged = Judged::new(mutant, &outcome, took);
        let mut file = self.file.lock().expect("nobody panics while writing");
        results::append(&mut file, &judged)?;
        println!("mutants: {} {}:{} {}", judged.id, judged.file, judged.line, judged.outcome);
        Ok(judged)
    }
}

fn judge_again(mutants: &[Mutant], trials: &[Trial], id: u32) -> Result<()> {
    let mutant = mutants.iter().find(|mutant| mutant.id == id);
    let mutant = mutant.with_context(|| format!("{id} is not among the mutants"))?;
    let sites::Site { line, before, after, .. } = &mutant.site;
    println!("mutants: {}:{line}: {before} -> {after}", mutant.file);
    let outcome = judge::judge(&judge::ordered(trials, mutant.package()), id)?;
    match &outcome {
        Outcome::Survived => println!("mutants: {id} survived"),
        Outcome::FoundBy(name) | Outcome::TimeOut(name) => {
            let trial = trials.iter().find(|trial| trial.name == *name);
            let command = trial.map(|trial| trial.shown(id)).unwrap_or_default();
            println!("mutants: {id} was found by {name}; see it with: {command}");
        }
    }
    Ok(())
}
