//! What is known about each mutant: a file that a later start goes on with, and the report.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::draw::Mutant;
use super::judge::Outcome;

/// The first line of the file: the same one draws the same mutants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) seed: u64,
    pub(crate) count: usize,
    /// The last one that touched what is judged or what judges.
    pub(crate) commit: String,
    /// Mutants that do not compile; others were drawn in their place.
    pub(crate) dropped: BTreeSet<u32>,
}

/// Every further line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Judged {
    pub(crate) id: u32,
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) kind: String,
    pub(crate) before: String,
    pub(crate) after: String,
    /// `survived`, or what found it.
    pub(crate) outcome: String,
    pub(crate) milliseconds: u64,
}

const SURVIVED: &str = "survived";

impl Judged {
    pub(crate) fn new(mutant: &Mutant, outcome: &Outcome, milliseconds: u64) -> Self {
        Self {
            id: mutant.id,
            file: mutant.file.clone(),
            line: mutant.site.line,
            kind: mutant.site.kind.name().to_owned(),
            before: mutant.site.before.clone(),
            after: mutant.site.after.clone(),
            outcome: match outcome {
                Outcome::Survived => SURVIVED.to_owned(),
                Outcome::FoundBy(trial) => trial.clone(),
                Outcome::TimeOut(trial) => format!("time-out in {trial}"),
            },
            milliseconds,
        }
    }

    fn is_survivor(&self) -> bool {
        self.outcome == SURVIVED
    }

    fn is_about(&self, mutant: &Mutant) -> bool {
        let Mutant { file, site, .. } = mutant;
        (&self.file, self.line, &self.before, &self.after)
            == (file, site.line, &site.before, &site.after)
    }

    /// `crates/flow/src/..` belongs to `flow`.
    fn package(&self) -> &str {
        self.file.split('/').nth(1).unwrap_or_default()
    }
}

/// The file of one seed, count and commit.
pub(crate) struct Results {
    path: PathBuf,
    pub(crate) header: Header,
    pub(crate) judged: BTreeMap<u32, Judged>,
}

impl Results {
    /// What an earlier start left, or nothing yet.
    pub(crate) fn open(folder: &Path, header: Header) -> Result<Self> {
        let short: String = header.commit.chars().take(12).collect();
        let name = format!("results-{}-{}-{short}.jsonl", header.seed, header.count);
        let path = folder.join(name);
        match fs::read_to_string(&path) {
            Ok(text) => Self::read(path, &text),
            Err(_) => Ok(Self { path, header, judged: BTreeMap::new() }),
        }
    }

