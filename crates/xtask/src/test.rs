//! `cargo xtask test`: everything that continuous integration runs, in order.
//!
//! The cheap and frequent mistakes come first. The first failure ends the run: what follows would
//! often fail for the same reason, and the last lines on the screen should be the reason.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use clap::ValueEnum;

use crate::tools::Tool;
use crate::{generate, harness, pytest, sim, size, tidy, tools};

/// Everything but examples, which are benchmarks and are checked with the lints: to link them
/// takes minutes. Pages of the code hold no programs.
const TESTS: [&str; 6] = ["test", "--release", "--workspace", "--lib", "--bins", "--tests"];
/// Half of them fixed, half drawn from the commit.
const SIMULATION_SEEDS: &str = "250";
const SIMULATION_TASKS: &str = "100";
/// Worlds that run ten workflows each.
const SIMULATION_FLOWS: &str = "1000";
const CHAOS: [&str; 2] = ["--cycles", "25"];
const FAULTS: [&str; 7] = ["--tasks", "300", "--faults", "40", "--kills", "1", "--short"];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Leave out the tests in Python, the simulation, chaos and faults.
    #[arg(long, conflicts_with = "step")]
    fast: bool,
    /// Run this step alone.
    #[arg(long, value_name = "NAME")]
    step: Option<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Step {
    Fmt,
    Tidy,
    Size,
    Clippy,
    Test,
    Generate,
    Pytest,
    Sim,
    Chaos,
    Faults,
}

impl Step {
    const fn name(self) -> &'static str {
        match self {
            Self::Fmt => "fmt",
            Self::Tidy => "tidy",
            Self::Size => "size",
            Self::Clippy => "clippy",
            Self::Test => "test",
            Self::Generate => "generate",
            Self::Pytest => "pytest",
            Self::Sim => "sim",
            Self::Chaos => "chaos",
            Self::Faults => "faults",
        }
    }

    const fn purpose(self) -> &'static str {
        match self {
            Self::Fmt => "the code is formatted",
            Self::Tidy => "the repository rules hold",
            Self::Size => "the product is within its budget of lines",
            Self::Clippy => "no lint warns",
            Self::Test => "every test passes",
            Self::Generate => "generated files are fresh (generate --check)",
            Self::Pytest => "workers of other hands work with the real binary",
            Self::Sim => {
                "the promises hold under every fault (2 x 250 seeds x 100 tasks, 2 x 1000 seeds x 10 workflows)"
            }
            Self::Chaos => "killed processes lose nothing (25 cycles)",
            Self::Faults => "broken connections lose and double nothing (300 tasks, 40 faults)",
        }
    }

    /// What the reader of a failure should do next.
    const fn advice(self) -> &'static str {
        match self {
            Self::Fmt => "run: cargo fmt --all",
            Self::Tidy => "mend what is listed above; the rules are in docs/internals/testing.md",
            Self::Size => "take away what nobody needs: cargo xtask size shows where the lines are",
            Self::Clippy => "mend the warnings above",
            Self::Test => "the failing test is named above",
            Self::Generate => "the differences are shown above",
            Self::Pytest => "the failing test is named above; it is in tests/",
            Self::Sim => "replay the seed above with: cargo xtask sim --seed <seed>",
            Self::Chaos | Self::Faults => {
                "the data is kept where said above; try again with the same --seed"
            }
        }
    }

    const fn is_slow(self) -> bool {
        matches!(self, Self::Pytest | Self::Sim | Self::Chaos | Self::Faults)
    }

    fn needs(self) -> &'static [Tool] {
        match self {
            Self::Fmt => &[Tool::Rustfmt],
            Self::Tidy | Self::Size => &[],
            Self::Clippy => &[Tool::Clippy, Tool::CCompiler],
            Self::Test => &[Tool::CCompiler, Tool::Redis],
            Self::Generate | Self::Sim | Self::Chaos | Self::Faults => &[Tool::CCompiler],
            Self::Pytest => &[Tool::CCompiler, Tool::Python, Tool::Redis, Tool::Node],
        }
    }

    fn run(self) -> Result<()> {
        match self {
            Self::Fmt => tools::run_cargo(&["fmt", "--all", "--check"]),
            Self::Tidy => tidy::run(&tidy::Options { look: false }),
            Self::Size => size::run(),
            Self::Clippy => clippy(),
            Self::Test => tools::run_cargo(&TESTS),
            Self::Generate => generate::run(&generate::Options { check: true }),
            Self::Pytest => pytest::run(),
            Self::Sim => {
                let mut words = vec!["--seeds", SIMULATION_SEEDS, "--tasks", SIMULATION_TASKS];
                let mut flows = vec!["flows", "--seeds", SIMULATION_FLOWS];
                let commit = tools::commit();
                for words in [&mut words, &mut flows] {
                    words.extend(commit.iter().flat_map(|commit| ["--draw", commit.as_str()]));
                }
                sim::simulate(&words)?;
                sim::simulate(&flows)
            }
            Self::Chaos => harness::run("chaos", &CHAOS),
            Self::Faults => harness::run("faults", &FAULTS),
        }
    }
}

