//! `astra demo`.

use crate::demo::{self, Tally};
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::output::{self, Output, Show};
use crate::words;

const EXAMPLES: &str = "\
Examples:
  astra demo
  astra demo --tasks 10000
  astra demo -o json
";

/// Watch tasks survive: one server, three workers, and an accident for each of them.
///
/// Starts everything in a temporary folder, kills a worker and the server half-way (SIGKILL),
/// freezes another worker, and counts. Exit code 0 only if nothing was lost or counted twice.
#[derive(Debug, clap::Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// How many tasks.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    tasks: u32,
}

pub(crate) async fn run(arguments: Arguments, output: Output) -> Result<ExitCode> {
    let tally = demo::play(arguments.tasks as usize, output).await?;
    output.show(&tally);
    if tally.lost == 0 && tally.double == 0 {
        output.note("Nothing was lost and nothing counted twice. Next: astra dev");
        Ok(ExitCode::Success)
    } else {
        Ok(ExitCode::Failed)
    }
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
