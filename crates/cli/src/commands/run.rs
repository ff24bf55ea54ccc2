//! `astra run`: commands on workers, as if they ran here; and runs of workflows, once they are started.
//!
//! This file lists the verbs. [`submit`] makes tasks of a command (with [`glob`] for files), [`follow`]
//! stays with one task and [`progress`] with many, [`run_output`] is what they write. [`selector`] finds
//! a run again, for the verbs that look ([`show`], [`diff`], [`artifacts`]) and those that change it
//! ([`change`]). [`usage_hint`] explains a command line that forgot its dashes.

mod artifacts;
mod change;
mod diff;
mod follow;
mod glob;
mod progress;
mod run_output;
mod selector;
mod show;
mod submit;
mod usage_hint;

pub(crate) use selector::{node, numbered_run, workflow_run};
pub(crate) use usage_hint::usage_hint;

use submit::RunFlags;

use crate::context::Context;
use crate::duration::Span;
use crate::failure::{ExitCode, Failure, Result};

/// Run a command on a worker as if it ran here; list, follow and stop runs.
#[derive(Debug, clap::Args)]
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
    /// List runs, newest first.
    List {
        /// Show at most this many.
        #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
        limit: usize,
    },
    /// Show a run: its nodes, its task, or the number of its tasks in each state.
    Show {
        /// The run: its name or number, the first letters of its name or id, `last` or `last~1`.
        run: String,
    },
    Follow(follow::FollowArguments),
    /// Print the output of a run so far.
    Logs {
        /// The run: its name or number, the first letters of its name or id, `last` or `last~1`.
        run: String,
        /// Only this item of a run of many (what it is, or its number), or this node of a workflow.
        #[arg(value_name = "ITEM|NODE")]
        item: Option<String>,
    },
    /// Wait for the end of runs, without their output; exit 1 unless all succeeded.
    Wait {
        /// The runs: names or numbers, first letters of names or ids, `last` or `last~1`.
        #[arg(required = true, value_name = "RUN")]
        runs: Vec<String>,
        /// Give up waiting after this time, with exit code 124.
        #[arg(long, value_name = "DURATION")]
        timeout: Option<Span>,
    },
    /// Stop runs: queued tasks do not start, and running tasks are told to stop.
    Stop {
        /// The runs: names or numbers, first letters of names or ids, `last` or `last~1`.
        #[arg(required = true, value_name = "RUN")]
        runs: Vec<String>,
    },
    Retry(change::RetryArguments),
    /// Compare two runs of a workflow: inputs, outputs, and each node's end, time and result.
    Diff {
        /// The first run: its number, its id, the first letters of it, `last` or `last~1`.
        a: String,
        /// The other run.
        b: String,
    },
    Signal(change::SignalArguments),
    Rebind(change::RebindArguments),
    Artifacts(artifacts::ArtifactsArguments),
}

pub(crate) async fn run(arguments: Arguments, context: &Context) -> Result<ExitCode> {
    let Arguments { verb, flags, argv } = arguments;
    let has_flags = *flags != RunFlags::default();
    match verb {
        None if argv.is_empty() => Err(Failure::usage(
            "there is no command to run",
            "write it after two dashes: `astra run -- echo hello`",
        )),
        None => submit::start(*flags, argv, context).await,
        Some(_) if has_flags => Err(Failure::usage(
            "these flags apply only to `astra run -- COMMAND`",
            "leave them out, or write the command after two dashes: `astra run FLAGS -- COMMAND`",
        )),
        Some(Verb::List { limit }) => show::list(limit, context).await,
        Some(Verb::Show { run }) => show::show(&run, context).await,
        Some(Verb::Follow(arguments)) => follow::follow(&arguments, context).await,
        Some(Verb::Logs { run, item }) => show::logs(&run, item.as_deref(), context).await,
        Some(Verb::Wait { runs, timeout }) => follow::wait(&runs, timeout, context).await,
        Some(Verb::Stop { runs }) => change::stop(&runs, context).await,
        Some(Verb::Retry(arguments)) => change::retry(&arguments, context).await,
        Some(Verb::Diff { a, b }) => diff::diff(&a, &b, context).await,
        Some(Verb::Signal(arguments)) => change::signal(&arguments, context).await,
        Some(Verb::Rebind(arguments)) => change::rebind(&arguments, context).await,
        Some(Verb::Artifacts(arguments)) => artifacts::artifacts(&arguments, context).await,
    }
}