fn clippy() -> Result<()> {
    let mut words = vec!["clippy", "--release", "--workspace", "--all-targets"];
    words.extend(["--", "-D", "warnings"]);
    tools::run_cargo(&words)
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let steps = chosen(options);
    require_tools(&steps)?;
    let (done, outcome) = run_in_order(&steps, Step::run);
    print!("{}", table(&done, steps.len()));
    outcome
}

fn chosen(options: &Options) -> Vec<Step> {
    match options.step {
        Some(step) => vec![step],
        None => Step::value_variants()
            .iter()
            .copied()
            .filter(|step| !(options.fast && step.is_slow()))
            .collect(),
    }
}

/// Before the first step, so that nobody waits ten minutes to hear that clippy is not installed.
fn require_tools(steps: &[Step]) -> Result<()> {
    let mut tools: Vec<Tool> = steps.iter().flat_map(|step| step.needs()).copied().collect();
    tools.sort();
    tools.dedup();
    tools.into_iter().try_for_each(Tool::require)
}

struct Done {
    step: Step,
    passed: bool,
    took: Duration,
}

fn run_in_order(steps: &[Step], run: impl Fn(Step) -> Result<()>) -> (Vec<Done>, Result<()>) {
    let mut done = Vec::new();
    for &step in steps {
        println!("test: {} - {}", step.name(), step.purpose());
        let started = Instant::now();
        let outcome = run(step);
        let took = started.elapsed();
        done.push(Done { step, passed: outcome.is_ok(), took });
        if let Err(error) = outcome {
            let advice = step.advice();
            return (done, Err(anyhow!("step {} failed: {error:#}; {advice}", step.name())));
        }
        println!("test: {} passed in {:.1} s", step.name(), took.as_secs_f64());
    }
    (done, Ok(()))
}

fn table(done: &[Done], n_chosen: usize) -> String {
    let row = |step: &str, result: &str, took: Duration| {
        format!("{step:<10} {result:<8} {:>8.1}", took.as_secs_f64())
    };
    let mut rows = vec![format!("\n{:<10} {:<8} {:>8}", "step", "result", "seconds")];
    for Done { step, passed, took } in done {
        let result = if *passed { "passed" } else { "FAILED" };
        rows.push(row(step.name(), result, *took));
    }
    rows.push(row("total", "", done.iter().map(|done| done.took).sum()));
    let n_not_run = n_chosen - done.len();
    if n_not_run > 0 {
        rows.push(format!("{n_not_run} steps were not run"));
    }
    rows.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn every_step_runs_in_the_documented_order() {
        assert_eq!(
            names(&chosen(&Options { fast: false, step: None })),
            [
                "fmt", "tidy", "size", "clippy", "test", "generate", "pytest", "sim", "chaos",
                "faults"
            ]
        );
    }

    #[test]
    fn fast_leaves_out_what_is_slow() {
        assert_eq!(
            names(&chosen(&Options { fast: true, step: None })),
            ["fmt", "tidy", "size", "clippy", "test", "generate"]
        );
    }

    #[test]
    fn one_step_can_run_alone() {
        assert_eq!(names(&chosen(&Options { fast: false, step: Some(Step::Sim) })), ["sim"]);
    }

    #[test]
    fn the_name_on_the_command_line_is_the_name_on_screen() {
        for step in Step::value_variants() {
            let value = step.to_possible_value().unwrap();
            assert_eq!(value.get_name(), step.name());
        }
    }

    #[test]
    fn the_first_failure_ends_the_run_and_says_what_to_do() {
        let steps = [Step::Fmt, Step::Tidy, Step::Clippy];
        let (done, outcome) = run_in_order(&steps, |step| match step {
            Step::Tidy => bail!("2 findings"),
            _ => Ok(()),
        });

        let ran: Vec<Step> = done.iter().map(|done| done.step).collect();
        assert_eq!(ran, [Step::Fmt, Step::Tidy]);
        let sentence = outcome.unwrap_err().to_string();
        assert!(sentence.starts_with("step tidy failed: 2 findings; mend"), "{sentence}");
    }

    #[test]
    fn the_table_lists_each_step_and_the_sum() {
        let done = [
            Done { step: Step::Fmt, passed: true, took: Duration::from_millis(1_500) },
            Done { step: Step::Tidy, passed: false, took: Duration::from_millis(250) },
        ];
        let expected = "
step       result    seconds
fmt        passed        1.5
tidy       FAILED        0.2
total                    1.8
5 steps were not run
";
        assert_eq!(table(&done, 7), expected);
    }

    #[test]
    fn the_purposes_state_the_numbers_that_are_used() {
        let simulation = format!("{SIMULATION_SEEDS} seeds x {SIMULATION_TASKS} tasks");
        assert!(Step::Sim.purpose().contains(&simulation));
        assert!(Step::Sim.purpose().contains(&format!("{SIMULATION_FLOWS} seeds x 10 workflows")));
        let ([_, cycles], [_, tasks, _, faults, ..]) = (CHAOS, FAULTS);
        assert!(Step::Chaos.purpose().contains(&format!("{cycles} cycles")));
        assert!(Step::Faults.purpose().contains(&format!("{tasks} tasks, {faults} faults")));
    }

    fn names(steps: &[Step]) -> Vec<&'static str> {
        steps.iter().map(|step| step.name()).collect()
    }
}
