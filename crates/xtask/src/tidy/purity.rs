//! The pure crates take time, ids and randomness from their caller, and iterate in one order.
//!
//! Otherwise a seed would not replay a run, and a restart could decide differently. Clippy checks it
//! with the list in `crates/clippy-pure.toml`; tidy checks that every pure crate asks for that.

use super::dependencies::PURE;
use super::finding::{Finding, Rule};
use super::repository::Repository;

const DENIED: &str =
    "#![cfg_attr(not(test), deny(clippy::disallowed_types, clippy::disallowed_methods))]";

pub(crate) fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &repository.texts {
        let is_pure = PURE.iter().any(|name| file.path == format!("crates/{name}/src/lib.rs"));
        if is_pure && !file.text.lines().any(|line| line == DENIED) {
            let message = format!("a pure crate denies what is not pure: {DENIED}");
            findings.push(Finding::new(Rule::Purity, &file.path, 1, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::tools;

    #[test]
    fn every_pure_crate_has_the_list_of_what_is_not_pure() {
        let crates = tools::repository_root().expect("a repository").join("crates");
        let list = fs::read_to_string(crates.join("clippy-pure.toml")).expect("the list");
        for name in PURE {
            let own = fs::read_to_string(crates.join(name).join("clippy.toml"));
            assert_eq!(own.ok().as_deref(), Some(list.as_str()), "{name}");
        }
    }

    #[test]
    fn the_list_repeats_the_settings_of_the_workspace() {
        let root = tools::repository_root().expect("a repository");
        let read = |path: &str| fs::read_to_string(root.join(path)).expect("settings");
        let pure = read("crates/clippy-pure.toml");
        let settings = read("clippy.toml");
        for line in settings.lines().filter(|line| line.contains('=') && !line.starts_with('#')) {
            assert!(pure.contains(line), "{line}");
        }
    }
}
