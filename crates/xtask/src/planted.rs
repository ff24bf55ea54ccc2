//! `cargo xtask planted`: proof that the tests bite.
//!
//! Each file in `crates/sim/planted/` is a deliberate mistake: a sentence, the one command that must
//! go red with it (`Red: cargo ...`), and a patch of product code. One after the other is applied to
//! a copy of the tree, which must still compile, and its command must then fail. The same command
//! passes on the copy without the patch, so it is the mistake that makes it fail. A patch that no
//! longer applies fails the chore: the code has moved, and the proof is gone.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::copy::Copy;
use crate::tools;

const PATCHES: &str = "crates/sim/planted";
/// Each mistake compiles its crates anew, so compiling must be quick; what they use is compiled
/// once, and as fast as ever.
const PROFILE: [&str; 4] = [
    "profile.release.opt-level=1",
    "profile.release.incremental=true",
    "profile.release.debug=false",
    "profile.release.package.\"*\".opt-level=3",
];
/// What must stand between the sentence and the patch.
const COMMAND_MARK: &str = "Red: cargo ";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Plant this mistake alone.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Begin with this mistake, to go on where an earlier run was ended.
    #[arg(long, value_name = "NAME", conflicts_with = "only")]
    from: Option<String>,
    /// Plant a fraction of them alone: `2/4` is the second quarter.
    #[arg(long, value_name = "K/N", conflicts_with_all = ["only", "from"])]
    part: Option<Fraction>,
}

/// The `number`-th of `of` equal parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fraction {
    number: usize,
    of: usize,
}

impl FromStr for Fraction {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').map(|(number, of)| (number.parse(), of.parse()));
        match numbers {
            Some((Ok(number), Ok(of))) if (1..=of).contains(&number) => Ok(Self { number, of }),
            _ => Err("a part is said as 2/4".to_owned()),
        }
    }
}

impl Fraction {
    fn of<T>(self, all: Vec<T>) -> Vec<T> {
        let (start, end) =
            ((self.number - 1) * all.len() / self.of, self.number * all.len() / self.of);
        all.into_iter().skip(start).take(end - start).collect()
    }
}

/// One mistake, as its file says it.
#[derive(Debug, PartialEq, Eq)]
struct Mistake {
    name: String,
    sentence: String,
    /// The arguments of cargo.
    command: Vec<String>,
    path: PathBuf,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let root = tools::repository_root()?;
    let mistakes = chosen(all(&root.join(PATCHES))?, options)?;
    let copy = Copy::at("planted")?;
    copy.write(&root, &[], |_| None)?;
    let mut missed = Vec::new();
    let mut is_green = BTreeMap::new();
    for mistake in &mistakes {
        let began = Instant::now();
        let found = copy.check(mistake, &mut is_green);
        let seconds = began.elapsed().as_secs();
        match found {
            Ok(()) => println!("planted: {} found in {seconds} s", mistake.name),
            Err(error) => {
                println!("planted: {} NOT FOUND: {error:#}", mistake.name);
                missed.push(mistake.name.as_str());
            }
        }
    }
    println!("{} passed, {} failed", mistakes.len() - missed.len(), missed.len());
    if !missed.is_empty() {
        bail!("not found: {}", missed.join(", "));
    }
    Ok(())
}

/// Every mistake, by name.
fn all(folder: &Path) -> Result<Vec<Mistake>> {
    let mut mistakes = Vec::new();
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "patch") {
            let text = fs::read_to_string(&path)?;
            mistakes.push(read(path, &text)?);
        }
    }
    mistakes.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(mistakes)
}

fn read(path: PathBuf, text: &str) -> Result<Mistake> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut lines = text.lines();
    let sentence = lines.next().unwrap_or_default().to_owned();
    let command = lines.next().and_then(|line| line.strip_prefix(COMMAND_MARK));
    let Some(command) = command.filter(|_| sentence.ends_with('.')) else {
        bail!("{name}: the first line is a sentence, the second begins with `{COMMAND_MARK}`");
    };
    let is_product = |path: &&str| path.starts_with("crates/") && path.contains("/src/");
    let mut touched = text.lines().filter_map(|line| line.strip_prefix("+++ b/"));
    if let Some(other) = touched.find(|path| !is_product(path) || path.contains("tests")) {
        bail!("{name}: a mistake is made in product code, not in {other}");
    }
    let command = command.split_whitespace().map(str::to_owned).collect();
    Ok(Mistake { name, sentence, command, path })
}

fn chosen(mistakes: Vec<Mistake>, options: &Options) -> Result<Vec<Mistake>> {
    let is_chosen = |mistake: &Mistake| match (&options.only, &options.from) {
        (Some(only), _) => mistake.name == *only,
        (None, Some(from)) => mistake.name >= *from,
        (None, None) => true,
    };
    let chosen: Vec<Mistake> = mistakes.into_iter().filter(is_chosen).collect();
    let chosen = match options.part {
        Some(part) => part.of(chosen),
        None => chosen,
    };
    if chosen.is_empty() {
        bail!("there is no such mistake in {PATCHES}");
    }
    Ok(chosen)
}

