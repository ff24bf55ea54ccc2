//! `sim`: many seeds, or one.

use std::process::ExitCode;

use sim::{
    Mode, Options, RunConfig, Sweep, SweepResult, USAGE, WORKFLOWS_ALONE, report, run, seeds,
};

/// From so many seeds on, everything must happen so often.
const SEEDS_FOR_EVERYTHING: usize = 500;
const TIMES_EACH: u64 = 100;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let is_good = match options.mode {
        Mode::Help => {
            print!("{USAGE}");
            true
        }
        Mode::Flows => many_flows(&options),
        Mode::Single => one_seed(&options.run),
        Mode::Sweep => many_seeds(&options),
    };
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn one_seed(config: &RunConfig) -> bool {
    let result = run(config);
    for line in result.trace.lines() {
        println!("{line}");
    }
    print!("{}", report::table(&result.counters));
    let hash = result.trace.hash();
    println!(
        "seed {}, {} tasks, {} steps, trace {hash:016x}",
        config.seed, result.tasks, result.steps
    );
    let is_good = result.violation.is_none();
    if !is_good {
        print!("{}", report::failure(&RunConfig { is_verbose: false, ..config.clone() }));
    }
    println!("{} passed, {} failed", u8::from(is_good), u8::from(!is_good));
    is_good
}

fn many_seeds(options: &Options) -> bool {
    let sweep = Sweep {
        seeds: chosen(options, "tasks", 500),
        tasks: options.run.tasks,
        workflows: options.run.workflows,
        threads: options.threads,
        clients_rename: false,
        stops_early: options.stops_early,
        checks_determinism: options.checks_determinism,
    };
    let result = sweep.run();
    print!("{}", report::table(&result.counters));
    println!("{}", report::figures(&result));
    print_failed(&sweep, &result);
    let is_good = result.failed.is_empty() && is_complete(&sweep, &result);
    let failed = result.failed.len().max(usize::from(!is_good));
    println!("{} passed, {failed} failed", result.passed);
    is_good
}

/// Everything happened often enough, and every seed gave one trace.
fn is_complete(sweep: &Sweep, result: &SweepResult) -> bool {
    for seed in &result.undetermined {
        println!("seed {seed} gave two different traces");
    }
    let counts = sweep.seeds.len() >= SEEDS_FOR_EVERYTHING;
    let rare = result.counters.rarer_than(if counts { TIMES_EACH } else { 1 });
    for (words, times) in &rare {
        let label = if counts { "error" } else { "warning" };
        println!("{label}: it happened {times} times: {words}");
    }
    result.undetermined.is_empty() && (rare.is_empty() || !counts)
}

/// The seeds of a sweep; says which block a word drew.
fn chosen(options: &Options, world: &str, count: u64) -> Vec<u64> {
    let count = options.seeds.unwrap_or(count);
    let seeds = seeds::chosen(world, options.from, count, options.draw.as_deref());
    if let Some(word) = &options.draw {
        let (first, failed) = (seeds::drawn(word), seeds::once_failed(world).len());
        let from = options.from;
        println!(
            "seeds: {count} from {from}, {count} from {first} (drawn from {word}), {failed} that once failed"
        );
    }
    seeds
}

/// Worlds that run workflows and little else; each ends as a simple interpreter says.
fn many_flows(options: &Options) -> bool {
    let sweep = Sweep {
        seeds: chosen(options, "flows", 2_000),
        tasks: 0,
        workflows: WORKFLOWS_ALONE,
        threads: options.threads,
        clients_rename: false,
        stops_early: options.stops_early,
        checks_determinism: options.checks_determinism,
    };
    let result = sweep.run();
    println!("{}, {} runs", report::figures(&result), result.runs);
    print_failed(&sweep, &result);
    println!("{} passed, {} failed", result.passed, result.failed.len());
    result.failed.is_empty() && result.undetermined.is_empty()
}

/// The seeds come first: to shorten a run may take long.
fn print_failed(sweep: &Sweep, result: &SweepResult) {
    let Some(first) = result.failed.first() else { return };
    let seeds: Vec<String> =
        result.failed.iter().take(20).map(|failed| failed.seed.to_string()).collect();
    println!("failed seeds: {}", seeds.join(", "));
    if let Some(violation) = &first.violation {
        println!("seed {}: {}: {}", first.seed, violation.promise, violation.story);
    }
    if !sweep.stops_early {
        print!("{}", report::failure(&sweep.config(first.seed)));
    }
}
