//! `astra explain`.

use std::time::Duration;

use protocol::rest::tasks::Explanation;

use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::output::{self, Show};
use crate::{selector, words};

const EXAMPLES: &str = "\
Examples:
  astra explain last
  astra explain 3f2a91bc
  astra explain last -o json
";

/// Say why a task is where it is: what it waits for, who holds it, how it ended.
#[derive(Debug, clap::Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The task: its id, the first letters of it, or `last`.
    task: String,
}

pub(crate) async fn run(arguments: Arguments, context: &Context) -> Result<ExitCode> {
    let id = selector::task(context, &arguments.task).await?;
    let path = format!("/api/v1/tasks/{id}/explain");
    let explanation: Explanation = context.ask(context.client.get(&path)).await?;
    context.output.show(&explanation);
    Ok(ExitCode::Success)
}

impl Show for Explanation {
    fn text(&self) -> String {
        let state = output::styled(words::style(self.state), words::state(self.state));
        let age = words::span(Duration::from_millis(self.age_ms));
        let mut text = format!("task {} · {state} · submitted {age} ago", self.task_id);
        if self.attempt > 0 {
            words::push(&mut text, format_args!(" · attempt {}", self.attempt));
        }
        // The headline has the state already, and the summary most of the first reason.
        let prefix = format!("{}: ", self.state.word());
        let summary = self.summary.strip_prefix(&prefix).unwrap_or(&self.summary);
        words::push(&mut text, format_args!("\n\n  {summary}\n"));
        for reason in self.reasons.iter().filter(|reason| !summary.contains(&reason.message)) {
            words::push(&mut text, format_args!("  · {}\n", reason.message));
        }
        for hint in self.reasons.iter().filter_map(|reason| reason.hint.as_ref()) {
            words::push(&mut text, format_args!("  → {hint}\n"));
        }
        text
    }

    fn quiet(&self) -> String {
        self.reasons.first().map_or_else(String::new, |reason| reason.code.clone())
    }
}
