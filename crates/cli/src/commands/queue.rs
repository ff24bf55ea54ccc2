//! `astra queue`: how many tasks stand where, and what can be done to all of them.

use std::time::Duration;

use protocol::rest::queues::{
    PurgeQueue, PurgedQueue, Queue, QueuedTasks, Queues, RequeueQueue, RequeuedQueue,
};
use protocol::rest::tasks::TaskPage;
use serde_json::json;

use crate::context::Context;
use crate::failure::{ExitCode, Failure, Result};
use crate::format;
use crate::output::{self, Columns, Show};
use crate::pages::Pages;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List queues with the number of tasks in each state and the age of the oldest.
    List,
    /// Show one queue.
    Show {
        /// The queue's name.
        queue: String,
    },
    /// Show the next tasks of a queue, without granting them.
    Peek {
        /// The queue's name.
        queue: String,
        /// Show at most this many.
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
        /// Skip this many.
        #[arg(long, default_value_t = 0)]
        offset: u32,
    },
    /// List tasks that ran out of attempts, newest first, with the reason.
    Dead {
        /// Only tasks of this queue.
        queue: Option<String>,
        /// Show at most this many.
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
    },
    /// Pause queues until `resume`. Running tasks go on.
    Pause {
        /// The queues' names.
        #[arg(required = true)]
        queues: Vec<String>,
    },
    /// Resume paused queues.
    Resume {
        /// The queues' names.
        #[arg(required = true)]
        queues: Vec<String>,
    },
    /// Requeue the dead tasks of a queue, with fresh attempts.
    Requeue {
        /// The queue's name.
        queue: String,
        /// Also requeue tasks that failed for good.
        #[arg(long)]
        failed: bool,
    },
    /// Stop the queued tasks of a queue. Running tasks go on.
    Purge {
        /// The queue's name.
        queue: String,
        /// Also stop tasks that wait for a moment or for their next attempt.
        #[arg(long)]
        waiting: bool,
        /// Skip the confirmation.
        #[arg(short, long)]
        yes: bool,
    },
}

pub(crate) async fn run(command: Command, context: &Context) -> Result<ExitCode> {
    match command {
        Command::List => list(context).await?,
        Command::Show { queue } => context.output.show(&look(&queue, context).await?),
        Command::Peek { queue, limit, offset } => peek(&queue, (limit, offset), context).await?,
        Command::Dead { queue, limit } => dead(queue.as_deref(), limit, context).await?,
        Command::Pause { queues } => set_paused(&queues, "pause", context).await?,
        Command::Resume { queues } => set_paused(&queues, "resume", context).await?,
        Command::Requeue { queue, failed } => requeue(&queue, failed, context).await?,
        Command::Purge { queue, waiting, yes } => purge(&queue, waiting, yes, context).await?,
    }
    Ok(ExitCode::Success)
}

async fn list(context: &Context) -> Result<()> {
    let queues: Queues = context.get("/api/v1/queues").await?;
    context.output.list(
        &queues,
        &queues.queues,
        &Columns {
            none: "no queue holds a task",
            id: |queue| queue.queue.clone(),
            header: [
                "QUEUE", "QUEUED", "OLDEST", "RUNNING", "RETRYING", "WAITING", "DEAD", "PAUSED",
            ],
            row: |queue| {
                let paused = queue.paused.as_ref().map(|pause| format!("by {}", pause.by));
                [
                    queue.queue.clone(),
                    queue.depth.to_string(),
                    oldest(queue),
                    queue.in_flight.to_string(),
                    queue.retries_due.to_string(),
                    queue.scheduled.to_string(),
                    queue.dead.to_string(),
                    format::or_dash(paused),
                ]
            },
        },
    );
    Ok(())
}

/// One queue; a name that nobody uses is an empty one.
async fn look(name: &str, context: &Context) -> Result<Queue> {
    let queues: Queues = context.get("/api/v1/queues").await?;
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
    format!("/api/v1/queues/{}/{verb}", format::percent_encoded(queue))
}

fn oldest(queue: &Queue) -> String {
    format::or_dash(queue.oldest_age_ms.map(|ms| format::span(Duration::from_millis(ms))))
}

impl Show for Queue {
    fn text(&self) -> String {
        let mut rows = vec![
            ("queued", format::thousands(self.depth)),
            ("oldest", oldest(self)),
            ("running", format::thousands(self.in_flight)),
            ("retrying", format::thousands(self.retries_due)),
            ("waiting", format::thousands(self.scheduled)),
            ("dead", format::thousands(self.dead)),
        ];
        if let Some(paused) = &self.paused {
            let ago = format::ago(&paused.since);
            rows.push(("paused", format!("by {} since {} ({ago})", paused.by, paused.since)));
        }
        format!("{}\n{}", self.queue, output::facts(&rows))
    }

    fn quiet(&self) -> String {
        self.depth.to_string()
    }
}

async fn set_paused(queues: &[String], verb: &str, context: &Context) -> Result<()> {
    for name in queues {
        let changed: Queue = context.command(&path(name, verb)).await?;
        let (queue, tasks) = (&changed.queue, format::count(changed.depth, "task"));
        let text = match &changed.paused {
            Some(_) => format!(
                "queue {queue} is paused with {tasks} in it; it goes on with `astra queue resume \
                 {queue}`"
            ),
            None => format!("queue {queue} goes on with {tasks}"),
        };
        context.output.answer(&changed, text, queue);
    }
    Ok(())
}

