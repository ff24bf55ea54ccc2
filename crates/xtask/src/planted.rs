//! `cargo xtask planted`: proof that the simulation bites.
//!
//! Each planted bug is a deliberate mistake behind the feature `planted`, chosen by name at run
//! time. A bug that the simulation does not find fails the chore.

use anyhow::Result;

use crate::tools;

/// Every flag belongs to the simulation, for example `--only NAME`.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut words = vec!["run", "--release", "--quiet", "--package", "sim"];
    words.extend(["--features", "planted", "--", "planted"]);
    words.extend(options.arguments.iter().map(String::as_str));
    tools::run_cargo(&words)
}
