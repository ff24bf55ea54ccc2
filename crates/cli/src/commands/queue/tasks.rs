//! `astra queue peek` and `astra queue dead`: the tasks of a queue.

use protocol::rest::queues::QueuedTasks;
use protocol::rest::tasks::{Task, TaskPage};
use serde::Serialize;

use super::path;
use crate::context::Context;
use crate::failure::Result;
use crate::output::{self, Show};
use crate::words;

const PEEK_EXAMPLES: &str = "\
Examples:
  astra queue peek nightly
  astra queue peek nightly --limit 100 -o quiet
";
const DEAD_EXAMPLES: &str = "\
Examples:
  astra queue dead
  astra queue dead nightly --limit 100
  astra queue requeue nightly                 bring them back
";

/// Show who is next in a queue. Nothing is granted by that.
#[derive(Debug, clap::Args)]
#[command(before_help = PEEK_EXAMPLES)]
pub(crate) struct PeekArguments {
    /// Which queue.
    queue: String,
    /// At most so many.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=500))]
    limit: u32,
    /// Pass over so many.
    #[arg(long, default_value_t = 0)]
    offset: u32,
}

/// List tasks that ran out of attempts, newest first, with the reason.
#[derive(Debug, clap::Args)]
#[command(before_help = DEAD_EXAMPLES)]
pub(crate) struct DeadArguments {
    /// Only of this queue.
    queue: Option<String>,
    /// At most so many.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=500))]
    limit: u32,
}

pub(super) async fn peek(arguments: &PeekArguments, context: &Context) -> Result<()> {
    let PeekArguments { queue, limit, offset } = arguments;
    let path = format!("{}?limit={limit}&offset={offset}", path(queue, "tasks"));
    let peeked: QueuedTasks = context.ask(context.client.get(&path)).await?;
    context.output.show(&peeked);
    if let Some(paused) = &peeked.paused {
        let (by, ago) = (&paused.by, words::ago(&paused.since));
        context.output.note(format!(
            "queue {queue} is paused by {by} ({ago}); it goes on with `astra queue resume {queue}`"
        ));
    }
    let shown = u64::from(*offset) + peeked.tasks.len() as u64;
    if shown < peeked.total {
        let total = words::thousands(peeked.total);
        context.output.note(format!("of {total}; see more with --limit and --offset"));
    }
    Ok(())
}

impl Show for QueuedTasks {
    fn text(&self) -> String {
        if self.tasks.is_empty() {
            return format!("queue {} has nobody who is next", self.queue);
        }
        let rows = self.tasks.iter().map(|task| {
            [
                task.task_id.clone(),
                task.task_type.clone(),
                task.priority.to_string(),
                format!("{}/{}", task.attempt, task.max_attempts),
                words::ago(&task.created_at),
            ]
        });
        output::table(["ID", "TYPE", "PRIORITY", "ATTEMPTS", "SUBMITTED"], rows.collect())
    }

    fn quiet(&self) -> String {
        ids(&self.tasks)
    }

    fn json_lines(&self) -> Vec<String> {
        self.tasks.iter().map(output::json).collect()
    }
}

pub(super) async fn dead(arguments: &DeadArguments, context: &Context) -> Result<()> {
    let limit = arguments.limit as usize;
    let mut tasks = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut path = format!("/api/v1/tasks?state=DEAD&limit={}", limit - tasks.len());
        for (name, value) in [("queue", &arguments.queue), ("cursor", &cursor)] {
            if let Some(value) = value {
                words::push(&mut path, format_args!("&{name}={}", words::percent_encoded(value)));
            }
        }
        let page: TaskPage = context.ask(context.client.get(&path)).await?;
        tasks.extend(page.tasks);
        cursor = page.next_cursor;
        if cursor.is_none() || tasks.len() >= limit {
            break;
        }
    }
    let dead = DeadTasks { tasks };
    context.output.show(&dead);
    if cursor.is_some() {
        context.output.note("there are more; see them with a larger --limit");
    }
    if let Some(task) = dead.tasks.first() {
        let queue = &task.queue;
        context.output.note(format!("bring them back with `astra queue requeue {queue}`"));
    }
    Ok(())
}

/// Tasks that ran out of attempts.
#[derive(Debug, Serialize)]
struct DeadTasks {
    tasks: Vec<Task>,
}

impl Show for DeadTasks {
    fn text(&self) -> String {
        if self.tasks.is_empty() {
            return "no task is dead".into();
        }
        let rows = self.tasks.iter().map(|task| {
            let ended = task.settled_at.as_deref().map_or("-".into(), words::ago);
            let reason = task.error.as_ref().map(|error| error.reason.clone());
            [
                task.task_id.clone(),
                task.queue.clone(),
                task.task_type.clone(),
                ended,
                reason.unwrap_or_default(),
            ]
        });
        output::table(["ID", "QUEUE", "TYPE", "ENDED", "REASON"], rows.collect())
    }

    fn quiet(&self) -> String {
        ids(&self.tasks)
    }

    fn json_lines(&self) -> Vec<String> {
        self.tasks.iter().map(output::json).collect()
    }
}

fn ids(tasks: &[Task]) -> String {
    let ids: Vec<_> = tasks.iter().map(|task| task.task_id.as_str()).collect();
    ids.join("\n")
}
