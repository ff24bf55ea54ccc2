//! The verbs of `astra task`.

use super::{change, list, show, submit};
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::Result;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Submit(Box<submit::Arguments>),
    Show(show::Arguments),
    List(list::Arguments),
    Cancel(change::CancelArguments),
    Requeue(change::RequeueArguments),
}

pub(crate) async fn run(command: Command, context: &Context) -> Result<ExitCode> {
    match command {
        Command::Submit(arguments) => submit::run(*arguments, context).await,
        Command::Show(arguments) => show::run(arguments, context).await,
        Command::List(arguments) => list::run(arguments, context).await,
        Command::Cancel(arguments) => change::cancel(arguments, context).await,
        Command::Requeue(arguments) => change::requeue(arguments, context).await,
    }
}
