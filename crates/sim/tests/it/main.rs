//! The simulation itself: it passes, it repeats itself, it bites, and it shortens.

use std::collections::BTreeSet;

use sim::{FaultSet, Mode, Options, RunConfig, Sweep, WORKFLOWS_ALONE, run, shrink};

#[test]
fn a_few_dozen_seeds_pass() {
    let result = sweep(48).run();
    let broken: Vec<_> =
        result.failed.iter().map(|failed| (failed.seed, &failed.violation)).collect();
    assert!(broken.is_empty(), "{broken:?}");
    assert!(result.undetermined.is_empty());
    assert!(result.tasks > 48 * 80, "most wishes become tasks: {}", result.tasks);
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 1..6 {
        let (first, second) = (run(&RunConfig::of(seed, 60)), run(&RunConfig::of(seed, 60)));
        assert_eq!(first.trace.hash(), second.trace.hash());
        assert_eq!(first.counters, second.counters);
        assert_ne!(first.trace.hash(), run(&RunConfig::of(seed + 100, 60)).trace.hash());
    }
}

#[test]
fn the_kept_text_of_a_trace_changes_nothing() {
    let verbose = RunConfig { is_verbose: true, ..RunConfig::of(3, 30) };
    let (told, silent) = (run(&verbose), run(&RunConfig::of(3, 30)));
    assert_eq!(told.trace.hash(), silent.trace.hash());
    assert!(!told.trace.lines().is_empty() && silent.trace.lines().is_empty());
}

#[test]
fn a_run_without_faults_settles_everything() {
    let config = RunConfig { faults: FaultSet::NONE, ..RunConfig::of(5, 40) };
    let result = run(&config);
    assert_eq!(result.violation, None);
    assert!(result.tasks >= 40, "every wish becomes a task, beside those of runs");
    assert!(
        result.counters.rows().filter(|(words, _)| words.starts_with('F')).all(|row| row.1 == 0)
    );
}

#[test]
fn a_mistake_of_clients_is_found_and_its_run_is_shortened() {
    let failing = Sweep { clients_rename: true, stops_early: true, ..sweep(50) }.run().failed;
    let failing = failing.first().map(|failed| failed.seed).expect("found");
    let config = RunConfig { clients_rename: true, ..RunConfig::of(failing, 100) };
    let smallest = shrink(&config);
    assert!(smallest.skip.len() > 60, "few tasks are left: {:?}", smallest.skip);
    assert!(smallest.faults.iter().count() < 12, "few kinds of fault are left");
    let promise = |config| run(config).violation.map(|violation| violation.promise);
    assert_eq!(promise(&smallest), promise(&config));
}

#[test]
fn the_command_line_is_read() {
    let parse = |line: &str| Options::parse(line.split_whitespace().map(str::to_owned));
    let options = parse("--seed 7 --tasks 9 --faults F1,F27 --only-tasks 2,3 --trace").unwrap();
    assert!(options.mode == Mode::Single && options.run.is_verbose);
    assert_eq!((options.run.seed, options.run.tasks), (7, 9));
    assert_eq!(options.run.skip, BTreeSet::from([0, 1, 4, 5, 6, 7, 8]));
    assert_eq!(options.run.faults.iter().count(), 2);
    for wrong in ["--seed", "--seed x", "--faults F99", "--unknown"] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}

fn sweep(seeds: u64) -> Sweep {
    Sweep {
        seeds: (1..=seeds).collect(),
        tasks: 100,
        workflows: 3,
        threads: 2,
        clients_rename: false,
        stops_early: false,
        checks_determinism: false,
    }
}

#[test]
fn a_few_hundred_runs_of_workflows_end_as_the_interpreter_says() {
    let workflows = WORKFLOWS_ALONE;
    let result = Sweep { tasks: 0, workflows, ..sweep(30) }.run();
    let broken: Vec<_> =
        result.failed.iter().map(|failed| (failed.seed, &failed.violation)).collect();
    assert!(broken.is_empty(), "{broken:?}");
    assert!(result.runs >= 30 * workflows, "every workflow is run: {}", result.runs);
    let times = |consequence: &str| {
        let mut rows = result.counters.rows();
        rows.find(|(words, _)| words == consequence).map_or(0, |(_, count)| count)
    };
    assert!(times("run ended as interpreted") > 200, "most ends are compared");
    assert!(times("restart with live runs") > 30, "crashes are common");
}
