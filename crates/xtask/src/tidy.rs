//! `cargo xtask tidy`: repository rules that the compiler does not check.
//!
//! Reading order: `finding.rs` names the rules; `repository.rs` reads the tree into memory;
//! `crate::rust_file` makes tokens and items of a Rust file; each other file holds the checks of one
//! subject. What clippy can check is set in `clippy.toml` and the workspace's lints.

mod dependencies;
mod doors;
mod finding;
mod glossary;
mod layout;
mod links;
mod locks;
mod purity;
mod repository;
mod requirements;
mod size;
mod sleeps;
#[cfg(test)]
mod tests;
mod text;

use anyhow::{Result, bail};

use self::finding::Finding;
use self::repository::Repository;
use crate::rust_file::{RustFile, mark_declared_tests};
use crate::tools;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// List what is allowed but worth a second look: long files.
    #[arg(long)]
    pub(crate) look: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let repository = Repository::read(&tools::repository_root()?)?;
    let files = rust_files(&repository)?;

    let findings = check(&repository, &files);
    for finding in &findings {
        eprintln!("{finding}");
    }
    for look in files.iter().filter_map(size::second_look).filter(|_| options.look) {
        println!("look again: {look}");
    }
    match findings.len() {
        0 => println!("tidy: {} files, no findings", repository.texts.len()),
        1 => bail!("tidy has one finding, listed above"),
        n => bail!("tidy has {n} findings, listed above"),
    }
    Ok(())
}

/// Every Rust file, knowing whether it is test code.
fn rust_files(repository: &Repository) -> Result<Vec<RustFile>> {
    let rust = repository.texts.iter().filter(|file| file.has_extension("rs"));
    let files: Result<Vec<_>> = rust.map(|file| RustFile::read(&file.path, &file.text)).collect();
    let mut files = files?;
    mark_declared_tests(&mut files);
    Ok(files)
}

fn check(repository: &Repository, files: &[RustFile]) -> Vec<Finding> {
    let mut findings = dependencies::check(&repository.packages);
    findings.extend(links::check(repository));
    findings.extend(locks::check(repository, files));
    findings.extend(purity::check(repository));
    findings.extend(requirements::check(repository, files));
    findings.extend(glossary::check(repository, files));
    for text in &repository.texts {
        findings.extend(text::check(text));
        findings.extend(sleeps::check_python(text));
    }
    let rust = repository.texts.iter().filter(|file| file.has_extension("rs"));
    for (file, text) in files.iter().zip(rust) {
        findings.extend(size::check(file));
        findings.extend(layout::check(file, &text.text));
        findings.extend(doors::check(file));
        findings.extend(sleeps::check(file));
    }
    findings.sort();
    findings
}
