//! `astra queue pause|resume|requeue|purge`.

use std::io::{BufRead, IsTerminal, Write};

use protocol::rest::queues::{
    PurgeQueue, PurgedQueue, Queue, QueuePause, RequeueQueue, RequeuedQueue,
};
use serde::Serialize;

use super::{look, path};
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::Show;
use crate::words;

const PAUSE_EXAMPLES: &str = "\
Examples:
  astra queue pause nightly                   nothing of it is started; what runs goes on
";
const RESUME_EXAMPLES: &str = "\
Examples:
  astra queue resume nightly
";
const REQUEUE_EXAMPLES: &str = "\
Examples:
  astra queue requeue nightly                 every dead task, with fresh attempts
  astra queue requeue nightly --failed        those that failed for good, too
";
const PURGE_EXAMPLES: &str = "\
Examples:
  astra queue purge nightly
  astra queue purge nightly --waiting --yes
";

/// Start nothing of queues until `resume`. What runs goes on.
#[derive(Debug, clap::Args)]
#[command(before_help = PAUSE_EXAMPLES)]
pub(crate) struct PauseArguments {
    /// Which queues.
    #[arg(required = true)]
    queues: Vec<String>,
}

/// Let paused queues go on.
#[derive(Debug, clap::Args)]
#[command(before_help = RESUME_EXAMPLES)]
pub(crate) struct ResumeArguments {
    /// Which queues.
    #[arg(required = true)]
    queues: Vec<String>,
}

/// Bring the dead tasks of a queue back, with fresh attempts.
#[derive(Debug, clap::Args)]
#[command(before_help = REQUEUE_EXAMPLES)]
pub(crate) struct RequeueArguments {
    /// Which queue.
    queue: String,
    /// Those that failed for good, too.
    #[arg(long)]
    failed: bool,
}

/// Stop every queued task of a queue. What runs goes on.
#[derive(Debug, clap::Args)]
#[command(before_help = PURGE_EXAMPLES)]
pub(crate) struct PurgeArguments {
    /// Which queue.
    queue: String,
    /// Those that wait for a moment or their next attempt, too.
    #[arg(long)]
    waiting: bool,
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
}

pub(super) async fn pause(arguments: &PauseArguments, context: &Context) -> Result<()> {
    set(&arguments.queues, "pause", context).await
}

pub(super) async fn resume(arguments: &ResumeArguments, context: &Context) -> Result<()> {
    set(&arguments.queues, "resume", context).await
}

async fn set(queues: &[String], verb: &str, context: &Context) -> Result<()> {
    let nothing = serde_json::json!({});
    for name in queues {
        let path = path(name, verb);
        let answer = context.client.post::<Queue>(&path, &nothing);
        let Queue { queue, depth, paused, .. } = context.ask(answer).await?;
        context.output.show(&SetPause { queue, depth, paused });
    }
    Ok(())
}

/// A queue that was paused or resumed.
#[derive(Debug, Serialize)]
struct SetPause {
    queue: String,
    depth: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<QueuePause>,
}

impl Show for SetPause {
    fn text(&self) -> String {
        let (queue, tasks) = (&self.queue, tasks(self.depth));
        match &self.paused {
            Some(_) => format!(
                "queue {queue} is paused with {tasks} in it; it goes on with `astra queue resume \
                 {queue}`"
            ),
            None => format!("queue {queue} goes on with {tasks}"),
        }
    }

    fn quiet(&self) -> String {
        self.queue.clone()
    }
}

fn tasks(number: u64) -> String {
    words::count(usize::try_from(number).unwrap_or(usize::MAX), "task")
}

pub(super) async fn requeue(arguments: &RequeueArguments, context: &Context) -> Result<()> {
    let RequeueArguments { queue, failed } = arguments;
    let body = RequeueQueue { failed: *failed, max: None };
    let path = path(queue, "requeue");
    let mut all = BackInQueue { queue: queue.clone(), requeued: 0, dead: 0 };
    loop {
        let one: RequeuedQueue = context.ask(context.client.post(&path, &body)).await?;
        all.requeued += one.requeued;
        all.dead = one.dead;
        if !one.more {
            break;
        }
        if one.requeued == 0 {
            return Err(stuck("requeued", all.requeued));
        }
    }
    context.output.show(&all);
    Ok(())
}

/// More is there, and none of it changes: somebody else is at it.
fn stuck(verb: &str, number: u64) -> Failure {
    let message = format!("{} {verb}, and the rest does not change", tasks(number));
    Failure::new(ExitCode::Conflict, message, "somebody else may be at it; try again")
}

/// What a requeue came to.
#[derive(Debug, Serialize)]
struct BackInQueue {
    queue: String,
    requeued: u64,
    dead: u64,
}

impl Show for BackInQueue {
    fn text(&self) -> String {
        match self.requeued {
            0 => format!("queue {} has no such task", self.queue),
            n => format!("{} back in queue {}, with fresh attempts", tasks(n), self.queue),
        }
    }

    fn quiet(&self) -> String {
        self.requeued.to_string()
    }
}

pub(super) async fn purge(arguments: &PurgeArguments, context: &Context) -> Result<()> {
    let PurgeArguments { queue, waiting, yes } = arguments;
    if !yes {
        let view = look(queue, context).await?;
        let number = view.depth + if *waiting { view.scheduled + view.retries_due } else { 0 };
        confirm(&format!("Stop {} of queue {queue}?", tasks(number)), context)?;
    }
    let body = PurgeQueue { waiting: *waiting, max: None };
    let path = path(queue, "purge");
    let mut all = Purged { queue: queue.clone(), stopped: 0, depth: 0 };
    loop {
        let one: PurgedQueue = context.ask(context.client.post(&path, &body)).await?;
        all.stopped += one.stopped;
        all.depth = one.depth;
        if !one.more {
            break;
        }
        if one.stopped == 0 {
            return Err(stuck("stopped", all.stopped));
        }
    }
    context.output.show(&all);
    Ok(())
}

/// Asks a person; whoever is none has to say that it means it.
fn confirm(question: &str, context: &Context) -> Result<()> {
    if !context.output.is_for_people() || !std::io::stdin().is_terminal() {
        return Err(Failure::usage(format!("{question} Nobody is here to ask"), "use --yes"));
    }
    let mut stderr = std::io::stderr();
    let _ = write!(stderr, "{question} [y/N] ");
    let _ = stderr.flush();
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    let is_yes = ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str());
    if read.is_ok() && is_yes {
        return Ok(());
    }
    Err(Failure::new(ExitCode::Interrupted, "nothing was stopped", ""))
}

/// What a purge came to.
#[derive(Debug, Serialize)]
struct Purged {
    queue: String,
    stopped: u64,
    depth: u64,
}

impl Show for Purged {
    fn text(&self) -> String {
        match self.stopped {
            0 => format!("queue {} had nothing to stop", self.queue),
            n => format!(
                "{} of queue {} stopped; `astra task requeue ID` brings one back",
                tasks(n),
                self.queue
            ),
        }
    }

    fn quiet(&self) -> String {
        self.stopped.to_string()
    }
}
