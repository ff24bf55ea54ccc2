//! The ratchet: breaches that exist today, in a list that may only shrink.

use std::fmt;

use anyhow::{Context, Result, bail};

use super::finding::{Finding, Rule};
use super::repository::Repository;

const LIST: &str = "crates/xtask/tidy-exceptions.txt";

/// Lines of the form `rule path` or `rule path:function`; `#` starts a comment.
#[derive(Debug, Default)]
pub(crate) struct Exceptions {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    line: usize,
    written: String,
    rule: Rule,
    path: String,
    function: Option<String>,
}

impl Entry {
    fn parse(line: usize, written: &str) -> Result<Self> {
        let (name, place) = written
            .split_once(' ')
            .with_context(|| format!("{LIST}:{line}: `{written}` is not `rule path[:function]`"))?;
        let Some(rule) = Rule::from_name(name) else {
            bail!("{LIST}:{line}: there is no rule `{name}`");
        };
        let (path, function) = match place.trim().split_once(':') {
            Some((path, function)) => (path, Some(function.to_owned())),
            None => (place.trim(), None),
        };
        Ok(Self { line, written: written.into(), rule, path: path.into(), function })
    }

    fn covers(&self, finding: &Finding) -> bool {
        self.rule == finding.rule
            && self.path == finding.path
            && (self.function.is_none() || self.function == finding.function)
    }
}

/// What makes tidy fail.
#[derive(Debug, PartialEq)]
pub(crate) enum Problem {
    /// A rule is broken and no exception covers it.
    Broken(Finding),
    /// An exception covers nothing: the ratchet moves on.
    Unneeded { line: usize, exception: String },
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken(finding) => finding.fmt(out),
            Self::Unneeded { line, exception } => {
                write!(out, "{LIST}:{line}: `{exception}` is no longer needed; remove it")
            }
        }
    }
}

impl Exceptions {
    pub(crate) fn in_repository(repository: &Repository) -> Result<Self> {
        let list = repository.texts.iter().find(|file| file.path == LIST);
        Self::parse(list.map_or("", |file| &file.text))
    }

    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut entries = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let written = line.split('#').next().unwrap_or_default().trim();
            if !written.is_empty() {
                entries.push(Entry::parse(index + 1, written)?);
            }
        }
        Ok(Self { entries })
    }

    pub(crate) fn apply(&self, findings: Vec<Finding>) -> Vec<Problem> {
        let is_needed = |entry: &Entry| findings.iter().any(|finding| entry.covers(finding));
        let unneeded: Vec<Problem> = self
            .entries
            .iter()
            .filter(|entry| !is_needed(entry))
            .map(|entry| Problem::Unneeded { line: entry.line, exception: entry.written.clone() })
            .collect();

        let is_covered = |finding: &Finding| self.entries.iter().any(|entry| entry.covers(finding));
        let broken = findings.into_iter().filter(|finding| !is_covered(finding));
        broken.map(Problem::Broken).chain(unneeded).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exception_silences_its_own_finding_alone() {
        let found = [finding("a.rs", "long"), finding("a.rs", "longer"), finding("b.rs", "long")];
        assert_eq!(
            applied("function-length a.rs:long", &found),
            ["a.rs:1: too long [function-length]", "b.rs:1: too long [function-length]"],
        );
    }

    #[test]
    fn an_exception_without_a_function_covers_the_file() {
        let found = [finding("a.rs", "long"), finding("a.rs", "longer")];
        assert_eq!(applied("function-length a.rs", &found), [""; 0]);
    }

    #[test]
    fn an_exception_of_another_rule_silences_nothing() {
        assert_eq!(
            applied("nesting a.rs:long", &[finding("a.rs", "long")]),
            [
                "a.rs:1: too long [function-length]",
                "crates/xtask/tidy-exceptions.txt:1: `nesting a.rs:long` is no longer needed; \
                 remove it",
            ],
        );
    }

    #[test]
    fn an_exception_that_is_no_longer_needed_fails() {
        assert_eq!(
            applied("# why\n\nunwrap a.rs # because\n", &[]),
            ["crates/xtask/tidy-exceptions.txt:3: `unwrap a.rs` is no longer needed; remove it"],
        );
    }

    #[test]
    fn a_line_that_is_no_exception_is_refused() {
        for text in ["unwrap", "no-such-rule a.rs"] {
            assert!(Exceptions::parse(text).is_err(), "{text}");
        }
    }

    fn finding(path: &str, function: &str) -> Finding {
        Finding::new(Rule::FunctionLength, path, 1, "too long").in_function(function)
    }

    fn applied(list: &str, findings: &[Finding]) -> Vec<String> {
        let problems = Exceptions::parse(list).unwrap().apply(findings.to_vec());
        problems.iter().map(ToString::to_string).collect()
    }
}