async fn requeue(queue: &str, failed: bool, context: &Context) -> Result<()> {
    let (path, mut requeued) = (path(queue, "requeue"), 0);
    let dead = loop {
        let one: RequeuedQueue = context.post(&path, &RequeueQueue { failed, max: None }).await?;
        requeued += one.requeued;
        if !one.more {
            break one.dead;
        }
        check_progress(one.requeued, &format!("{} requeued", format::count(requeued, "task")))?;
    };
    let text = match requeued {
        0 => format!("queue {queue} has no such task"),
        n => format!("{} back in queue {queue}, with fresh attempts", format::count(n, "task")),
    };
    let answer = json!({ "queue": queue, "requeued": requeued, "dead": dead });
    context.output.answer(&answer, text, requeued);
    Ok(())
}

/// More is there, and none of it changes: somebody else is at it.
fn check_progress(n_changed: u64, so_far: &str) -> Result<()> {
    if n_changed > 0 {
        return Ok(());
    }
    let message = format!("{so_far}, and the rest does not change");
    Err(Failure::new(ExitCode::Conflict, message, "somebody else may be at it; try again"))
}

async fn purge(queue: &str, waiting: bool, is_sure: bool, context: &Context) -> Result<()> {
    if !is_sure {
        let view = look(queue, context).await?;
        let number = view.depth + if waiting { view.scheduled + view.retries_due } else { 0 };
        let question = format!("Stop {} of queue {queue}?", format::count(number, "task"));
        let no_one = Failure::usage(format!("{question} Nobody is here to ask"), "use --yes");
        if !context.output.confirm(&question, no_one)? {
            return Err(Failure::new(ExitCode::Interrupted, "nothing was stopped", ""));
        }
    }
    let (path, mut stopped) = (path(queue, "purge"), 0);
    let depth = loop {
        let one: PurgedQueue = context.post(&path, &PurgeQueue { waiting, max: None }).await?;
        stopped += one.stopped;
        if !one.more {
            break one.depth;
        }
        check_progress(one.stopped, &format!("{} stopped", format::count(stopped, "task")))?;
    };
    let text = match stopped {
        0 => format!("queue {queue} had nothing to stop"),
        n => format!(
            "{} of queue {queue} stopped; `astra task requeue ID` brings one back",
            format::count(n, "task")
        ),
    };
    let answer = json!({ "queue": queue, "stopped": stopped, "depth": depth });
    context.output.answer(&answer, text, stopped);
    Ok(())
}

async fn peek(queue: &str, (limit, offset): (u32, u32), context: &Context) -> Result<()> {
    let path = format!("{}?limit={limit}&offset={offset}", path(queue, "tasks"));
    let peeked: QueuedTasks = context.get(&path).await?;
    context.output.list(
        &peeked,
        &peeked.tasks,
        &Columns {
            none: &format!("queue {queue} is empty"),
            id: |task| task.task_id.clone(),
            header: ["ID", "TYPE", "PRIORITY", "ATTEMPTS", "SUBMITTED"],
            row: |task| {
                [
                    task.task_id.clone(),
                    task.task_type.clone(),
                    task.priority.to_string(),
                    format!("{}/{}", task.attempt, task.max_attempts),
                    format::ago(&task.created_at),
                ]
            },
        },
    );
    if let Some(paused) = &peeked.paused {
        let (by, ago) = (&paused.by, format::ago(&paused.since));
        context.output.note(format!(
            "queue {queue} is paused by {by} ({ago}); it goes on with `astra queue resume {queue}`"
        ));
    }
    let shown = u64::from(offset) + peeked.tasks.len() as u64;
    if shown < peeked.total {
        let total = format::thousands(peeked.total);
        context.output.note(format!("of {total}; see more with --limit and --offset"));
    }
    Ok(())
}

async fn dead(queue: Option<&str>, limit: u32, context: &Context) -> Result<()> {
    let path = format::query("/api/v1/tasks?state=DEAD", &[("queue", queue)]);
    let (tasks, is_more) = Pages::<TaskPage>::of(path).take(context, limit as usize).await?;
    let dead = TaskPage { tasks, next_cursor: None };
    context.output.list(
        &dead,
        &dead.tasks,
        &Columns {
            none: "no task is dead",
            id: |task| task.task_id.clone(),
            header: ["ID", "QUEUE", "TYPE", "ENDED", "REASON"],
            row: |task| {
                let reason = task.error.as_ref().map(|error| error.reason.clone());
                [
                    task.task_id.clone(),
                    task.queue.clone(),
                    task.task_type.clone(),
                    format::or_dash(task.settled_at.as_deref().map(format::ago)),
                    reason.unwrap_or_default(),
                ]
            },
        },
    );
    if is_more {
        context.output.note("there are more; see them with a larger --limit");
    }
    if let Some(task) = dead.tasks.first() {
        let queue = &task.queue;
        context.output.note(format!("bring them back with `astra queue requeue {queue}`"));
    }
    Ok(())
}
