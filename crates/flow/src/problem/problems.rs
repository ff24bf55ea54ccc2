//! All problems of one definition.

use std::borrow::Cow;
use std::fmt;

use super::{Place, Problem, Severity, code};

/// So many problems are told one by one; more would not be read.
pub const PROBLEMS_TOLD_MAX: usize = 100;
/// Labels and values in a message are cut here.
pub(crate) const QUOTED_CHARACTERS_MAX: usize = 80;
/// Whole sentences of others are cut here.
pub(crate) const SENTENCE_CHARACTERS_MAX: usize = 400;

/// Problems, as they are found.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    errors: Told,
    warnings: Told,
}

#[derive(Debug, Default)]
struct Told {
    list: Vec<Problem>,
    n_untold: usize,
}

impl Problems {
    /// Something keeps the workflow from running.
    pub(crate) fn error(&mut self, code: &'static str, at: &Place<'_>, message: fmt::Arguments) {
        self.errors.add(code, Severity::Error, at, message);
    }

    /// Something is odd.
    pub(crate) fn warning(&mut self, code: &'static str, at: &Place<'_>, message: fmt::Arguments) {
        self.warnings.add(code, Severity::Warning, at, message);
    }

    /// Whether something keeps the workflow from running.
    pub(crate) fn has_errors(&self) -> bool {
        !self.errors.list.is_empty()
    }

    /// Nothing but warnings; or the errors, then the warnings.
    pub(crate) fn into_result(self) -> Result<Vec<Problem>, Vec<Problem>> {
        if self.errors.list.is_empty() {
            return Ok(self.warnings.finish(Severity::Warning));
        }
        let mut all = self.errors.finish(Severity::Error);
        all.extend(self.warnings.finish(Severity::Warning));
        Err(all)
    }
}

impl Told {
    fn add(
        &mut self,
        code: &'static str,
        severity: Severity,
        at: &Place<'_>,
        message: fmt::Arguments,
    ) {
        if self.list.len() >= PROBLEMS_TOLD_MAX {
            self.n_untold += 1;
            return;
        }
        let node = at.node().map(str::to_owned);
        let (path, message) = (at.to_string(), message.to_string());
        self.list.push(Problem { code, severity, node, path, message });
    }

    fn finish(mut self, severity: Severity) -> Vec<Problem> {
        if self.n_untold > 0 {
            let (n, what) = match (self.n_untold, severity) {
                (1, Severity::Error) => (1, "error is"),
                (n, Severity::Error) => (n, "errors are"),
                (1, Severity::Warning) => (1, "warning is"),
                (n, Severity::Warning) => (n, "warnings are"),
            };
            let message = format!("{n} more {what} not listed here; repair these first");
            let (node, path) = (None, String::new());
            self.list.push(Problem { code: code::LIMIT, severity, node, path, message });
        }
        self.list
    }
}

/// A text of the author in a message, cut where it gets long.
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&cut(self.0, QUOTED_CHARACTERS_MAX))
    }
}

/// A text, cut after so many characters.
pub(crate) fn cut(text: &str, characters_max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(characters_max) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}...", &text[..end])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_are_told_and_the_rest_is_counted() {
        let mut problems = Problems::default();
        for _ in 0..PROBLEMS_TOLD_MAX + 3 {
            problems.error(code::INVALID, &Place::root("/id"), format_args!("is missing"));
        }
        problems.warning(code::PACKAGE, &Place::root(""), format_args!("odd"));
        let told = problems.into_result().expect_err("there are errors");
        assert_eq!(told.len(), PROBLEMS_TOLD_MAX + 2);
        assert_eq!(
            told[PROBLEMS_TOLD_MAX].message,
            "3 more errors are not listed here; repair these first"
        );
        assert_eq!(told[PROBLEMS_TOLD_MAX + 1].severity, Severity::Warning);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(Quoted("short").to_string(), "short");
        let long = "ü".repeat(QUOTED_CHARACTERS_MAX + 1);
        assert_eq!(Quoted(&long).to_string(), "ü".repeat(QUOTED_CHARACTERS_MAX) + "...");
    }
}
