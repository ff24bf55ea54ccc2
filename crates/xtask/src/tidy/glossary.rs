//! A type is named with a word of the glossary, so that its name says what it is about.
//!
//! Types that are not stand in a list that may only shrink: a new type takes a word that is there,
//! or brings its word into the glossary.

use std::collections::BTreeSet;

use super::finding::{Finding, Rule};
use super::repository::Repository;
use crate::rust_file::RustFile;
use crate::size::{Purpose, purpose_of};

const PAGE: &str = "docs/concepts/glossary.md";
const WORDS_MAX: usize = 150;
/// Names of types, one a line; `#` starts a comment.
const LIST: &str = "crates/xtask/tidy-names.txt";

pub(crate) fn check(repository: &Repository, files: &[RustFile]) -> Vec<Finding> {
    let text = |path| repository.texts.iter().find(|file| file.path == path);
    let words = words(text(PAGE).map_or("", |file| &file.text));
    let mut findings = Vec::new();
    if words.len() > WORDS_MAX {
        let message = format!("{} words, at most {WORDS_MAX}", words.len());
        findings.push(Finding::new(Rule::Glossary, PAGE, 1, message));
    }
    let is_product = |file: &&RustFile| purpose_of(&file.path, file.is_test) == Purpose::Product;
    let mut strange = BTreeSet::new();
    let listed = text(LIST).map_or("", |file| &file.text);
    let listed: BTreeSet<&str> = listed.lines().filter(|line| !line.starts_with('#')).collect();
    for file in files.iter().filter(is_product) {
        let types = file.items.public_types.iter().filter(|(_, line)| !file.is_test_at(*line));
        for (name, line) in types.filter(|(name, _)| !has_word(name, &words)) {
            strange.insert(name.as_str());
            if !listed.contains(name.as_str()) {
                let message = format!("no word of {name} is in {PAGE}; take one, or add it there");
                findings.push(Finding::new(Rule::Glossary, &file.path, *line, message));
            }
        }
    }
    findings.extend(listed.difference(&strange).map(|name| {
        let message = format!("{name} is no longer needed; remove it");
        Finding::new(Rule::Glossary, LIST, 1, message)
    }));
    findings
}

/// The words of the tables, in small letters: `| **boot id** | ...` gives both of its words.
fn words(page: &str) -> BTreeSet<String> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| **"));
    let cells = rows.filter_map(|rest| rest.split_once("**")).map(|(cell, _)| cell);
    cells.flat_map(|cell| cell.split(' ')).map(str::to_lowercase).collect()
}

/// `SessionIds` is made of `session` and `ids`, which is several of `id`.
fn has_word(name: &str, words: &BTreeSet<String>) -> bool {
    let starts: Vec<usize> =
        name.match_indices(|sign: char| sign.is_uppercase()).map(|(at, _)| at).collect();
    let ends = starts.iter().skip(1).copied().chain([name.len()]);
    starts.iter().zip(ends).any(|(start, end)| {
        let part = name[*start..end].to_lowercase();
        let one = part.strip_suffix("ies").map_or_else(
            || part.strip_suffix('s').unwrap_or(&part).to_owned(),
            |stem| format!("{stem}y"),
        );
        words.contains(&part) || words.contains(&one)
    })
}

#[cfg(test)]
mod tests {
    use super::super::repository::TextFile;
    use super::*;

    const GLOSSARY: &str = "| word | meaning |\n|---|---|\n| **lease** | a right |\n| **boot id** | a process |\n| **policy** | a rule |\n";

    #[test]
    fn a_public_type_has_a_word_of_the_glossary() {
        check("pub struct LeaseTable;", "", &[]);
        check("pub enum NewLeases {}", "", &[]);
        check("pub type BootId = u8;", "", &[]);
        check("pub struct Policies;", "", &[]);
        check("pub trait Table {}", "", &["Table"]);
        check("pub struct Release;", "", &["Release"]);
        check("pub(crate) struct Table; struct Other;", "", &[]);
        check("#[cfg(test)] pub struct Table;", "", &[]);
    }

    #[test]
    fn the_list_silences_a_name_and_has_none_too_many() {
        check("pub struct Table;", "# why\nTable\n", &[]);
        check("pub struct LeaseTable;", "LeaseTable\n", &["LeaseTable"]);
        check("", "Table\n", &["Table"]);
    }

    #[test]
    fn a_glossary_has_a_limit() {
        let rows: Vec<_> = (0..=WORDS_MAX).map(|n| format!("| **w{n}** | x |")).collect();
        let mut repository = Repository::default();
        repository.texts.push(TextFile { path: PAGE.into(), text: rows.join("\n") });
        assert_eq!(super::check(&repository, &[]).len(), 1);
    }

    fn check(text: &str, list: &str, expected: &[&str]) {
        let mut repository = Repository::default();
        for (path, text) in [(PAGE, GLOSSARY), (LIST, list)] {
            repository.texts.push(TextFile { path: path.into(), text: text.into() });
        }
        let file = RustFile::read("crates/shop/src/a.rs", text).unwrap();
        let findings = super::check(&repository, &[file]);
        let named = findings.iter().zip(expected).all(|(one, name)| one.message.contains(name));
        assert!(findings.len() == expected.len() && named, "{text}: {findings:?}");
    }
}
