//! `cargo xtask size`: how many lines of Rust the product has, and whether that is within its budget.
//!
//! A line counts if a token stands on it: blank lines and comments do not, documentation neither.
//! The product is what `astra` links; tests are counted apart, also those at the bottom of a file,
//! and so are tools. Tokens stand beside lines, because they do not shrink by joining lines.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::Visit;

use crate::tools;

/// Lines that the product may have.
const BUDGET: &str = include_str!("../size-budget.txt");
/// Crates that `astra` does not link.
const TOOLS: [&str; 3] = ["harness", "sim", "xtask"];

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Purpose {
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
        Command::new("git").args(["ls-files", "-z", "crates"]).current_dir(root).output()?;
    let listed = String::from_utf8(listed.stdout).context("file names are UTF-8")?;
    let names = listed.split('\0').map(PathBuf::from);
    let names = names.filter(|name| name.extension().is_some_and(|ending| ending == "rs"));
    let names: Vec<PathBuf> = names.filter(|name| root.join(name).exists()).collect();
    let mut files = Vec::new();
    let mut tests = BTreeSet::new();
    for name in names {
        let text = fs::read_to_string(root.join(&name))?;
        let file = File::read(&text).with_context(|| format!("cannot read {}", name.display()))?;
        tests.extend(file.modules_of_tests(&name));
        files.push((name, file));
    }
    let mut counted = Counted::new();
    for (name, file) in files {
        let is_of_tests = name.ancestors().any(|folder| tests.contains(folder));
        let purpose = purpose_of(&name, is_of_tests);
        counted.entry((purpose, folder_of(&name))).or_default().add(file.code);
        let purpose = purpose.max(Purpose::Tests);
        counted.entry((purpose, folder_of(&name))).or_default().add(file.tests);
    }
    Ok(counted)
}

fn purpose_of(name: &Path, is_of_tests: bool) -> Purpose {
    let mut parts = name.iter().skip(1).map(|part| part.to_string_lossy());
    let (package, folder) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    if TOOLS.contains(&&*package) {
        Purpose::Tools
    } else if is_of_tests || folder != "src" {
        Purpose::Tests
    } else {
        Purpose::Product
    }
}

/// `server/doors`: a crate, and the first folder in it.
fn folder_of(name: &Path) -> String {
    let parts: Vec<_> = name.iter().skip(1).map(|part| part.to_string_lossy()).collect();
    match &parts[..] {
        [package, _, folder, _, ..] => format!("{package}/{folder}"),
        [package, ..] => package.clone().into_owned(),
        [] => String::new(),
    }
}

/// One file: its code, and the tests in it.
struct File {
    code: Size,
    tests: Size,
    /// Modules of tests that have files of their own.
    modules: Vec<String>,
}

impl File {
    fn read(text: &str) -> Result<Self> {
        let tokens: TokenStream = text.parse().map_err(|error| anyhow::anyhow!("{error}"))?;
        let mut found = Tests::default();
        found.visit_file(&syn::parse_file(text)?);
        let lines: Vec<&str> = text.lines().collect();
        let mut places = Vec::new();
        gather(tokens, &lines, &mut places);
        let is_test = |place: &&RangeInclusive<usize>| {
            found.ranges.iter().any(|test| test.contains(place.start()))
        };
        let (tests, code): (Vec<_>, Vec<_>) = places.iter().partition(|place| is_test(place));
        Ok(Self { code: size(&code), tests: size(&tests), modules: found.modules })
    }

    /// Where the files of its modules of tests are: `a/tests.rs`, and whatever is in `a/tests`.
    fn modules_of_tests(&self, name: &Path) -> Vec<PathBuf> {
        let stem = name.file_stem().unwrap_or_default();
        let around = name.parent().unwrap_or(name);
        let folder = if ["lib", "main", "mod"].iter().any(|root| stem == *root) {
            around.to_owned()
        } else {
            around.join(stem)
        };
        let places = |module: &String| [folder.join(module), folder.join(format!("{module}.rs"))];
        self.modules.iter().flat_map(places).collect()
    }
}

fn size(places: &[&RangeInclusive<usize>]) -> Size {
    let lines: BTreeSet<usize> = places.iter().flat_map(|place| (*place).clone()).collect();
    Size { lines: lines.len(), tokens: places.len() }
}

/// The lines of each token; a comment that documents is a token to the compiler, and none here.
fn gather(tokens: TokenStream, lines: &[&str], places: &mut Vec<RangeInclusive<usize>>) {
    for token in tokens {
        let span = token.span();
        let rest = lines[span.start().line - 1].chars().skip(span.start().column);
        let start: String = rest.take(2).collect();
        if start == "//" || start == "/*" {
            continue;
        }
        match token {
            TokenTree::Group(group) => {
                let (open, close) = (group.span_open(), group.span_close());
                places.push(open.start().line..=open.end().line);
                gather(group.stream(), lines, places);
                places.push(close.start().line..=close.end().line);
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {
                places.push(span.start().line..=span.end().line);
            }
        }
    }
}

/// Finds what is compiled for tests alone.
#[derive(Default)]
struct Tests {
    ranges: Vec<RangeInclusive<usize>>,
    modules: Vec<String>,
}

impl<'a> Visit<'a> for Tests {
    fn visit_item(&mut self, item: &'a syn::Item) {
        let attributes = match item {
            syn::Item::Const(item) => &item.attrs,
            syn::Item::Enum(item) => &item.attrs,
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Static(item) => &item.attrs,
            syn::Item::Struct(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            _ => return syn::visit::visit_item(self, item),
        };
        if !attributes.iter().any(is_for_tests) {
            return syn::visit::visit_item(self, item);
        }
        self.ranges.push(item.span().start().line..=item.span().end().line);
        if let syn::Item::Mod(module) = item
            && module.content.is_none()
        {
            self.modules.push(module.ident.to_string());
        }
    }
}

fn is_for_tests(attribute: &syn::Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else { return false };
    attribute.path().is_ident("cfg") && list.tokens.to_string() == "test"
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
        let file = File::read(text).unwrap();
        (file.code.lines, file.tests.lines)
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
        let file = File::read(text).unwrap();
        let places = file.modules_of_tests(Path::new("crates/a/src/b.rs"));
        assert_eq!(places, ["crates/a/src/b/more", "crates/a/src/b/more.rs"].map(PathBuf::from));
        let places = file.modules_of_tests(Path::new("crates/a/src/lib.rs"));
        assert_eq!(places[1], Path::new("crates/a/src/more.rs"));
    }

    #[test]
    fn files_belong_to_the_product_to_tests_or_to_tools() {
        let purpose = |name: &str| purpose_of(Path::new(name), false);
        assert_eq!(purpose("crates/server/src/app.rs"), Purpose::Product);
        assert_eq!(purpose("crates/server/tests/it/main.rs"), Purpose::Tests);
        assert_eq!(purpose("crates/sim/src/main.rs"), Purpose::Tools);
        assert_eq!(purpose_of(Path::new("crates/server/src/tests.rs"), true), Purpose::Tests);
        assert_eq!(folder_of(Path::new("crates/server/src/doors/http/a.rs")), "server/doors");
        assert_eq!(folder_of(Path::new("crates/server/src/app.rs")), "server");
    }

    #[test]
    fn a_product_over_its_budget_fails() {
        assert!(within(10, 10).is_ok());
        assert!(within(11, 10).is_err());
    }
}
