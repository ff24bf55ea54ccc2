//! `astra queue`: how many tasks stand where, and what can be done to all of them.

use std::time::Duration;

use protocol::rest::queues::{Queue, Queues};

use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::output::{self, Show};
use crate::words;

mod change;
mod tasks;

const LIST_EXAMPLES: &str = "\
Examples:
  astra queue list
  astra queue list -o json
";
const SHOW_EXAMPLES: &str = "\
Examples:
  astra queue show nightly
  astra queue show nightly -o json
";

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List queues: how many tasks stand where, and for how long.
    #[command(before_help = LIST_EXAMPLES)]
    List,
    /// Show one queue.
    #[command(before_help = SHOW_EXAMPLES)]
    Show {
        /// Which one.
        queue: String,
    },
    Peek(tasks::PeekArguments),
    Dead(tasks::DeadArguments),
    Pause(change::PauseArguments),
    Resume(change::ResumeArguments),
    Requeue(change::RequeueArguments),
    Purge(change::PurgeArguments),
}

pub(crate) async fn run(command: Command, context: &Context) -> Result<ExitCode> {
    match command {
        Command::List => {
            let queues: Queues = context.ask(context.client.get("/api/v1/queues")).await?;
            context.output.show(&queues);
        }
        Command::Show { queue } => context.output.show(&look(&queue, context).await?),
        Command::Peek(arguments) => tasks::peek(&arguments, context).await?,
        Command::Dead(arguments) => tasks::dead(&arguments, context).await?,
        Command::Pause(arguments) => change::pause(&arguments, context).await?,
        Command::Resume(arguments) => change::resume(&arguments, context).await?,
        Command::Requeue(arguments) => change::requeue(&arguments, context).await?,
        Command::Purge(arguments) => change::purge(&arguments, context).await?,
    }
    Ok(ExitCode::Success)
}

/// One queue; a name that nobody uses is an empty one.
async fn look(name: &str, context: &Context) -> Result<Queue> {
    let queues: Queues = context.ask(context.client.get("/api/v1/queues")).await?;
    let found = queues.queues.into_iter().find(|queue| queue.queue == name);
    Ok(found.unwrap_or_else(|| Queue {
        queue: name.into(),
        depth: 0,
        oldest_age_ms: None,
        in_flight: 0,
        retries_due: 0,
        scheduled: 0,
        blocked: 0,
        dead: 0,
        paused: None,
    }))
}

fn path(queue: &str, verb: &str) -> String {
    format!("/api/v1/queues/{}/{verb}", words::percent_encoded(queue))
}

fn oldest(queue: &Queue) -> String {
    let oldest = queue.oldest_age_ms.map(|ms| words::span(Duration::from_millis(ms)));
    oldest.unwrap_or_else(|| "-".into())
}

impl Show for Queue {
    fn text(&self) -> String {
        let mut rows = vec![
            ("queued", words::thousands(self.depth)),
            ("oldest", oldest(self)),
            ("running", words::thousands(self.in_flight)),
            ("retrying", words::thousands(self.retries_due)),
            ("waiting", words::thousands(self.scheduled)),
            ("dead", words::thousands(self.dead)),
        ];
        if let Some(paused) = &self.paused {
            let ago = words::ago(&paused.since);
            rows.push(("paused", format!("by {} since {} ({ago})", paused.by, paused.since)));
        }
        format!("{}\n{}", self.queue, output::facts(&rows))
    }

    fn quiet(&self) -> String {
        self.depth.to_string()
    }
}

impl Show for Queues {
    fn text(&self) -> String {
        if self.queues.is_empty() {
            return "no queue holds a task".into();
        }
        let rows = self.queues.iter().map(|queue| {
            let paused = queue.paused.as_ref().map(|pause| format!("by {}", pause.by));
            [
                queue.queue.clone(),
                queue.depth.to_string(),
                oldest(queue),
                queue.in_flight.to_string(),
                queue.retries_due.to_string(),
                queue.scheduled.to_string(),
                queue.dead.to_string(),
                paused.unwrap_or_else(|| "-".into()),
            ]
        });
        let header =
            ["QUEUE", "QUEUED", "OLDEST", "RUNNING", "RETRYING", "WAITING", "DEAD", "PAUSED"];
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