    fn read(path: PathBuf, text: &str) -> Result<Self> {
        let mut lines = text.lines();
        let header = serde_json::from_str(lines.next().unwrap_or_default())
            .with_context(|| format!("the first line of {}", path.display()))?;
        // The last line of a run that was killed may be cut.
        let judged = lines.map_while(|line| serde_json::from_str::<Judged>(line).ok());
        let judged = judged.map(|judged| (judged.id, judged)).collect();
        Ok(Self { path, header, judged })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the mutants that do not compile, and everything that was judged.
    pub(crate) fn begin(&mut self, dropped: BTreeSet<u32>, mutants: &[Mutant]) -> Result<File> {
        let by_id: BTreeMap<u32, &Mutant> =
            mutants.iter().map(|mutant| (mutant.id, mutant)).collect();
        for judged in self.judged.values() {
            if !by_id.get(&judged.id).is_some_and(|mutant| judged.is_about(mutant)) {
                let path = self.path.display();
                bail!("{path} is about other code: commit what has changed, or delete the file");
            }
        }
        self.header.dropped = dropped;
        let mut lines = vec![serde_json::to_string(&self.header)?];
        for judged in self.judged.values() {
            lines.push(serde_json::to_string(judged)?);
        }
        fs::write(&self.path, lines.join("\n") + "\n")?;
        File::options().append(true).open(&self.path).context("cannot open the results")
    }
}

/// Appends one line; a reader never sees half of it unless the machine stops.
pub(crate) fn append(file: &mut File, judged: &Judged) -> Result<()> {
    let line = serde_json::to_string(judged)? + "\n";
    file.write_all(line.as_bytes()).context("cannot write the results")
}

/// The score of each crate, and the survivors.
pub(crate) fn report(judged: &BTreeMap<u32, Judged>) -> String {
    let mut packages: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for one in judged.values() {
        for name in [one.package(), "total"] {
            let (n_all, n_survived) = packages.entry(name).or_default();
            *n_all += 1;
            *n_survived += usize::from(one.is_survivor());
        }
    }
    let mut text = format!(
        "\n{:<12} {:>8} {:>8} {:>9} {:>8}\n",
        "crate", "mutants", "found", "survived", "score"
    );
    let total = packages.remove("total").map(|figures| ("total", figures));
    for (name, (n_all, n_survived)) in packages.into_iter().chain(total) {
        let n_found = n_all - n_survived;
        let tenths = n_found * 1000 / n_all.max(1);
        let score = format!("{}.{} %", tenths / 10, tenths % 10);
        let _ = writeln!(text, "{name:<12} {n_all:>8} {n_found:>8} {n_survived:>9} {score:>8}");
    }
    for one in survivors(judged) {
        let Judged { id, file, line, kind, before, after, .. } = one;
        let after = if after.is_empty() { "left out" } else { after };
        let _ = writeln!(text, "{file}:{line}: {kind}: {before} -> {after} (--only {id})");
    }
    text
}

fn survivors(judged: &BTreeMap<u32, Judged>) -> Vec<&Judged> {
    let mut survivors: Vec<&Judged> = judged.values().filter(|one| one.is_survivor()).collect();
    survivors.sort_by_key(|one| (&one.file, one.line, one.id));
    survivors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(id: u32, file: &str, outcome: &str) -> Judged {
        Judged {
            id,
            file: file.to_owned(),
            line: 7,
            kind: "comparison".to_owned(),
            before: "a < b".to_owned(),
            after: "(a) <= (b)".to_owned(),
            outcome: outcome.to_owned(),
            milliseconds: 5,
        }
    }

    fn header() -> Header {
        let commit = "0123456789abcdef".to_owned();
        Header { seed: 1, count: 2, commit, dropped: BTreeSet::from([4]) }
    }

    #[test]
    fn a_later_start_knows_what_was_judged_and_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let mut results = Results::open(folder.path(), header()).unwrap();
        let mut file = results.begin(BTreeSet::from([4, 9]), &[]).unwrap();
        append(&mut file, &judged(3, "crates/flow/src/a.rs", "flow/it")).unwrap();
        file.write_all(b"{\"id\":5,\"fi").unwrap();

        let again = Results::open(folder.path(), header()).unwrap();
        assert_eq!(again.header.dropped, BTreeSet::from([4, 9]));
        assert_eq!(again.judged.keys().copied().collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn results_of_other_code_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut results = Results::open(folder.path(), header()).unwrap();
        results.judged.insert(3, judged(3, "crates/flow/src/a.rs", "flow/it"));
        let error = results.begin(BTreeSet::new(), &[]).unwrap_err().to_string();
        assert!(error.contains("is about other code"), "{error}");
    }

    #[test]
    fn the_report_counts_per_crate_and_names_the_survivors() {
        let all = [
            judged(1, "crates/flow/src/a.rs", "flow/it"),
            judged(2, "crates/flow/src/b.rs", "survived"),
            judged(3, "crates/shard/src/c.rs", "time-out in shard/link"),
        ];
        let all = all.into_iter().map(|one| (one.id, one)).collect();
        let expected = "
crate         mutants    found  survived    score
flow                2        1         1   50.0 %
shard               1        1         0  100.0 %
total               3        2         1   66.6 %
crates/flow/src/b.rs:7: comparison: a < b -> (a) <= (b) (--only 2)
";
        assert_eq!(report(&all), expected);
    }
}
