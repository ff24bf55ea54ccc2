//! The command line.

use crate::faults::{Fault, FaultSet};
use crate::world::RunConfig;

/// How to use the program.
pub const USAGE: &str = "\
The real coordinator under every fault, from one seed.

sim [--seeds N] [--from S] [--draw WORD] [--tasks N] [--threads N] [--check-determinism] [--stop-early]
    run N seeds (500) from S (1), with 100 tasks each, on 2 threads; with a word also as many
    that the word draws, and those that once failed; --stop-early ends with the first that fails
sim --seed S [--trace] [--tasks N] [--workflows N] [--faults F1,F13] [--only-tasks 3,7]
    run one seed; if it fails, shorten it
sim flows [--seeds N] [--from S] [--draw WORD]
    run N seeds (2000) with random workflows alone, and compare each with a simple interpreter
";

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Options {
    /// What to do.
    pub mode: Mode,
    /// `--seeds`.
    pub seeds: Option<u64>,
    /// `--from`.
    pub from: u64,
    /// `--draw`: a second block of seeds comes from this word.
    pub draw: Option<String>,
    /// `--threads`.
    pub threads: usize,
    /// `--check-determinism`.
    pub checks_determinism: bool,
    /// `--stop-early`: the first broken promise ends the sweep, and is told without being shortened.
    pub stops_early: bool,
    /// One seed and everything about it.
    pub run: RunConfig,
}

/// What the program is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Run many seeds.
    Sweep,
    /// `--seed`: run one.
    Single,
    /// `flows`: run random workflows.
    Flows,
    /// `--help`: say how to use it.
    Help,
}

impl Options {
    /// Reads the arguments, without the program's name.
    pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            mode: Mode::Sweep,
            seeds: None,
            from: 1,
            draw: None,
            threads: 2,
            checks_determinism: false,
            stops_early: false,
            run: RunConfig::of(1, 100),
        };
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            options.take(&argument, &mut arguments)?;
        }
        Ok(options)
    }

    fn take(&mut self, word: &str, rest: &mut impl Iterator<Item = String>) -> Result<(), String> {
        match word {
            "flows" => self.mode = Mode::Flows,
            "--help" | "-h" => self.mode = Mode::Help,
            "--trace" => self.run.is_verbose = true,
            "--check-determinism" => self.checks_determinism = true,
            "--seeds" => self.seeds = Some(number(word, rest)?),
            "--from" => self.from = number(word, rest)?,
            "--draw" => self.draw = Some(value(word, rest)?),
            "--threads" => self.threads = usize::try_from(number(word, rest)?).unwrap_or(1),
            "--tasks" => self.run.tasks = number(word, rest)?,
            "--workflows" => self.run.workflows = number(word, rest)?,
            "--stop-early" => self.stops_early = true,
            "--seed" => {
                self.run.seed = number(word, rest)?;
                self.mode = Mode::Single;
            }
            "--faults" => self.run.faults = faults(&value(word, rest)?)?,
            "--only-tasks" => self.keep_tasks(&value(word, rest)?)?,
            _ => return Err(format!("unknown argument {word}")),
        }
        Ok(())
    }

    fn keep_tasks(&mut self, list: &str) -> Result<(), String> {
        self.run.skip = (0..self.run.tasks).collect();
        for word in list.split(',') {
            let kept: u64 = word.parse().map_err(|_| format!("{word} is no number"))?;
            self.run.skip.remove(&kept);
        }
        Ok(())
    }
}

fn value(word: &str, rest: &mut impl Iterator<Item = String>) -> Result<String, String> {
    rest.next().ok_or_else(|| format!("{word} needs a value"))
}

fn number(word: &str, rest: &mut impl Iterator<Item = String>) -> Result<u64, String> {
    let text = value(word, rest)?;
    text.parse().map_err(|_| format!("{word} needs a number, not {text}"))
}

fn faults(list: &str) -> Result<FaultSet, String> {
    let mut faults = FaultSet::NONE;
    for word in list.split(',').filter(|word| *word != "none") {
        let fault = Fault::by_number(word).ok_or_else(|| format!("there is no fault {word}"))?;
        faults = faults.with(fault);
    }
    Ok(faults)
}
