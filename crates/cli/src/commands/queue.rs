//! `astra queue`: how many tasks stand where, and what can be done to all of them.

use std::time::Duration;

use protocol::rest::queues::{
    PurgeQueue, PurgedQueue, Queue, QueuePause, QueuedTasks, Queues, RequeueQueue, RequeuedQueue,
};
use protocol::rest::tasks::TaskPage;
use serde::Serialize;

use crate::args::examples;
use crate::context::Context;
use crate::failure::{ExitCode, Failure, Result};
use crate::format;
use crate::output::{self, Columns, Show};
use crate::pages::Pages;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List queues: how many tasks stand where, and for how long.
    #[command(before_help = examples(&[
        "astra queue list",
        "astra queue list -o json",
    ]))]
    List,
    /// Show one queue.
    #[command(before_help = examples(&[
        "astra queue show nightly",
        "astra queue show nightly -o json",
    ]))]
    Show {
        /// Which one.
        queue: String,
    },
    /// Show who is next in a queue. Nothing is granted by that.
    #[command(before_help = examples(&[
        "astra queue peek nightly",
        "astra queue peek nightly --limit 100 -o quiet",
    ]))]
    Peek {
        /// Which queue.
        queue: String,
        /// At most so many.
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
        /// Pass over so many.
        #[arg(long, default_value_t = 0)]
        offset: u32,
    },
    /// List tasks that ran out of attempts, newest first, with the reason.
    #[command(before_help = examples(&[
        "astra queue dead",
        "astra queue dead nightly --limit 100",
        "astra queue requeue nightly                 bring them back",
    ]))]
    Dead {
        /// Only of this queue.
        queue: Option<String>,
        /// At most so many.
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
    },
    /// Start nothing of queues until `resume`. What runs goes on.
    #[command(before_help = examples(&[
        "astra queue pause nightly                   nothing of it is started; what runs goes on",
    ]))]
    Pause {
        /// Which queues.
        #[arg(required = true)]
        queues: Vec<String>,
    },
    /// Let paused queues go on.
    #[command(before_help = examples(&[
        "astra queue resume nightly",
    ]))]
    Resume {
        /// Which queues.
        #[arg(required = true)]
        queues: Vec<String>,
    },
    /// Bring the dead tasks of a queue back, with fresh attempts.
    #[command(before_help = examples(&[
        "astra queue requeue nightly                 every dead task, with fresh attempts",
        "astra queue requeue nightly --failed        those that failed for good, too",
    ]))]
    Requeue {
        /// Which queue.
        queue: String,
        /// Those that failed for good, too.
        #[arg(long)]
        failed: bool,
    },
    /// Stop every queued task of a queue. What runs goes on.
    #[command(before_help = examples(&[
        "astra queue purge nightly",
        "astra queue purge nightly --waiting --yes",
    ]))]
    Purge {
        /// Which queue.
        queue: String,
        /// Those that wait for a moment or their next attempt, too.
        #[arg(long)]
        waiting: bool,
        /// Do not ask.
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
        Command::Requeue { queue, failed } => requeue(queue, failed, context).await?,
        Command::Purge { queue, waiting, yes } => purge(queue, waiting, yes, context).await?,
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
        let Queue { queue, depth, paused, .. } = context.command(&path(name, verb)).await?;
        let tasks = format::count(depth, "task");
        let text = match &paused {
            Some(_) => format!(
                "queue {queue} is paused with {tasks} in it; it goes on with `astra queue resume \
                 {queue}`"
            ),
            None => format!("queue {queue} goes on with {tasks}"),
        };
        let id = queue.clone();
        context.output.answer(&SetPaused { queue, depth, paused }, text, id);
    }
    Ok(())
}

/// A queue that was paused or resumed.
#[derive(Debug, Serialize)]
struct SetPaused {
    queue: String,
    depth: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<QueuePause>,
}

async fn requeue(queue: String, failed: bool, context: &Context) -> Result<()> {
    let body = RequeueQueue { failed, max: None };
    let path = path(&queue, "requeue");
    let mut all = BackInQueue { queue, requeued: 0, dead: 0 };
    loop {
        let one: RequeuedQueue = context.post(&path, &body).await?;
        all.requeued += one.requeued;
        all.dead = one.dead;
        if !one.more {
            break;
        }
        if one.requeued == 0 {
            return Err(stuck("requeued", all.requeued));
        }
    }
    let text = match all.requeued {
        0 => format!("queue {} has no such task", all.queue),
        n => {
            format!("{} back in queue {}, with fresh attempts", format::count(n, "task"), all.queue)
        }
    };
    context.output.answer(&all, text, all.requeued);
    Ok(())
}

/// More is there, and none of it changes: somebody else is at it.
fn stuck(verb: &str, number: u64) -> Failure {
    let message = format!("{} {verb}, and the rest does not change", format::count(number, "task"));
    Failure::new(ExitCode::Conflict, message, "somebody else may be at it; try again")
}

/// What a requeue came to.
#[derive(Debug, Serialize)]
struct BackInQueue {
    queue: String,
    requeued: u64,
    dead: u64,
}

async fn purge(queue: String, waiting: bool, is_sure: bool, context: &Context) -> Result<()> {
    if !is_sure {
        let view = look(&queue, context).await?;
        let number = view.depth + if waiting { view.scheduled + view.retries_due } else { 0 };
        let question = format!("Stop {} of queue {queue}?", format::count(number, "task"));
        let no_one = Failure::usage(format!("{question} Nobody is here to ask"), "use --yes");
        if !context.output.confirm(&question, no_one)? {
            return Err(Failure::new(ExitCode::Interrupted, "nothing was stopped", ""));
        }
    }
    let body = PurgeQueue { waiting, max: None };
    let path = path(&queue, "purge");
    let mut all = Purged { queue, stopped: 0, depth: 0 };
    loop {
        let one: PurgedQueue = context.post(&path, &body).await?;
        all.stopped += one.stopped;
        all.depth = one.depth;
        if !one.more {
            break;
        }
        if one.stopped == 0 {
            return Err(stuck("stopped", all.stopped));
        }
    }
    let text = match all.stopped {
        0 => format!("queue {} had nothing to stop", all.queue),
        n => format!(
            "{} of queue {} stopped; `astra task requeue ID` brings one back",
            format::count(n, "task"),
            all.queue
        ),
    };
    context.output.answer(&all, text, all.stopped);
    Ok(())
}

/// What a purge came to.
#[derive(Debug, Serialize)]
struct Purged {
    queue: String,
    stopped: u64,
    depth: u64,
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
