//! The copy that holds all mutants: written, checked until it compiles, and built once.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::draw::{Draw, Mutant};
use super::judge::Trial;
use super::schemata::{self, Placed};
use crate::copy::Copy;

/// A change of types shows before a change of borrows, and a crate before those that use it.
const ROUNDS_MAX: usize = 25;
const PACKAGES: [&str; 4] = ["flow", "coordinator", "protocol", "shard"];
/// Seeds of the simulation that a survivor has to pass.
const SIMULATIONS: [(&str, &[&str]); 2] = [
    ("sim/tasks", &["--seeds", "60", "--threads", "1", "--stop-early"]),
    ("sim/flows", &["flows", "--seeds", "200", "--threads", "1", "--stop-early"]),
];

/// The copy, and where in it each mutant stands.
pub(crate) struct Schemata<'d> {
    root: &'d Path,
    draw: &'d Draw,
    copy: Copy,
    placed: BTreeMap<String, Vec<Placed>>,
}

impl<'d> Schemata<'d> {
    pub(crate) fn new(root: &'d Path, draw: &'d Draw) -> Result<Self> {
        Ok(Self { root, draw, copy: Copy::at("mutants")?, placed: BTreeMap::new() })
    }

    /// Drops mutants until the others compile; gives those, and adds to `dropped`.
    pub(crate) fn settle(
        &mut self,
        count: usize,
        dropped: &mut BTreeSet<u32>,
    ) -> Result<Vec<Mutant>> {
        for round in 1..=ROUNDS_MAX {
            let mutants = self.draw.first(count, dropped);
            self.write(&mutants)?;
            let errors = self.check()?;
            if errors.is_empty() {
                return Ok(mutants);
            }
            let blamed = self.blamed(&errors)?;
            println!("mutants: round {round}, {} do not compile", blamed.len());
            dropped.extend(blamed);
        }
        bail!("after {ROUNDS_MAX} rounds some mutants still do not compile");
    }

    fn write(&mut self, mutants: &[Mutant]) -> Result<()> {
        let mut by_file: BTreeMap<&str, Vec<(u32, &super::sites::Site)>> = BTreeMap::new();
        for mutant in mutants {
            by_file.entry(&mutant.file).or_default().push((mutant.id, &mutant.site));
        }
        let mut written = BTreeMap::new();
        self.placed.clear();
        for (file, here) in by_file {
            let (text, placed) = schemata::write(&self.draw.texts[file], &here);
            written.insert(file.to_owned(), text);
            self.placed.insert(file.to_owned(), placed);
        }
        let mut added = Vec::new();
        for package in PACKAGES {
            let library = format!("crates/{package}/src/lib.rs");
            let path = self.root.join(&library);
            let text =
                written.remove(&library).map_or_else(|| std::fs::read_to_string(path), Ok)?;
            written.insert(library, text + "\nmod mutant;\n");
            let switch = format!("crates/{package}/src/mutant.rs");
            written.insert(switch.clone(), schemata::SWITCH.to_owned());
            added.push(switch);
        }
        let added: Vec<&str> = added.iter().map(String::as_str).collect();
        self.copy.write(self.root, &added, |name| written.get(name).map(String::as_str))
    }

    fn cargo(&self, words: &[&str]) -> Command {
        let mut cargo = self.copy.cargo();
        cargo.args(words).args(["--release", "--message-format", "json"]);
        // Code with switches is full of what the lints dislike, and nobody debugs it by line.
        cargo.env("RUSTFLAGS", "--cap-lints=allow");
        cargo.args(["--config", "profile.release.debug=false"]);
        for package in PACKAGES {
            cargo.args(["-p", package]);
        }
        cargo
    }

    fn check(&self) -> Result<Vec<CompilerMessage>> {
        let mut check = self.cargo(&["check", "--lib", "--keep-going"]);
        let output = check.output().context("cannot start cargo")?;
        let errors = errors_of(&output.stdout);
        if errors.is_empty() && !output.status.success() {
            bail!("`cargo check` ended with {}: {}", output.status, said(&output.stderr));
        }
        Ok(errors)
    }

    fn blamed(&self, errors: &[CompilerMessage]) -> Result<BTreeSet<u32>> {
        let mut blamed = BTreeSet::new();
        let mut unexplained = None;
        for error in errors {
            let about = self.blamed_for(error);
            if about.is_empty() && !error.spans.is_empty() {
                unexplained.clone_from(&error.rendered);
            }
            blamed.extend(about);
        }
        match unexplained {
            Some(text) if blamed.is_empty() => bail!("no mutant explains this error:\n{text}"),
            _ => Ok(blamed),
        }
    }

