//! `cargo xtask release-gate`: what is run before a release, and takes hours.
//!
//! The gate is a list of parts of less than an hour each. It remembers which of them passed on this
//! commit, so that it can be ended at any time and goes on with the others when it is started again.

mod parts;
mod state;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use self::parts::Part;
use self::state::{Run, State};
use crate::tools::{self, OUT_OF_TIME, OutOfTime};

/// Where parts write, below the target folder.
pub(crate) const FOLDER: &str = "release-gate";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run this part alone, also if it has passed already.
    #[arg(long, value_name = "NAME")]
    part: Option<String>,
    /// Show the parts and what is known about them on this commit.
    #[arg(long, conflicts_with = "part")]
    list: bool,
    /// Begin no other part after so many minutes; the same command goes on.
    #[arg(long)]
    minutes: Option<u64>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = tools::workspace()?.target_directory.join(FOLDER);
    fs::create_dir_all(&folder)?;
    let commit = tools::commit().context("the gate judges a commit, and this is no checkout")?;
    let mut state = State::open(&folder, commit)?;
    let parts = chosen(parts::all(), options.part.as_deref())?;
    if options.list {
        print!("{}", state::list(&parts, &state));
        return Ok(());
    }
    let deadline =
        options.minutes.map(|minutes| Instant::now() + Duration::from_secs(minutes * 60));
    let gate = Gate { folder, deadline };
    for part in &parts {
        let is_wanted = options.part.is_some() || !state.has_passed(&part.name);
        if is_wanted && !gate.is_over() {
            state.keep(gate.run(part, &state.commit)?)?;
        }
    }
    print!("{}", state::table(&parts, &state));
    verdict(&parts, &state)
}

/// A part that failed fails the gate; one that has not run leaves it open.
fn verdict(parts: &[Part], state: &State) -> Result<()> {
    let named = |is_meant: &dyn Fn(&Part) -> bool| -> Vec<&str> {
        parts.iter().filter(|part| is_meant(part)).map(|part| part.name.as_str()).collect()
    };
    let failed = named(&|part| state.run_of(&part.name).is_some_and(|run| !run.passed));
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    let open = named(&|part| state.run_of(&part.name).is_none());
    if !open.is_empty() {
        return Err(OutOfTime(format!("{} parts have not run", open.len())).into());
    }
    Ok(())
}

fn chosen(parts: Vec<Part>, only: Option<&str>) -> Result<Vec<Part>> {
    let Some(only) = only else { return Ok(parts) };
    let chosen: Vec<Part> = parts.into_iter().filter(|part| part.name == only).collect();
    if chosen.is_empty() {
        bail!("there is no part {only}; see: cargo xtask release-gate --list");
    }
    Ok(chosen)
}

struct Gate {
    folder: PathBuf,
    deadline: Option<Instant>,
}

impl Gate {
    fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn run(&self, part: &Part, commit: &str) -> Result<Run> {
        require_commit(commit)?;
        println!("release-gate: {} - {}", part.name, part.shows);
        let began = Instant::now();
        let log = self.folder.join(format!("{}.log", part.name));
        let outcome = run_commands(part, &log);
        let run = Run {
            part: part.name.clone(),
            commit: commit.to_owned(),
            passed: outcome.is_ok(),
            seconds: began.elapsed().as_secs(),
            figures: outcome.unwrap_or_else(|error| format!("{error:#}")),
        };
        // A part says nothing about this commit if the tree changed meanwhile.
        require_commit(commit).with_context(|| format!("while {} ran", part.name))?;
        let word = if run.passed { "passed" } else { "FAILED" };
        println!("release-gate: {} {word} in {} s: {}", run.part, run.seconds, run.figures);
        Ok(run)
    }
}

/// The tree is what the commit says.
fn require_commit(commit: &str) -> Result<()> {
    let mut git = Command::new("git");
    git.args(["status", "--porcelain", "--untracked-files=no"]);
    let changed = git.current_dir(tools::repository_root()?).output()?;
    if tools::commit().as_deref() != Some(commit) || !changed.stdout.is_empty() {
        bail!("the tree is not what commit {commit} says; commit, and start the gate again");
    }
    Ok(())
}

/// Runs the commands of a part into its log; gives the closing line of each.
fn run_commands(part: &Part, log: &Path) -> Result<String> {
    let mut file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    part.needs.iter().try_for_each(|tool| tool.require())?;
    let mut figures = Vec::new();
    for words in &part.commands {
        let before = file.metadata()?.len();
        let status = into_log(words, &mut file)?;
        let is_unfinished = status.code() == Some(i32::from(OUT_OF_TIME));
        let is_good = status.success() || is_unfinished && part.may_continue;
        let closing = closing_line(log, before)?;
        if !is_good {
            bail!("`cargo {}` ended with {status}: {closing}", words.join(" "));
        }
        figures.push(closing);
    }
    Ok(figures.join("; "))
}

fn into_log(words: &[String], file: &mut File) -> Result<ExitStatus> {
    let mut cargo = tools::cargo();
    cargo.args(words).current_dir(tools::repository_root()?);
    cargo.stdout(file.try_clone()?).stderr(file.try_clone()?);
    cargo.status().context("cannot start cargo")
}

/// The last line with a word in it that was written behind `before`.
fn closing_line(log: &Path, before: u64) -> Result<String> {
    let text = fs::read(log)?;
    let start = usize::try_from(before).unwrap_or(usize::MAX).min(text.len());
    let text = String::from_utf8_lossy(&text[start..]);
    let last = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
    Ok(last.unwrap_or("it said nothing").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_is_the_last_that_says_something() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("a.log");
        fs::write(&log, "first\n5000 passed, 0 failed\n\n").unwrap();
        assert_eq!(closing_line(&log, 0).unwrap(), "5000 passed, 0 failed");
        assert_eq!(closing_line(&log, 28).unwrap(), "it said nothing");
    }

    #[test]
    fn a_command_that_fails_is_named_with_its_closing_line() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("a.log");
        let part = Part::new("a", "", vec!["no-such-command".to_owned()]);
        let error = run_commands(&part, &log).unwrap_err().to_string();
        assert!(error.starts_with("`cargo no-such-command` ended with "), "{error}");
        let part = Part::new("a", "", vec!["--version".to_owned()]);
        assert!(run_commands(&part, &log).unwrap().starts_with("cargo "));
    }

    #[test]
    fn the_gate_fails_with_a_part_and_stays_open_without_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut state = State::open(folder.path(), "c1".to_owned()).unwrap();
        let parts = vec![Part::new("a", "", vec![]), Part::new("b", "", vec![])];
        let run = |part: &str, passed| Run {
            part: part.to_owned(),
            commit: "c1".to_owned(),
            passed,
            seconds: 1,
            figures: String::new(),
        };
        state.keep(run("a", true)).unwrap();
        assert!(verdict(&parts, &state).unwrap_err().is::<OutOfTime>());
        state.keep(run("b", false)).unwrap();
        assert_eq!(verdict(&parts, &state).unwrap_err().to_string(), "failed: b");
        state.keep(run("b", true)).unwrap();
        assert!(verdict(&parts, &state).is_ok());
    }

    #[test]
    fn one_part_can_run_alone() {
        let parts = parts::all;
        assert_eq!(chosen(parts(), Some("deny")).unwrap().len(), 1);
        assert!(chosen(parts(), Some("other")).is_err());
        assert_eq!(chosen(parts(), None).unwrap().len(), parts().len());
    }
}
