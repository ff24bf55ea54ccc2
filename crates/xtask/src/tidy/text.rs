//! Rules for every text file, whatever its language.

use std::path::Path;

use super::finding::{Finding, Rule};
use super::repository::TextFile;

/// Top folders of build machines. Their slashes are added when they are looked for, so that this
/// file does not contain what it forbids.
const MACHINE_FOLDERS: [&str; 3] = ["work", "root", "farm"];

const CODE: [&str; 8] = ["rs", "py", "ts", "tsx", "js", "sh", "sql", "toml"];
/// Put together here, so that this file does not contain what it forbids.
const MARK: &str = concat!("FIX", "ME");

pub(crate) fn check(file: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in file.text.split('\n').enumerate() {
        let breaches = check_line(file, line);
        findings.extend(
            breaches.map(|(rule, message)| Finding::new(rule, &file.path, index + 1, message)),
        );
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') && !is_exact_data(&file.path) {
        let last = file.text.lines().count();
        let message = "the last line does not end";
        findings.push(Finding::new(Rule::FinalNewline, &file.path, last, message));
    }
    findings
}

fn check_line(file: &TextFile, line: &str) -> impl Iterator<Item = (Rule, String)> {
    let path = machine_folder(line).map(|folder| {
        let message = format!("a path of one machine, below the folder {folder}");
        (Rule::MachinePath, message)
    });
    let white_space = (line.ends_with(char::is_whitespace) && !is_exact_data(&file.path))
        .then(|| (Rule::TrailingWhitespace, "white space at the end".into()));
    let is_code = CODE.iter().any(|extension| file.has_extension(extension));
    let fixme = (is_code && line.contains(MARK)).then(|| {
        (Rule::Fixme, format!("{MARK}; fix it, or describe the limit where users find it"))
    });
    [path, white_space, fixme].into_iter().flatten()
}

/// Recorded bytes of a protocol are what they are, and so are empty lines of a patch.
fn is_exact_data(path: &str) -> bool {
    path.split('/').any(|part| part == "testdata")
        || Path::new(path).extension().is_some_and(|end| end == "patch")
}

fn machine_folder(line: &str) -> Option<&'static str> {
    MACHINE_FOLDERS.into_iter().find(|folder| {
        let path = format!("/{folder}/");
        line.match_indices(&path).any(|(at, _)| starts_absolute(&line[..at]))
    })
}

/// Whether a slash after this text starts an absolute path, rather than going on with a relative
/// one such as `a/b`, `./b`, `~/b` or `${A}/b`.
fn starts_absolute(before: &str) -> bool {
    let goes_on = |last: char| last.is_alphanumeric() || matches!(last, '_' | '.' | '~' | '}');
    !before.ends_with(goes_on)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_build_machines_are_found() {
        for folder in MACHINE_FOLDERS {
            for before in ["", "see ", "\"", "(", "=", "file://"] {
                check("a.md", &format!("{before}/{folder}/x\n"), &["machine-path"]);
            }
            for before in ["a", "crates", ".", "~", "${HOME}"] {
                check("a.md", &format!("{before}/{folder}/x\n"), &[]);
            }
            check("a.md", &format!("the {folder}/ folder and /{folder}ers/\n"), &[]);
        }
    }

    #[test]
    fn white_space_at_the_end_of_a_line_is_found() {
        for end in [" ", "\t", "\r"] {
            check("a.md", &format!("a{end}\nb\n"), &["trailing-whitespace"]);
            check("crates/a/testdata/b.txt", &format!("a{end}\nb\n"), &[]);
            check("crates/a/planted/b.patch", &format!("a{end}\nb\n"), &[]);
        }
        check("a.md", "a b\n\n  c\n", &[]);
    }

    #[test]
    fn a_file_ends_with_a_newline() {
        check("a.md", "a\nb", &["final-newline"]);
        check("a.md", "a\n", &[]);
        check("a.md", "", &[]);
        check("crates/a/testdata/b.txt", "a", &[]);
    }

    #[test]
    fn marks_of_known_defects_are_found_in_code() {
        check("a.py", &format!("# {MARK}\n"), &["fixme"]);
        check("a.rs", &format!("/* a\n {MARK} */ fn a() {{}}\n"), &["fixme"]);
        check("a.md", &format!("{MARK} is not for finished code.\n"), &[]);
    }

    fn check(path: &str, text: &str, expected: &[&str]) {
        let findings = super::check(&TextFile { path: path.into(), text: text.into() });
        let rules: Vec<_> = findings.iter().map(|finding| finding.rule.name()).collect();
        assert_eq!(rules, expected, "{path}: {text:?}");
    }
}
