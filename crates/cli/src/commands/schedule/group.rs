//! The verbs of `astra schedule`.

use protocol::rest::schedules::SchedulePage;

use super::{change, create, selector};
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::Result;

const LIST_EXAMPLES: &str = "\
Examples:
  astra schedule list
  astra schedule list -o json
  astra schedule list -o quiet                ids alone
";
const SHOW_EXAMPLES: &str = "\
Examples:
  astra schedule show nightly                 when it is due next, and what came of the last time
  astra schedule show 7f3k
  astra schedule show nightly -o json
";

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List schedules.
    #[command(before_help = LIST_EXAMPLES)]
    List,
    Create(create::Arguments),
    /// Show a schedule.
    #[command(before_help = SHOW_EXAMPLES)]
    Show {
        /// Its name, its id or the first letters of it.
        schedule: String,
    },
    Pause(change::PauseArguments),
    Resume(change::ResumeArguments),
    Run(change::RunArguments),
    Backfill(change::BackfillArguments),
    Rm(change::RmArguments),
}

impl Command {
    /// A run outlives the first Ctrl-C.
    pub(crate) fn outlives_interruption(&self) -> bool {
        matches!(self, Self::Run(_))
    }
}

pub(crate) async fn run(command: Command, context: &Context) -> Result<ExitCode> {
    match command {
        Command::List => {
            let page: SchedulePage = context.ask(context.client.get("/api/v1/schedules")).await?;
            context.output.show(&page);
            Ok(ExitCode::Success)
        }
        Command::Show { schedule } => {
            context.output.show(&selector::schedule(context, &schedule).await?);
            Ok(ExitCode::Success)
        }
        Command::Create(arguments) => create::run(arguments, context).await,
        Command::Pause(arguments) => change::pause(&arguments, context).await,
        Command::Resume(arguments) => change::resume(&arguments, context).await,
        Command::Run(arguments) => change::run(&arguments, context).await,
        Command::Backfill(arguments) => change::backfill(&arguments, context).await,
        Command::Rm(arguments) => change::rm(&arguments, context).await,
    }
}
