//! `cargo xtask sim`: the real coordinator under every fault, from one seed.

use std::process::Command;

use anyhow::Result;

use crate::tools;

/// Every flag belongs to the simulation, which has its own parser and its own `--help`.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    simulate(&options.arguments)
}

pub(crate) fn simulate<S: AsRef<str>>(arguments: &[S]) -> Result<()> {
    let sim = tools::built("sim")?;
    tools::run(Command::new(sim).args(arguments.iter().map(AsRef::as_ref)))
}
