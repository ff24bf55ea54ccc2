//! What is known about the parts of the gate, in a file with one line for each run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::parts::Part;

/// One run of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) part: String,
    pub(crate) commit: String,
    pub(crate) passed: bool,
    pub(crate) seconds: u64,
    /// The closing line of each command, or why the part failed.
    pub(crate) figures: String,
}

/// The last run of each part on one commit.
pub(crate) struct State {
    path: PathBuf,
    pub(crate) commit: String,
    runs: BTreeMap<String, Run>,
}

impl State {
    pub(crate) fn open(folder: &Path, commit: String) -> Result<Self> {
        let path = folder.join("state.jsonl");
        let text = if path.exists() { fs::read_to_string(&path)? } else { String::new() };
        // A line that a killed gate left half written says nothing.
        let runs = text.lines().filter_map(|line| serde_json::from_str::<Run>(line).ok());
        let here = runs.filter(|run| run.commit == commit);
        let runs = here.map(|run| (run.part.clone(), run)).collect();
        Ok(Self { path, commit, runs })
    }

    pub(crate) fn run_of(&self, part: &str) -> Option<&Run> {
        self.runs.get(part)
    }

    pub(crate) fn has_passed(&self, part: &str) -> bool {
        self.run_of(part).is_some_and(|run| run.passed)
    }

    pub(crate) fn keep(&mut self, run: Run) -> Result<()> {
        let line = serde_json::to_string(&run)? + "\n";
        let mut file = File::options().create(true).append(true).open(&self.path)?;
        file.write_all(line.as_bytes()).context("cannot write the state of the gate")?;
        self.runs.insert(run.part.clone(), run);
        Ok(())
    }
}

/// Each part, whether it passed, and what it shows.
pub(crate) fn list(parts: &[Part], state: &State) -> String {
    let mut text = String::new();
    for part in parts {
        let _ = writeln!(text, "{:<12} {:<8} {}", part.name, word(part, state), part.shows);
    }
    text
}

/// Each part with its seconds and its closing figures.
pub(crate) fn table(parts: &[Part], state: &State) -> String {
    let mut text = format!("\n{:<12} {:<8} {:>8}  figures\n", "part", "result", "seconds");
    for part in parts {
        let run = state.run_of(&part.name);
        let seconds = run.map(|run| run.seconds.to_string()).unwrap_or_default();
        let figures = run.map_or("", |run| run.figures.as_str());
        let line = format!("{:<12} {:<8} {seconds:>8}  {figures}", part.name, word(part, state));
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn word(part: &Part, state: &State) -> &'static str {
    match state.run_of(&part.name) {
        Some(run) if run.passed => "passed",
        Some(_) => "FAILED",
        None => "open",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(part: &str, commit: &str, passed: bool) -> Run {
        let (part, commit) = (part.to_owned(), commit.to_owned());
        Run { part, commit, passed, seconds: 12, figures: "9 passed, 0 failed".to_owned() }
    }

    #[test]
    fn a_later_gate_goes_on_with_what_has_not_passed_on_its_commit() {
        let folder = tempfile::tempdir().unwrap();
        let mut state = State::open(folder.path(), "c1".to_owned()).unwrap();
        state.keep(run("a", "c1", true)).unwrap();
        state.keep(run("b", "c1", true)).unwrap();
        state.keep(run("b", "c1", false)).unwrap();
        let again = State::open(folder.path(), "c1".to_owned()).unwrap();
        assert!(again.has_passed("a") && !again.has_passed("b"), "the last run counts");
        let other = State::open(folder.path(), "c2".to_owned()).unwrap();
        assert!(!other.has_passed("a"));
    }

    #[test]
    fn the_table_has_a_row_for_each_part() {
        let folder = tempfile::tempdir().unwrap();
        let mut state = State::open(folder.path(), "c1".to_owned()).unwrap();
        state.keep(run("a", "c1", true)).unwrap();
        let parts = [Part::new("a", "it is so", vec![]), Part::new("b", "it is not", vec![])];
        let expected = "
part         result    seconds  figures
a            passed         12  9 passed, 0 failed
b            open
";
        assert_eq!(table(&parts, &state), expected);
        assert_eq!(
            list(&parts, &state),
            "a            passed   it is so\nb            open     it is not\n"
        );
    }
}
