//! The page of requirements keeps its word: what is done names a test that is run, or a promise that
//! the simulation checks, and the counts at its head are right.

use std::collections::BTreeMap;
use std::fmt;

use super::finding::{Finding, Rule};
use super::repository::{Repository, TextFile};
use crate::rust_file::RustFile;

const PAGE: &str = "docs/internals/requirements.md";

#[derive(Default, PartialEq, Eq)]
struct Counts {
    rows: usize,
    done: usize,
}

const SIMULATION: &str = "crates/sim/src/";

/// Where tests and promises are looked for.
struct Proofs<'a> {
    rust: &'a [RustFile],
    python: Vec<&'a TextFile>,
}

pub(crate) fn check(repository: &Repository, files: &[RustFile]) -> Vec<Finding> {
    let Some(page) = repository.texts.iter().find(|file| file.path == PAGE) else {
        return Vec::new();
    };
    let python = repository.texts.iter().filter(|file| file.has_extension("py")).collect();
    let proofs = Proofs { rust: files, python };
    let mut findings = Vec::new();
    let mut counts: BTreeMap<String, Counts> = BTreeMap::new();
    for (index, line) in page.text.lines().enumerate() {
        let Some(row) = Row::read(line) else { continue };
        let count = counts.entry(row.seed().to_owned()).or_default();
        count.rows += 1;
        count.done += usize::from(row.state == "done");
        if let Some(message) = row.breach(&proofs) {
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

    fn breach(&self, proofs: &Proofs<'_>) -> Option<String> {
        let id = self.id;
        match self.state {
            "planned" if self.shown_by == "-" => None,
            "planned" => Some(format!("{id} is planned, but names what shows it")),
            "done" => {
                let named = NamedTest::read_all(self.shown_by);
                match named.iter().find(|test| !proofs.hold(test)) {
                    Some(test) => Some(format!("{id} is shown by `{test}`, which is no test")),
                    None if named.is_empty() => Some(format!("{id} is done, but names no test")),
                    None => None,
                }
            }
            other => Some(format!("{id} is `{other}`, neither done nor planned")),
        }
    }
}

/// The name of a test, after the path of its file. A name without a path is in the file that was
/// named before it in the row, or in any file of Rust if none was.
struct NamedTest<'a> {
    path: Option<&'a str>,
    name: &'a str,
}

impl<'a> NamedTest<'a> {
    fn read_all(shown_by: &'a str) -> Vec<Self> {
        let mut path = None;
        let mut named = Vec::new();
        for (index, part) in shown_by.split('`').enumerate() {
            if index % 2 == 1 {
                named.push(Self { path, name: part });
            } else if let Some(found) = part.trim_start_matches([',', ' ']).strip_suffix(": ") {
                path = Some(found);
            }
        }
        named
    }
}

impl Proofs<'_> {
    /// Whether this test is there and run, or the simulation checks each of these promises.
    fn hold(&self, test: &NamedTest<'_>) -> bool {
        if let Some(promises) = test.name.strip_prefix("sim: ") {
            return promises.split(", ").all(|promise| self.is_checked(promise));
        }
        let is_meant = |path: &str| test.path.is_none_or(|meant| meant == path);
        let in_python = || {
            let meant = self.python.iter().filter(|file| test.path == Some(&*file.path));
            meant.into_iter().any(|file| is_run_in_python(&file.text, test.name))
        };
        let in_rust = |file: &RustFile| is_meant(&file.path) && file.has_test(test.name);
        self.rust.iter().any(in_rust) || in_python()
    }

    /// Whether the oracle names the promise where it looks for a breach.
    fn is_checked(&self, promise: &str) -> bool {
        let literal = format!("\"{promise}\"");
        let of_simulation = self.rust.iter().filter(|file| file.path.starts_with(SIMULATION));
        of_simulation.into_iter().any(|file| file.code.iter().any(|token| token.text == literal))
    }
}

impl fmt::Display for NamedTest<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path {
            Some(path) => write!(out, "{path}: {}", self.name),
            None => out.write_str(self.name),
        }
    }
}

/// Whether a test of pytest is there, always run, and not expected to fail: another shows nothing.
fn is_run_in_python(text: &str, name: &str) -> bool {
    let Some(at) = text.find(&format!("\ndef {name}(")) else { return false };
    let marks = text[..at].rsplit("\n\n").next().unwrap_or_default();
    !marks.contains("xfail") && !marks.contains("mark.skip")
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

#[cfg(test)]
mod tests {
    use super::*;

    const RUST: &str = "crates/a/tests/it/b.rs";
    const PYTHON: &str = "tests/test_c.py";
    const ORACLE: &str = "crates/sim/src/oracle.rs";

    #[test]
    fn a_test_is_looked_for_in_the_file_that_is_named() {
        check("`in_rust`", None);
        check("crates/a/tests/it/b.rs: `in_rust`", None);
        check("crates/a/tests/it/other.rs: `in_rust`", Some("crates/a/tests/it/other.rs: in_rust"));
        check("tests/test_c.py: `test_one`", None);
        check("`in_rust`, tests/test_c.py: `test_one`, `test_two`", None);
        check("tests/test_c.py: `test_one`, `in_rust`", Some("tests/test_c.py: in_rust"));
        check("`test_one`", Some("test_one"));
        check("tests/test_c.py: `test_on`", Some("tests/test_c.py: test_on"));
    }

    #[test]
    fn what_is_not_run_as_a_test_shows_nothing() {
        check("`helper`", Some("helper"));
        check("tests/test_c.py: `test_marked`", Some("tests/test_c.py: test_marked"));
        check("tests/test_c.py: `test_skipped`", Some("tests/test_c.py: test_skipped"));
        check("tests/test_c.py: `test_after_it`", None);
    }

    #[test]
    fn a_promise_is_one_that_the_simulation_checks() {
        check("`sim: P1`", None);
        check("`in_rust`, `sim: P1, P2`", None);
        check("`sim: P1, P3`", Some("sim: P1, P3"));
        check("`no_such`, `sim: P1`", Some("no_such"));
    }

    /// `missing` is the test that is not there.
    fn check(shown_by: &str, missing: Option<&str>) {
        let python = "\
import pytest


def test_one(server):
    pass


@pytest.mark.parametrize(\"n\", [1])
def test_two(server, n):
    pass


@pytest.mark.xfail(reason=\"not yet\")
@pytest.mark.parametrize(\"n\", [1])
def test_marked(server, n):
    pass


@pytest.mark.skipif(not SLOW, reason=\"slow\")
def test_skipped():
    pass


def test_after_it():
    pass
";
        let rust = "#[tokio::test]\nasync fn in_rust() {}\nfn helper() {}\n";
        let oracle = "fn a() { demand(b, \"P1\"); broken(\"P2\"); } // \"P3\"\n";
        let files = [(RUST, rust), (ORACLE, oracle)];
        let files = files.map(|(path, text)| RustFile::read(path, text).unwrap());
        let python = TextFile { path: PYTHON.into(), text: python.into() };
        let proofs = Proofs { rust: &files, python: vec![&python] };
        let row = Row { id: "002-1-a", state: "done", shown_by };
        let expected =
            missing.map(|test| format!("002-1-a is shown by `{test}`, which is no test"));
        assert_eq!(row.breach(&proofs), expected, "{shown_by}");
    }
}
