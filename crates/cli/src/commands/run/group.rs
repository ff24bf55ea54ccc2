//! The verbs of `astra run`, and the command without one.

use super::flags::RunFlags;
use super::{artifacts, diff, follow, list, logs, rebind, retry, show, signal, start, stop, wait};
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};

const EXAMPLES: &str = "\
Examples:
  astra run -- make test
  astra run --on gpu=true --timeout 1h --env MODEL=small -- python3 train.py
  astra run --each 'photos/*.jpg' --max-parallel 8 -- convert {} -resize 256 thumbs/{name}
";

/// Run a command on a worker, as if it ran here; look at runs, follow them, stop them.
#[derive(Debug, clap::Args)]
#[command(before_help = EXAMPLES)]
#[command(override_usage = "astra run [FLAGS] -- COMMAND [ARGUMENT]...\n       \
                            astra run list|show|follow|logs|wait|stop|retry|diff|signal|rebind|artifacts ...")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    flags: Box<RunFlags>,
    /// The command and its arguments, after `--`. No shell is involved.
    #[arg(last = true, value_name = "COMMAND")]
    argv: Vec<String>,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    List(list::Arguments),
    Show(show::Arguments),
    Follow(follow::Arguments),
    Logs(logs::Arguments),
    Wait(wait::Arguments),
    Stop(stop::Arguments),
    Retry(retry::Arguments),
    Diff(diff::Arguments),
    Signal(signal::Arguments),
    Rebind(rebind::Arguments),
    Artifacts(artifacts::Arguments),
}

pub(crate) async fn run(arguments: Arguments, context: &Context) -> Result<ExitCode> {
    let Arguments { verb, flags, argv } = arguments;
    let has_flags = *flags != RunFlags::default();
    match verb {
        None if argv.is_empty() => Err(Failure::usage(
            "there is no command to run",
            "write it after two dashes: `astra run -- echo hello`",
        )),
        None => start::run(*flags, argv, context).await,
        Some(_) if has_flags => Err(Failure::usage(
            "flags of a run stand before a verb that starts none",
            "leave them out, or write the command after two dashes: `astra run FLAGS -- COMMAND`",
        )),
        Some(Verb::List(arguments)) => list::run(&arguments, context).await,
        Some(Verb::Show(arguments)) => show::run(&arguments, context).await,
        Some(Verb::Follow(arguments)) => follow::run(&arguments, context).await,
        Some(Verb::Logs(arguments)) => logs::run(&arguments, context).await,
        Some(Verb::Wait(arguments)) => wait::run(&arguments, context).await,
        Some(Verb::Stop(arguments)) => stop::run(&arguments, context).await,
        Some(Verb::Retry(arguments)) => retry::run(&arguments, context).await,
        Some(Verb::Diff(arguments)) => diff::run(&arguments, context).await,
        Some(Verb::Signal(arguments)) => signal::run(&arguments, context).await,
        Some(Verb::Rebind(arguments)) => rebind::run(&arguments, context).await,
        Some(Verb::Artifacts(arguments)) => artifacts::run(&arguments, context).await,
    }
}
