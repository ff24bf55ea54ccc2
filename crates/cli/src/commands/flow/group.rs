//! The verbs of `astra flow`.

use super::{diff, list, new, run as start, save, show, validate, versions};
use crate::config::{self, Flags, ServerFlags};
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::output::Output;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Run(start::Arguments),
    Validate(validate::Arguments),
    Show(show::Arguments),
    New(new::Arguments),
    Import(save::ImportArguments),
    Export(save::ExportArguments),
    List(list::Arguments),
    Versions(versions::Arguments),
    Diff(diff::Arguments),
    Rollback(versions::RollbackArguments),
    Rm(save::RmArguments),
}

impl Command {
    /// A run outlives the first Ctrl-C.
    pub(crate) fn outlives_interruption(&self) -> bool {
        matches!(self, Self::Run(_))
    }
}

pub(crate) async fn run(command: Command, flags: &Flags, output: Output) -> Result<ExitCode> {
    let context = || Context::new(&config::load(flags, ServerFlags::default())?, output);
    match command {
        // What needs no server works without one.
        Command::Validate(arguments) => validate::run(&arguments, context, output).await,
        Command::Show(arguments) => show::run(&arguments, context, output).await,
        Command::New(arguments) => new::run(&arguments, output),
        Command::Run(arguments) => start::run(&arguments, &context()?).await,
        Command::Import(arguments) => save::import(&arguments, &context()?).await,
        Command::Export(arguments) => save::export(&arguments, &context()?).await,
        Command::List(arguments) => list::run(&arguments, &context()?).await,
        Command::Versions(arguments) => versions::run(&arguments, &context()?).await,
        Command::Diff(arguments) => diff::run(&arguments, &context()?).await,
        Command::Rollback(arguments) => versions::rollback(&arguments, &context()?).await,
        Command::Rm(arguments) => save::rm(&arguments, &context()?).await,
    }
}
