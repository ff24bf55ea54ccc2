//! `astra queue`.

use std::time::Duration;

use protocol::rest::queues::Queues;

use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::output::{self, Show};
use crate::words;

const EXAMPLES: &str = "\
Examples:
  astra queue list
  astra queue list -o json
";

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List queues: how many tasks stand where, and for how long.
    #[command(before_help = EXAMPLES)]
    List,
}

pub(crate) async fn run(command: Command, context: &Context) -> Result<ExitCode> {
    let Command::List = command;
    let queues: Queues = context.ask(context.client.get("/api/v1/queues")).await?;
    context.output.show(&queues);
    Ok(ExitCode::Success)
}

impl Show for Queues {
    fn text(&self) -> String {
        if self.queues.is_empty() {
            return "no queue holds a task".into();
        }
        let rows = self.queues.iter().map(|queue| {
            let oldest = queue.oldest_age_ms.map(|ms| words::span(Duration::from_millis(ms)));
            [
                queue.queue.clone(),
                queue.depth.to_string(),
                oldest.unwrap_or_else(|| "-".into()),
                queue.in_flight.to_string(),
                queue.retries_due.to_string(),
                queue.scheduled.to_string(),
                queue.dead.to_string(),
            ]
        });
        let header = ["QUEUE", "QUEUED", "OLDEST", "RUNNING", "RETRYING", "WAITING", "DEAD"];
        output::table(header, rows.collect())
    }

    fn quiet(&self) -> String {
        let names: Vec<_> = self.queues.iter().map(|queue| queue.queue.as_str()).collect();
        names.join("\n")
    }

    fn json_lines(&self) -> Vec<String> {
        self.queues.iter().map(output::json).collect()
    }
}