    /// What the error points at counts more than what it only mentions.
    fn blamed_for(&self, error: &CompilerMessage) -> Vec<u32> {
        let about = |is_primary: bool| {
            let spans = error.spans.iter().filter(move |span| span.is_primary == is_primary);
            let blamed = spans.flat_map(|span| {
                let placed = self.placed.get(&span.file_name).map_or(&[][..], Vec::as_slice);
                schemata::blamed(placed, &span.bytes())
            });
            blamed.collect::<Vec<u32>>()
        };
        let pointed = about(true);
        if pointed.is_empty() { about(false) } else { pointed }
    }

    /// Builds every test binary and the simulation; gives what a mutant has to pass.
    pub(crate) fn build(&self) -> Result<Vec<Trial>> {
        let mut build = self.cargo(&["test", "--no-run", "-p", "sim", "--lib", "--bins"]);
        let output = build.arg("--tests").output().context("cannot start cargo")?;
        if !output.status.success() {
            bail!("`cargo test --no-run` ended with {}: {}", output.status, said(&output.stderr));
        }
        let artifacts = messages(&output.stdout).filter_map(CargoMessage::artifact);
        Ok(artifacts.flat_map(|artifact| artifact.trials()).collect())
    }
}

/// A line of what cargo says with `--message-format json`, as far as it matters here.
#[derive(Deserialize)]
struct CargoMessage {
    message: Option<CompilerMessage>,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct CompilerMessage {
    level: String,
    spans: Vec<Span>,
    rendered: Option<String>,
}

#[derive(Deserialize)]
struct Span {
    file_name: String,
    byte_start: usize,
    byte_end: usize,
    is_primary: bool,
}

impl Span {
    fn bytes(&self) -> Range<usize> {
        self.byte_start..self.byte_end
    }
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// A program that cargo has built.
struct Artifact {
    package: String,
    folder: PathBuf,
    target: Target,
    is_test: bool,
    program: PathBuf,
}

impl CargoMessage {
    fn artifact(self) -> Option<Artifact> {
        let folder = self.manifest_path?.parent()?.to_owned();
        Some(Artifact {
            package: folder.file_name()?.to_string_lossy().into_owned(),
            folder,
            target: self.target?,
            is_test: self.profile?.test,
            program: self.executable?,
        })
    }
}

impl Artifact {
    fn trials(&self) -> Vec<Trial> {
        let trial = |name: String, arguments: &[&str]| Trial {
            name,
            package: self.package.clone(),
            program: self.program.clone(),
            arguments: arguments.iter().map(|&word| word.to_owned()).collect(),
            folder: self.folder.clone(),
            green: Duration::ZERO,
        };
        match (self.package.as_str(), self.is_test) {
            // The simulation's own tests say nothing about what it simulates.
            ("sim", true) => Vec::new(),
            ("sim", false) => SIMULATIONS.map(|(name, words)| trial(name.to_owned(), words)).into(),
            (package, true) if PACKAGES.contains(&package) => {
                let is_library = self.target.kind.iter().any(|kind| kind == "lib");
                let target = if is_library { "lib" } else { &self.target.name };
                vec![trial(format!("{package}/{target}"), &[])]
            }
            _ => Vec::new(),
        }
    }
}

fn messages(stdout: &[u8]) -> impl Iterator<Item = CargoMessage> {
    let lines = stdout.split(|byte| *byte == b'\n');
    lines.filter_map(|line| serde_json::from_slice::<CargoMessage>(line).ok())
}

fn errors_of(stdout: &[u8]) -> Vec<CompilerMessage> {
    let said = messages(stdout).filter_map(|line| line.message);
    said.filter(|message| message.level.starts_with("error")).collect()
}

/// The last lines of what a program said.
fn said(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_compiler_are_read_with_their_places() {
        let line = br#"{"reason":"compiler-message","message":{"level":"error","rendered":"no","spans":[{"file_name":"crates/flow/src/a.rs","byte_start":3,"byte_end":9,"is_primary":true}]}}
{"reason":"compiler-message","message":{"level":"warning","rendered":"hm","spans":[]}}
not JSON
"#;
        let errors = errors_of(line);
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].spans[0].bytes(), 3..9);
    }

    #[test]
    fn programs_become_trials_but_the_tests_of_the_simulation_do_not() {
        let artifact = |package: &str, kind: &str, is_test: bool| Artifact {
            package: package.to_owned(),
            folder: PathBuf::new(),
            target: Target { name: "it".to_owned(), kind: vec![kind.to_owned()] },
            is_test,
            program: PathBuf::new(),
        };
        let names = |artifact: Artifact| -> Vec<String> {
            artifact.trials().into_iter().map(|trial| trial.name).collect()
        };
        assert_eq!(names(artifact("flow", "lib", true)), ["flow/lib"]);
        assert_eq!(names(artifact("flow", "test", true)), ["flow/it"]);
        assert_eq!(names(artifact("sim", "bin", false)), ["sim/tasks", "sim/flows"]);
        assert_eq!(names(artifact("sim", "test", true)), [""; 0]);
    }
}
