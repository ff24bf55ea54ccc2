//! `cargo xtask size`: how many lines of Rust the product has, and whether that is within its budget.
//!
//! A line counts if a token stands on it: blank lines and comments do not, documentation neither.
//! The product is what `astra` links; tests are counted apart, also those at the bottom of a file,
//! and so are tools. Tokens stand beside lines, because they do not shrink by joining lines.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::rust_file::{RustFile, Token, holds, mark_declared_tests};
use crate::tools;

/// Lines that the product may have.
const BUDGET: &str = include_str!("../size-budget.txt");
/// Crates that `astra` does not link.
const TOOLS: [&str; 3] = ["harness", "sim", "xtask"];

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    Product,
    Tests,
    Tools,
}

/// How much there is of something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    lines: usize,
    tokens: usize,
}

impl Size {
    fn add(&mut self, other: Self) {
        self.lines += other.lines;
        self.tokens += other.tokens;
    }
}

pub(crate) fn run() -> Result<()> {
    let counted = count(&tools::repository_root()?)?;
    print!("{}", table(&counted));
    let budget = BUDGET.trim().parse().context("size-budget.txt is one number")?;
    within(total(&counted, Purpose::Product).lines, budget)
}

fn within(lines: usize, budget: usize) -> Result<()> {
    println!("size: the product has {lines} lines, its budget is {budget}");
    if lines > budget {
        bail!("the product is {} lines over its budget; take something away", lines - budget);
    }
    Ok(())
}

/// The sizes by purpose and folder.
type Counted = BTreeMap<(Purpose, String), Size>;

fn count(root: &Path) -> Result<Counted> {
    let listed =
        Command::new("git").args(["ls-files", "-z", "crates/*.rs"]).current_dir(root).output()?;
    let listed = String::from_utf8(listed.stdout).context("file names are UTF-8")?;
    let names = listed.split('\0').filter(|name| root.join(name).is_file());
    let mut files = Vec::new();
    for name in names {
        files.push(RustFile::read(name, &fs::read_to_string(root.join(name))?)?);
    }
    mark_declared_tests(&mut files);
    let mut counted = Counted::new();
    for file in files {
        let folder = folder_of(&file.path);
        let purpose = purpose_of(&file.path, file.is_test);
        let is_test = |token: &&Token| holds(&file.items.tests, *token.lines.start());
        let (tests, code): (Vec<_>, Vec<_>) = file.code.iter().partition(is_test);
        counted.entry((purpose, folder.clone())).or_default().add(size(&code));
        counted.entry((purpose.max(Purpose::Tests), folder)).or_default().add(size(&tests));
    }
    Ok(counted)
}

pub(crate) fn purpose_of(path: &str, is_test: bool) -> Purpose {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    if TOOLS.contains(&parts[0]) {
        Purpose::Tools
    } else if is_test || parts[1] != "src" {
        Purpose::Tests
    } else {
        Purpose::Product
    }
}

/// `server/doors`: a crate, and the first folder in it.
fn folder_of(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    match &parts[..] {
        [package, _, folder, _, ..] => format!("{package}/{folder}"),
        [package, ..] => (*package).to_owned(),
        [] => String::new(),
    }
}

fn size(tokens: &[&Token]) -> Size {
    let lines: BTreeSet<usize> = tokens.iter().flat_map(|token| token.lines.clone()).collect();
    Size { lines: lines.len(), tokens: tokens.len() }
}

fn total(counted: &Counted, purpose: Purpose) -> Size {
    let mut total = Size::default();
    counted.iter().filter(|((one, _), _)| *one == purpose).for_each(|(_, size)| total.add(*size));
    total
}

fn table(counted: &Counted) -> String {
    let mut text = String::new();
    for purpose in [Purpose::Product, Purpose::Tests, Purpose::Tools] {
        let Size { lines, tokens } = total(counted, purpose);
        let name = format!("{purpose:?}").to_lowercase();
        let _ = writeln!(text, "{name:<32} {lines:>8} lines {tokens:>9} tokens");
        for ((_, folder), size) in counted.iter().filter(|((one, _), _)| *one == purpose) {
            let _ = writeln!(text, "  {folder:<30} {:>8} {:>15}", size.lines, size.tokens);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> (usize, usize) {
        let file = RustFile::read("a.rs", text).unwrap();
        let is_test = |token: &&Token| file.is_test_at(*token.lines.start());
        let (tests, code): (Vec<_>, Vec<_>) = file.code.iter().partition(is_test);
        (size(&code).lines, size(&tests).lines)
    }

    #[test]
    fn comments_blank_lines_and_documentation_do_not_count() {
        let text = "//! A file.\n\n/// A thing.\nstruct A; // So it is.\n/* more\n of it */\nconst B: u8 =\n    1;\n";
        assert_eq!(lines(text), (3, 0));
    }

    #[test]
    fn a_text_over_several_lines_is_code() {
        assert_eq!(lines("const A: &str = \"one\n// two\n\nthree\";\n"), (4, 0));
    }

    #[test]
    fn tests_at_the_bottom_of_a_file_are_counted_apart() {
        let text =
            "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n#[cfg(test)]\nmod more;\n";
        assert_eq!(lines(text), (1, 6));
    }

    #[test]
    fn files_belong_to_the_product_to_tests_or_to_tools() {
        let purpose = |name: &str| purpose_of(name, false);
        assert_eq!(purpose("crates/server/src/app.rs"), Purpose::Product);
        assert_eq!(purpose("crates/server/tests/it/main.rs"), Purpose::Tests);
        assert_eq!(purpose("crates/sim/src/main.rs"), Purpose::Tools);
        assert_eq!(purpose_of("crates/server/src/tests.rs", true), Purpose::Tests);
        assert_eq!(folder_of("crates/server/src/doors/http/a.rs"), "server/doors");
        assert_eq!(folder_of("crates/server/src/app.rs"), "server");
    }

    #[test]
    fn a_product_over_its_budget_fails() {
        assert!(within(10, 10).is_ok());
        assert!(within(11, 10).is_err());
    }
}
