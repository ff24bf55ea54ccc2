//! `astra task show`.

use std::time::Duration;

use protocol::rest::tasks::{EndedAttempt, Task};
use serde::Serialize;

use super::wait;
use crate::context::Context;
use crate::duration::Span;
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::output::{self, Show};
use crate::{selector, words};

const EXAMPLES: &str = "\
Examples:
  astra task show last
  astra task show 3f2a91bc --wait
  astra task show last -o json
";

/// Show a task, whole; with `--wait`, when it has come to its end.
#[derive(Debug, clap::Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The task: its id, the first letters of it, or `last`.
    task: String,
    /// Wait for the task's end; exit 1 unless it succeeded.
    #[arg(long)]
    wait: bool,
    /// Give up waiting after this time, with exit code 124.
    #[arg(long, value_name = "DURATION", requires = "wait")]
    timeout_wait: Option<Span>,
}

pub(crate) async fn run(arguments: Arguments, context: &Context) -> Result<ExitCode> {
    let id = selector::task(context, &arguments.task).await?;
    if !arguments.wait {
        let task: Task = context.ask(context.client.get(&format!("/api/v1/tasks/{id}"))).await?;
        context.output.show(&task);
        return Ok(ExitCode::Success);
    }
    let ids = [id];
    let tasks = wait::until_ended(context, &ids, arguments.timeout_wait.map(|span| span.0)).await?;
    for task in &tasks {
        context.output.show(task);
    }
    Ok(wait::exit_code(&tasks))
}

/// Several tasks, as one answer.
#[derive(Default, Serialize)]
pub(super) struct Tasks {
    pub(super) tasks: Vec<Task>,
}

impl Show for Tasks {
    fn text(&self) -> String {
        let texts: Vec<_> = self.tasks.iter().map(Show::text).collect();
        texts.join("\n")
    }

    fn quiet(&self) -> String {
        let ids: Vec<_> = self.tasks.iter().map(|task| task.task_id.as_str()).collect();
        ids.join("\n")
    }

    fn json_lines(&self) -> Vec<String> {
        self.tasks.iter().map(output::json).collect()
    }
}

impl Show for Task {
    fn text(&self) -> String {
        let headline = format!("{} {}", words::mark(self.state), words::state(self.state));
        let headline = output::styled(words::style(self.state), headline);
        let mut rows = vec![
            ("type", self.task_type.clone()),
            ("queue", format!("{} (priority {})", self.queue, self.priority)),
            ("submitted", format!("{} ({})", self.created_at, words::ago(&self.created_at))),
            ("attempts", format!("{} of at most {}", self.attempt, self.max_attempts)),
        ];
        rows.extend(when_and_who(self));
        rows.push(("parameters", self.parameters.get().to_owned()));
        rows.extend(self.result.as_ref().map(|result| ("result", result.get().to_owned())));
        rows.extend(self.error.as_ref().map(|e| ("error", format!("{}: {}", e.code, e.reason))));
        rows.extend(self.ended_attempts.iter().map(|ended| ("earlier", earlier(ended))));
        format!("{headline}  {}\n{}", self.task_id, output::facts(&rows))
    }

    fn quiet(&self) -> String {
        self.state.word().into()
    }
}

fn when_and_who(task: &Task) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    rows.extend(task.not_before.as_ref().map(|moment| ("not before", moment.clone())));
    rows.extend((!task.after.is_empty()).then(|| ("after", task.after.join(", "))));
    rows.extend(task.lease.as_ref().map(|lease| {
        let held = format!("{} for {}", lease.worker_id, words::ago(&lease.granted_at));
        ("held by", held.trim_end_matches(" ago").to_owned())
    }));
    rows.extend(task.settled_at.as_ref().map(|moment| {
        let took = words::between(&task.created_at, moment).unwrap_or_default();
        ("ended", format!("{moment} (after {took})"))
    }));
    rows.extend(task.worker_id.as_ref().map(|worker| ("by", worker.clone())));
    rows.extend(task.concurrency_key.as_ref().map(|key| ("one at a time", key.clone())));
    rows.extend(task.idempotency_key.as_ref().map(|key| ("key", key.clone())));
    rows
}

fn earlier(ended: &EndedAttempt) -> String {
    let said = ended.error.as_ref().map_or_else(String::new, |error| format!(": {}", error.reason));
    format!("{} on {} at {}{said}", ended.ending, ended.worker_id, ended.ended_at)
}

/// How long a task took, for a line of its own.
pub(super) fn took(task: &Task) -> String {
    let settled = task.settled_at.as_deref().unwrap_or(&task.created_at);
    words::between(&task.created_at, settled).unwrap_or_else(|| words::span(Duration::ZERO))
}
