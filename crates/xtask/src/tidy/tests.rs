//! Every rule can fail: one planted breach each, through the same door as the real tree.

use super::*;
use crate::tidy::finding::Rule;
use crate::tidy::repository::TextFile;
use crate::tools::{Dependency, Package};

/// One file (or dependency) that breaks exactly one rule, and its mended twin.
struct Sample {
    path: &'static str,
    bad: String,
    good: String,
}

/// Exhaustive on purpose: a new rule does not compile without its sample.
fn sample(rule: Rule) -> Sample {
    match rule {
        Rule::FileLength => rust(&"// a\n".repeat(801), &"// a\n".repeat(800)),
        Rule::InlineTests => rust(&tests_of(201), &tests_of(200)),
        Rule::IgnoredTest => rust("#[test]\n#[ignore]\nfn a() {}\n", "#[test]\nfn a() {}\n"),
        Rule::TestSleep => at(
            "crates/shop/tests/it.rs",
            "fn a() { std::thread::sleep(b); }\n",
            "fn a() { wait_until(\"b\", c, d); }\n",
        ),
        Rule::Glossary => rust("pub struct Shop;\n", "struct Shop;\n"),
        Rule::Fixme => rust(concat!("// FIX", "ME: b\n"), "// Because of b.\n"),
        Rule::ModuleDoc => at("crates/shop/src/lib.rs", "mod till;\n", "//! Sells.\nmod till;\n"),
        Rule::ModLogic => {
            at("crates/shop/src/till/mod.rs", "//! Sells.\nfn a() {}\n", "//! Sells.\nmod a;\n")
        }
        Rule::Purity => at(
            "crates/coordinator/src/lib.rs",
            "//! Decides.\n",
            "//! Decides.\n#![cfg_attr(not(test), deny(clippy::disallowed_types, clippy::disallowed_methods))]\n",
        ),
        Rule::Lock => {
            at("crates/server/src/till.rs", "fn a(b: RwLock<u8>) {}\n", "fn a(b: &mut Tenant) {}\n")
        }
        Rule::DoorImport => at(
            "crates/server/src/doors/ws/till.rs",
            "use crate::doors::http::problem;\n",
            "use crate::wire_words::problem;\n",
        ),
        Rule::DependencyDirection => at("dependency of coordinator", "tokio", "model"),
        Rule::MachinePath => at("a.md", &format!("see {0}root{0}a\n", '/'), "see ./root/a\n"),
        Rule::TrailingWhitespace => at("a.md", "a \n", "a\n"),
        Rule::FinalNewline => at("a.md", "a", "a\n"),
        Rule::BrokenLink => at("a.md", "[a](b.md)\n", "[a](a.md)\n"),
        Rule::Requirements => at(
            "docs/internals/requirements.md",
            "| 002-1-a | text | done | `no_such_test` |\n",
            "| 002-1-a | text | planned | - |\n",
        ),
    }
}

#[test]
fn every_rule_reports_its_planted_breach_and_nothing_else() {
    for &rule in Rule::ALL {
        let Sample { path, bad, .. } = sample(rule);
        let found: Vec<_> = findings(path, &bad).into_iter().map(|finding| finding.rule).collect();
        assert_eq!(found, [rule], "{}", rule.name());
    }
}

#[test]
fn no_rule_reports_the_mended_twin() {
    for &rule in Rule::ALL {
        let Sample { path, good, .. } = sample(rule);
        assert_eq!(findings(path, &good), [], "{}", rule.name());
    }
}

#[test]
fn every_rule_stands_in_the_page_about_testing() {
    let page = tools::repository_root().unwrap().join("docs/internals/testing.md");
    let text = std::fs::read_to_string(page).unwrap();
    for &rule in Rule::ALL {
        let row = format!("\n| `{}` |", rule.name());
        assert!(text.contains(&row), "{}", rule.name());
    }
}

fn findings(path: &str, text: &str) -> Vec<Finding> {
    let mut repository = Repository::default();
    if let Some(package) = path.strip_prefix("dependency of ") {
        let dependencies = vec![Dependency { name: text.into(), kind: None }];
        repository.packages.push(Package { name: package.into(), dependencies });
    } else {
        repository.paths.insert(path.into());
        repository.texts.push(TextFile { path: path.into(), text: text.into() });
    }
    check(&repository, &rust_files(&repository).unwrap())
}

fn rust(bad: &str, good: &str) -> Sample {
    at("crates/shop/src/till.rs", bad, good)
}

fn at(path: &'static str, bad: &str, good: &str) -> Sample {
    Sample { path, bad: bad.into(), good: good.into() }
}

fn tests_of(n_lines: usize) -> String {
    format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "// a\n".repeat(n_lines - 3))
}
