//! `cargo xtask chaos`, `faults` and `bench`: real processes that are killed, cut off or measured.

use std::process::Command;

use anyhow::Result;

use crate::tools;

/// Every flag belongs to crate `harness`, which has its own parser and its own `--help`.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

impl Options {
    pub(crate) fn run(&self, command: &str) -> Result<()> {
        run(command, &self.arguments)
    }
}

/// Runs `harness <command>`, with `astra` built beside it.
pub(crate) fn run<S: AsRef<str>>(command: &str, arguments: &[S]) -> Result<()> {
    let harness = tools::built("harness")?;
    tools::run(Command::new(harness).arg(command).args(arguments.iter().map(AsRef::as_ref)))
}
