//! `astra demo`.

use protocol::rest::runs::{Run, RunStatus};

use crate::demo::{self, Played, Tally};
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::output::{self, Output, Show};
use crate::words;
use crate::workflow_run::Picture;

const EXAMPLES: &str = "\
Examples:
  astra demo
  astra demo --tasks 10000
  astra demo -o json
";

/// Watch tasks survive: one server, three workers, and an accident for each of them.
///
/// Starts everything in a temporary folder, kills a worker and the server half-way (SIGKILL),
/// freezes another worker, and counts. A small workflow comes last. Exit code 0 only if nothing was
/// lost or counted twice.
#[derive(Debug, clap::Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// How many tasks.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    tasks: u32,
}

pub(crate) async fn run(arguments: Arguments, output: Output) -> Result<ExitCode> {
    let Played { tally, run } = demo::play(arguments.tasks as usize, output).await?;
    output.show(&tally);
    show_workflow(&run, output);
    if tally.lost == 0 && tally.double == 0 && run.status == RunStatus::Succeeded {
        output.note("Nothing was lost and nothing counted twice. Next: astra dev");
        Ok(ExitCode::Success)
    } else {
        Ok(ExitCode::Failed)
    }
}

/// The workflow at the end: its nodes, as `astra flow run` shows them.
fn show_workflow(run: &Run, output: Output) {
    output.note(format!("\nA workflow on the same server: run {}, {}.\n", run.number, run.name));
    let nodes = run.nodes.as_deref().unwrap_or_default();
    for line in Picture::of(nodes, words::now()).lines(nodes.len()) {
        output.note(line);
    }
    output.note("");
}

impl Show for Tally {
    fn text(&self) -> String {
        let row = |number: usize, meaning: &str| {
            format!("{:>7}  {meaning}", words::thousands(number as u64))
        };
        let rows = [
            ("submitted", row(self.submitted, "")),
            ("committed", row(self.committed, "results that count, one per task")),
            ("superseded", row(self.superseded, "late results that were refused")),
            ("lost", row(self.lost, "")),
            ("double", row(self.double, "")),
            ("seconds", format!("{:>7.1}", self.seconds)),
        ];
        format!("\n{}", output::facts(&rows.map(|(name, value)| (name, value.trim_end().into()))))
    }

    fn quiet(&self) -> String {
        self.committed.to_string()
    }
}