impl Copy {
    /// The command of a mistake passes without it and fails with it.
    fn check(&self, mistake: &Mistake, is_green: &mut BTreeMap<Vec<String>, bool>) -> Result<()> {
        let passes = match is_green.get(&mistake.command) {
            Some(passes) => *passes,
            None => self.builds(&mistake.command)? && self.passes(&mistake.command)?,
        };
        is_green.insert(mistake.command.clone(), passes);
        if !passes {
            bail!("`cargo {}` fails without it", mistake.command.join(" "));
        }
        self.apply(mistake, &["--check"]).context("the patch no longer applies")?;
        self.apply(mistake, &[])?;
        let builds = self.builds(&mistake.command);
        let outcome = match builds {
            Ok(true) => self.passes(&mistake.command),
            other => other.map(|_| true).and_then(|_| bail!("the tree does not compile with it")),
        };
        self.apply(mistake, &["--reverse"])?;
        if outcome? {
            bail!("`cargo {}` passes although: {}", mistake.command.join(" "), mistake.sentence);
        }
        Ok(())
    }

    fn apply(&self, mistake: &Mistake, flags: &[&str]) -> Result<()> {
        let mut apply = Command::new("git");
        apply.arg("apply").args(flags).arg(&mistake.path);
        // Below the repository's own folder git would look for the files there.
        let ceiling = self.tree.parent().unwrap_or(&self.tree);
        apply.current_dir(&self.tree).env("GIT_CEILING_DIRECTORIES", ceiling);
        let status = apply.status().context("cannot start git")?;
        if !status.success() {
            bail!("`git apply {}` ended with {status}", flags.join(" "));
        }
        Ok(())
    }

    /// Whether what a command runs compiles: a tree that does not proves nothing.
    fn builds(&self, command: &[String]) -> Result<bool> {
        let before: Vec<String> =
            command.iter().take_while(|word| *word != "--").cloned().collect();
        let build = match before.first().map(String::as_str) {
            Some("run") => [vec!["build".to_owned()], before[1..].to_vec()].concat(),
            Some("test") => [before, vec!["--no-run".to_owned()]].concat(),
            _ => bail!("the command of a mistake is `cargo run` or `cargo test`"),
        };
        self.passes(&build)
    }

    /// Runs cargo on the copy; gives whether it passed.
    fn passes(&self, arguments: &[String]) -> Result<bool> {
        let mut cargo = self.cargo();
        cargo.args(PROFILE.iter().flat_map(|setting| ["--config", setting])).args(arguments);
        let output = cargo.output().context("cannot start cargo")?;
        Ok(output.status.success())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(text: &str) -> Result<Mistake> {
        read(PathBuf::from("crates/sim/planted/some-mistake.patch"), text)
    }

    #[test]
    fn a_mistake_names_the_command_that_finds_it() {
        let read = mistake(
            "It is wrong.\nRed: cargo run -p sim -- --seeds 9\n\n+++ b/crates/a/src/b.rs\n",
        );
        let read = read.expect("reads");
        assert_eq!((read.name.as_str(), read.sentence.as_str()), ("some-mistake", "It is wrong."));
        assert_eq!(read.command, ["run", "-p", "sim", "--", "--seeds", "9"]);
    }

    #[test]
    fn a_mistake_without_a_sentence_or_a_command_or_in_a_test_is_refused() {
        for wrong in [
            "",
            "It is wrong.\n+++ b/crates/a/src/b.rs\n",
            "no sentence\nRed: cargo test\n",
            "It is wrong.\nRed: sh -c true\n",
            "It is wrong.\nRed: cargo test\n+++ b/crates/a/tests/it/b.rs\n",
            "It is wrong.\nRed: cargo test\n+++ b/crates/a/src/b/tests.rs\n",
        ] {
            assert!(mistake(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn parts_hold_every_mistake_once() {
        let part = |text: &str| text.parse::<Fraction>();
        let of_ten = |text| part(text).unwrap().of((0..10).collect::<Vec<u32>>());
        let parts = ["1/4", "2/4", "3/4", "4/4"].map(of_ten);
        assert_eq!(parts.concat(), (0..10).collect::<Vec<u32>>());
        assert!(parts.iter().all(|part| part.len() <= 3));
        for wrong in ["", "1", "0/4", "5/4", "1/0", "a/b"] {
            assert!(part(wrong).is_err(), "{wrong}");
        }
    }

    /// Whoever changes a patched line makes the mistake anew in the same commit.
    #[test]
    fn every_patch_applies_to_the_tree() {
        let root = tools::repository_root().expect("a repository");
        for mistake in all(&root.join(PATCHES)).expect("every file reads") {
            let mut apply = Command::new("git");
            apply.args(["apply", "--check"]).arg(&mistake.path).current_dir(&root);
            let said = apply.output().expect("git");
            let error = String::from_utf8_lossy(&said.stderr);
            assert!(said.status.success(), "{}: {error}", mistake.name);
        }
    }

    #[test]
    fn the_mistakes_are_many_and_most_are_found_by_the_simulation() {
        let root = tools::repository_root().expect("a repository");
        let mistakes = all(&root.join(PATCHES)).expect("every file reads");
        let by_simulation = mistakes.iter().filter(|one| one.command.contains(&"sim".to_owned()));
        assert!(mistakes.len() >= 30, "{}", mistakes.len());
        assert!(by_simulation.count() >= 20);
    }
}
