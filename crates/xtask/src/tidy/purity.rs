//! The pure crates take time, ids and randomness from their caller, and iterate in one order.
//!
//! Otherwise a seed would not replay a run, and a restart could decide differently.

use super::finding::{Finding, Rule};
use super::source::Source;

const PURE_FOLDERS: [&str; 2] = ["crates/coordinator/src/", "crates/protocol/src/"];

const CLOCKS: [&str; 5] = ["Instant", "SystemTime", "Timestamp", "Zoned", "Utc"];
const UNORDERED: [&str; 2] = ["HashMap", "HashSet"];
const RANDOM_CRATES: [&str; 3] = ["rand", "fastrand", "getrandom"];

pub(crate) fn check(source: &Source<'_>) -> Vec<Finding> {
    if !PURE_FOLDERS.iter().any(|folder| source.path.starts_with(folder)) {
        return Vec::new();
    }
    let breaches = (0..source.code.len()).filter_map(|at| {
        let message = breach(source, at)?;
        Some(Finding::new(Rule::Purity, source.path, source.code[at].line, message))
    });
    breaches.collect()
}

fn breach(source: &Source<'_>, at: usize) -> Option<String> {
    let is = |name: &&&str| source.code[at].is(name);
    if let Some(clock) = CLOCKS.iter().find(is)
        && source.reads(at + 1, &["::", "now"])
    {
        return Some(format!("{clock}::now in a pure crate; the time comes in with the call"));
    }
    if let Some(table) = UNORDERED.iter().find(is) {
        return Some(format!("{table} in a pure crate; its order differs from run to run"));
    }
    let random = RANDOM_CRATES.iter().find(is)?;
    let is_import = at > 0 && (source.reads(at - 1, &["use"]) || source.reads(at - 1, &["crate"]));
    (is_import || source.reads(at + 1, &["::"]))
        .then(|| format!("{random} in a pure crate; randomness comes in with the command"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_chance_and_unordered_tables_are_found() {
        for text in [
            "fn a() { Instant::now() }",
            "fn a() { std::time::SystemTime::now() }",
            "fn a() { Timestamp::now() }",
            "use std::collections::{BTreeMap, HashMap};",
            "fn a(b: HashSet<u8>) {}",
            "use rand::Rng;",
            "use rand;",
            "fn a() { rand::random() }",
            "fn a() { fastrand::u64(..) }",
        ] {
            check("crates/coordinator/src/a.rs", text, 1);
            check("crates/protocol/src/b/a.rs", text, 1);
            check("crates/server/src/a.rs", text, 0);
            check("crates/coordinator/tests/a.rs", text, 0);
        }
    }

    #[test]
    fn words_that_only_look_like_it_are_left_alone() {
        for text in [
            "fn a(now: Timestamp) { let rand = now; b(rand) }",
            "// HashMap would not do, Instant::now neither.\n",
            "const A: &str = \"HashMap\";",
            "use std::collections::BTreeMap;",
        ] {
            check("crates/coordinator/src/a.rs", text, 0);
        }
    }

    fn check(path: &str, text: &str, expected: usize) {
        let findings = super::check(&Source::read(path, text));
        assert_eq!(findings.len(), expected, "{path}: {text}");
    }
}
