//! `.gitignore`, as far as this repository uses it.

use anyhow::{Result, bail};

/// The patterns that are in force, in the order in which they were read: the last match decides.
#[derive(Debug, Default)]
pub(crate) struct Ignored {
    patterns: Vec<Pattern>,
}

#[derive(Debug)]
struct Pattern {
    /// The folder of the `.gitignore`, empty or ending with `/`.
    folder: String,
    glob: String,
    /// The glob is compared with the whole path below `folder` and not with the last name.
    is_anchored: bool,
    folders_only: bool,
    /// `!pattern`: what matches is not ignored after all.
    is_negated: bool,
}

impl Ignored {
    pub(crate) fn add(&mut self, folder: &str, text: &str) -> Result<()> {
        for line in text.lines().map(str::trim_end) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            // A pattern that is misread would hide files from every check.
            if line.contains("**") || line.contains(['[', '\\']) {
                bail!("{folder}.gitignore: tidy cannot read the pattern `{line}`");
            }
            self.patterns.push(Pattern::parse(folder, line));
        }
        Ok(())
    }

    pub(crate) fn covers(&self, path: &str, is_folder: bool) -> bool {
        let matching = self.patterns.iter().rev().find(|pattern| pattern.matches(path, is_folder));
        matching.is_some_and(|pattern| !pattern.is_negated)
    }
}

impl Pattern {
    fn parse(folder: &str, line: &str) -> Self {
        let (line, is_negated) = match line.strip_prefix('!') {
            Some(rest) => (rest, true),
            None => (line, false),
        };
        let glob = line.trim_end_matches('/');
        Self {
            folder: folder.into(),
            glob: glob.trim_start_matches('/').into(),
            is_anchored: glob.contains('/'),
            folders_only: line.ends_with('/'),
            is_negated,
        }
    }

    fn matches(&self, path: &str, is_folder: bool) -> bool {
        let Some(below) = path.strip_prefix(&self.folder) else {
            return false;
        };
        if self.folders_only && !is_folder {
            return false;
        }
        let subject =
            if self.is_anchored { below } else { below.rsplit('/').next().unwrap_or(below) };
        glob_matches(self.glob.as_bytes(), subject.as_bytes())
    }
}

/// `*` is any run of characters but `/`, `?` one character.
fn glob_matches(glob: &[u8], text: &[u8]) -> bool {
    match (glob.split_first(), text.split_first()) {
        (None, None) => true,
        (Some((b'*', glob_rest)), None) => glob_matches(glob_rest, text),
        (Some((b'*', glob_rest)), Some((first, text_rest))) => {
            glob_matches(glob_rest, text) || (*first != b'/' && glob_matches(glob, text_rest))
        }
        (Some((wanted, glob_rest)), Some((first, text_rest))) => {
            (wanted == first || (*wanted == b'?' && *first != b'/'))
                && glob_matches(glob_rest, text_rest)
        }
        (None, Some(_)) | (Some(_), None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_cover_what_version_control_ignores() {
        let mut ignored = Ignored::default();
        ignored.add("", "# comment\n\n/target\n.data/\n*.pyc\ndocs/*.tmp\n!keep.pyc\n").unwrap();
        ignored.add("ui/", "dist\n/build\n").unwrap();

        for (path, is_folder, expected) in [
            ("target", true, true),
            ("a/target", true, false),
            (".data", true, true),
            ("a/.data", true, true),
            ("a/.data", false, false),
            ("a/b.pyc", false, true),
            ("a/keep.pyc", false, false),
            ("a/b.py", false, false),
            ("docs/a.tmp", false, true),
            ("docs/a/b.tmp", false, false),
            ("ui/dist", true, true),
            ("ui/a/dist", true, true),
            ("dist", true, false),
            ("ui/build", true, true),
            ("ui/a/build", true, false),
        ] {
            assert_eq!(ignored.covers(path, is_folder), expected, "{path}");
        }
    }

    #[test]
    fn a_pattern_that_would_be_misread_is_refused() {
        for pattern in ["a/**/b", "[ab].rs", "a\\ b"] {
            assert!(Ignored::default().add("", pattern).is_err(), "{pattern}");
        }
    }
}
