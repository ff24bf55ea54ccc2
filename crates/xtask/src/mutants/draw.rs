//! Which mutants are looked at: a sample that a seed draws from all sites.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::sites::{self, Site};

/// The code that decides: pure machines, whose tests are quick.
const FOLDERS: [&str; 4] = [
    "crates/coordinator/src",
    "crates/shard/src",
    "crates/flow/src",
    "crates/protocol/src/session",
];

/// One change of one file. Its number is its place in the order in which the seed draws.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mutant {
    pub(crate) id: u32,
    pub(crate) file: String,
    pub(crate) site: Site,
}

impl Mutant {
    /// `crates/flow/src/..` belongs to `flow`.
    pub(crate) fn package(&self) -> &str {
        self.file.split('/').nth(1).unwrap_or_default()
    }
}

/// Every mutant of the product, in the order in which the seed draws them.
pub(crate) struct Draw {
    /// The text of each file, by its path in the repository.
    pub(crate) texts: BTreeMap<String, String>,
    pub(crate) all: Vec<Mutant>,
}

impl Draw {
    pub(crate) fn new(root: &Path, seed: u64) -> Result<Self> {
        let mut texts = product_files(root)?;
        let mut found = BTreeMap::new();
        let mut test_files = Vec::new();
        for (file, text) in &texts {
            let (sites, modules) = sites::find(text).with_context(|| file.clone())?;
            test_files.extend(modules.iter().map(|module| place_of_module(file, module)));
            found.insert(file.clone(), sites);
        }
        let is_test = |file: &str| test_files.iter().any(|place| is_at(file, place));
        texts.retain(|file, _| !is_test(file));
        found.retain(|file, _| !is_test(file));
        let sites = found
            .into_iter()
            .flat_map(|(file, sites)| sites.into_iter().map(move |site| (file.clone(), site)));
        let all = shuffled(sites.collect(), seed)
            .into_iter()
            .zip(1..)
            .map(|((file, site), id)| Mutant { id, file, site })
            .collect();
        Ok(Self { texts, all })
    }

    /// The first `count` that compile, as far as is known.
    pub(crate) fn first(&self, count: usize, dropped: &BTreeSet<u32>) -> Vec<Mutant> {
        let kept = self.all.iter().filter(|mutant| !dropped.contains(&mutant.id));
        kept.take(count).cloned().collect()
    }
}

fn product_files(root: &Path) -> Result<BTreeMap<String, String>> {
    let mut git = Command::new("git");
    let listed = git.args(["ls-files", "-z"]).args(FOLDERS).current_dir(root).output()?;
    if !listed.status.success() {
        bail!("`git ls-files` ended with {}", listed.status);
    }
    let listed = String::from_utf8(listed.stdout).context("file names are UTF-8")?;
    let names = listed.split('\0').filter(|name| is_product(name));
    names.map(|name| Ok((name.to_owned(), fs::read_to_string(root.join(name))?))).collect()
}

fn is_product(name: &str) -> bool {
    let is_rust = Path::new(name).extension().is_some_and(|ending| ending == "rs");
    is_rust && !name.ends_with("/tests.rs") && !name.contains("/tests/")
}

/// Where the file of a module is, without its ending.
fn place_of_module(file: &str, module: &str) -> String {
    let stem = file.trim_end_matches(".rs");
    let folder = ["/mod", "/lib"].iter().find_map(|name| stem.strip_suffix(name)).unwrap_or(stem);
    format!("{folder}/{module}")
}

fn is_at(file: &str, place: &str) -> bool {
    file.strip_prefix(place).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

/// The same order for the same seed, on every machine.
fn shuffled<T>(mut items: Vec<T>, seed: u64) -> Vec<T> {
    let mut state = seed;
    for end in (1..items.len()).rev() {
        let roll = split_mix(&mut state) % (end as u64 + 1);
        items.swap(end, usize::try_from(roll).unwrap_or_default());
    }
    items
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools;

    #[test]
    fn a_seed_draws_the_same_mutants_again_and_another_one_others() {
        let draw = |seed| shuffled((0..100).collect::<Vec<u32>>(), seed);
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let mut sorted = draw(1);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<u32>>());
    }

    #[test]
    fn another_mutant_is_drawn_for_one_that_does_not_compile() {
        let draw = Draw::new(&tools::repository_root().unwrap(), 1).unwrap();
        let ids = |dropped: &[u32]| -> Vec<u32> {
            let dropped = dropped.iter().copied().collect();
            draw.first(3, &dropped).iter().map(|mutant| mutant.id).collect()
        };
        assert_eq!(ids(&[]), [1, 2, 3]);
        assert_eq!(ids(&[2]), [1, 3, 4]);
    }

    #[test]
    fn the_product_has_sites_of_every_kind_in_every_crate_and_tests_have_none() {
        let draw = Draw::new(&tools::repository_root().unwrap(), 1).unwrap();
        let packages: BTreeSet<&str> = draw.all.iter().map(Mutant::package).collect();
        assert_eq!(Vec::from_iter(packages), ["coordinator", "flow", "protocol", "shard"]);
        let kinds: BTreeSet<sites::Kind> = draw.all.iter().map(|one| one.site.kind).collect();
        assert_eq!(kinds.len(), 9);
        assert!(draw.all.len() > 2_000, "{}", draw.all.len());
        assert!(draw.texts.keys().all(|file| !file.contains("tests")));
    }

    #[test]
    fn a_module_that_only_tests_have_is_found_beside_its_parent() {
        assert_eq!(place_of_module("crates/a/src/b.rs", "c"), "crates/a/src/b/c");
        assert_eq!(place_of_module("crates/a/src/b/mod.rs", "c"), "crates/a/src/b/c");
        assert_eq!(place_of_module("crates/a/src/lib.rs", "c"), "crates/a/src/c");
        assert!(is_at("crates/a/src/c.rs", "crates/a/src/c"));
        assert!(is_at("crates/a/src/c/d.rs", "crates/a/src/c"));
        assert!(!is_at("crates/a/src/cd.rs", "crates/a/src/c"));
    }
}
