//! `cargo xtask tidy`: repository rules that the compiler does not check.
//!
//! Reading order: `finding.rs` names the rules; `repository.rs` reads the tree into memory;
//! `lexer.rs` and `source.rs` make tokens, functions and test regions of a Rust file; each other
//! file holds the checks of one subject; `exceptions.rs` is the ratchet.
//!
//! A lexer of our own instead of a parser: tidy must work on code that does not compile yet, and
//! must never be the reason to wait for a dependency.

mod dependencies;
mod doors;
mod exceptions;
mod finding;
mod ignore;
mod layout;
mod lexer;
mod links;
mod locks;
mod nesting;
mod purity;
mod repository;
mod requirements;
mod size;
mod sleeps;
mod source;
#[cfg(test)]
mod tests;
mod text;
mod words;

use anyhow::{Result, bail};

use self::exceptions::Exceptions;
use self::finding::Finding;
use self::repository::Repository;
use self::source::Source;
use crate::tools;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// List what is allowed but worth a second look: long functions and files.
    #[arg(long)]
    pub(crate) look: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let repository = Repository::read(&tools::repository_root()?)?;
    let exceptions = Exceptions::in_repository(&repository)?;
    let sources = sources(&repository);

    let remaining = exceptions.apply(check(&repository, &sources));
    for problem in &remaining {
        eprintln!("{problem}");
    }
    report_second_looks(&sources, options.look);
    match remaining.len() {
        0 => println!("tidy: {} files, no findings", repository.texts.len()),
        1 => bail!("tidy has one finding, listed above"),
        n => bail!("tidy has {n} findings, listed above"),
    }
    Ok(())
}

/// Every Rust file, read into tokens and functions, knowing whether it is test code.
fn sources(repository: &Repository) -> Vec<Source<'_>> {
    let rust = repository.texts.iter().filter(|file| file.has_extension("rs"));
    let mut sources: Vec<_> = rust.map(|file| Source::read(&file.path, &file.text)).collect();
    source::mark_declared_tests(&mut sources);
    sources
}

fn check(repository: &Repository, sources: &[Source<'_>]) -> Vec<Finding> {
    let mut findings = dependencies::check(&repository.packages);
    findings.extend(links::check(repository));
    findings.extend(locks::check(repository, sources));
    findings.extend(purity::check(repository));
    findings.extend(requirements::check(repository));
    for file in &repository.texts {
        findings.extend(text::check(file));
        findings.extend(sleeps::check_python(file));
    }
    for source in sources {
        findings.extend(size::check(source));
        findings.extend(nesting::check(source));
        findings.extend(words::check(source));
        findings.extend(layout::check(source));
        findings.extend(doors::check(source));
        findings.extend(sleeps::check(source));
    }
    findings.sort();
    findings
}

fn report_second_looks(sources: &[Source<'_>], in_full: bool) {
    let looks: Vec<String> = sources.iter().flat_map(size::second_looks).collect();
    if in_full {
        for look in &looks {
            println!("look again: {look}");
        }
    } else if !looks.is_empty() {
        println!("tidy: worth a second look: {} (cargo xtask tidy --look)", looks.len());
    }
}
