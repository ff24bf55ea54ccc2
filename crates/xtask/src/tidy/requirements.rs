//! The page of requirements keeps its word: what is done names a test that exists, and the counts
//! at its head are right.

use std::collections::BTreeMap;

use super::finding::{Finding, Rule};
use super::repository::{Repository, TextFile};

const PAGE: &str = "docs/internals/requirements.md";

#[derive(Default, PartialEq, Eq)]
struct Counts {
    rows: usize,
    done: usize,
}

pub(crate) fn check(repository: &Repository) -> Vec<Finding> {
    let Some(page) = repository.texts.iter().find(|file| file.path == PAGE) else {
        return Vec::new();
    };
    let tests: Vec<&TextFile> =
        repository.texts.iter().filter(|file| file.has_extension("rs")).collect();
    let mut findings = Vec::new();
    let mut counts: BTreeMap<String, Counts> = BTreeMap::new();
    for (index, line) in page.text.lines().enumerate() {
        let Some(row) = Row::read(line) else { continue };
        let count = counts.entry(row.seed().to_owned()).or_default();
        count.rows += 1;
        count.done += usize::from(row.state == "done");
        if let Some(message) = row.breach(&tests) {
            findings.push(Finding::new(Rule::Requirements, PAGE, index + 1, message));
        }
    }
    findings.extend(check_counts(page, &counts));
    findings
}

/// `| 002-3.1-a | text | done | test |`
struct Row<'a> {
    id: &'a str,
    state: &'a str,
    shown_by: &'a str,
}

impl<'a> Row<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, id, .., state, shown_by, _] = cells.as_slice() else { return None };
        let is_id = id.len() > 4 && id.as_bytes()[3] == b'-' && id[..3].parse::<u32>().is_ok();
        is_id.then_some(Self { id, state, shown_by })
    }

    fn seed(&self) -> &'a str {
        &self.id[..3]
    }

    fn breach(&self, tests: &[&TextFile]) -> Option<String> {
        let id = self.id;
        match self.state {
            "planned" if self.shown_by == "-" => None,
            "planned" => Some(format!("{id} is planned, but names what shows it")),
            "done" if self.shown_by.contains("sim: P") => None,
            "done" => {
                let names: Vec<&str> = self.shown_by.split('`').skip(1).step_by(2).collect();
                let missing = names.iter().find(|name| !exists(name, tests));
                match missing {
                    Some(name) => Some(format!("{id} is shown by `{name}`, which is no test")),
                    None if names.is_empty() => Some(format!("{id} is done, but names no test")),
                    None => None,
                }
            }
            other => Some(format!("{id} is `{other}`, neither done nor planned")),
        }
    }
}

fn exists(name: &str, tests: &[&TextFile]) -> bool {
    let function = format!("fn {name}()");
    tests.iter().any(|file| file.text.contains(&function))
}

/// The table at the head: `| 002 | rows | done | planned |`, and `all`.
fn check_counts(page: &TextFile, counts: &BTreeMap<String, Counts>) -> Vec<Finding> {
    let mut expected: BTreeMap<&str, (usize, usize)> =
        counts.iter().map(|(seed, count)| (seed.as_str(), (count.rows, count.done))).collect();
    let all = expected.values().fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
    expected.insert("all", all);
    let mut findings = Vec::new();
    for (index, line) in page.text.lines().enumerate() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", name, rows, done, planned, ""] = cells.as_slice() else { continue };
        let Some((n_rows, n_done)) = expected.get(name) else { continue };
        let right = [n_rows.to_string(), n_done.to_string(), (n_rows - n_done).to_string()];
        if [*rows, *done, *planned] != [&right[0][..], &right[1], &right[2]] {
            let message = format!("`{name}` counts {}, {} and {}", right[0], right[1], right[2]);
            findings.push(Finding::new(Rule::Requirements, PAGE, index + 1, message));
        }
    }
    findings
}
