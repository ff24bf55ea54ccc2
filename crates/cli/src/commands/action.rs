//! `astra action`: one plan, many inputs, a job for each.

use std::time::{Duration, Instant};

use protocol::rest::actions::{
    Action, ActionCounts, ActionJob, Actions, StoppedAction, SubmittedAction,
};
use protocol::rest::tasks::State;
use serde_json::value::RawValue;

use super::task::read_json;
use crate::context::Context;
use crate::failure::{ExitCode, Result};
use crate::output::{self, Columns, Show};
use crate::run::interrupted;
use crate::{format, pages};

const ACTION_HINT: &str = "an action is an object like {\"action_id\":\"a1\",\"plan_id\":\"p1\",\
                           \"inputs\":[{\"text\":\"...\"}]}";
/// More jobs than this are counted, and not listed, for people.
const JOBS_SHOWN: usize = 50;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Make a job for each input of a plan. Submitting the same action again makes no new jobs.
    Submit {
        /// A JSON file; `-` for stdin.
        file: String,
        /// Wait for the end of all jobs; exit 1 unless all succeeded.
        #[arg(long)]
        follow: bool,
    },
    /// List actions, newest first.
    List {
        /// Show at most this many.
        #[arg(long, default_value_t = 20)]
        limit: usize,
    },
    /// Show the progress of an action's jobs.
    Status {
        /// The action's name.
        action: String,
        /// Wait for the end of all jobs; exit 1 unless all succeeded.
        #[arg(long)]
        follow: bool,
    },
    /// Stop the jobs of an action that have not ended.
    Cancel {
        /// The action's name.
        action: String,
    },
}

pub(crate) async fn run(command: Command, context: &Context) -> Result<ExitCode> {
    match command {
        Command::Submit { file, follow } => return submit(&file, follow, context).await,
        Command::Status { action, follow: true } => return stay(&action, context).await,
        Command::Status { action, follow: false } => {
            context.output.show(&context.get::<Action>(&path(&action)).await?);
        }
        Command::List { limit } => list(limit, context).await?,
        Command::Cancel { action } => {
            let path = format!("{}/cancel", path(&action));
            let stopped: StoppedAction = context.command(&path).await?;
            let text = match stopped.stopped {
                0 => format!("action {action}: nothing was left to stop"),
                n => format!("action {action}: {} stopped", format::count(n, "job")),
            };
            context.output.answer(&stopped, text, &action);
        }
    }
    Ok(ExitCode::Success)
}

fn path(action: &str) -> String {
    format!("/api/v1/actions/{}", format::percent_encoded(action))
}

async fn submit(file: &str, follow: bool, context: &Context) -> Result<ExitCode> {
    let body: Box<RawValue> = read_json(file, ACTION_HINT)?;
    let made: SubmittedAction = context.post("/api/v1/actions", &body).await?;
    let (name, plan) = (&made.action_id, &made.plan_id);
    let jobs = format::count(made.job_ids.len(), "job");
    if follow {
        context.output.note(format!("action {name} · plan {plan} · {jobs}"));
        return stay(name, context).await;
    }
    context.output.answer(&made, format!("action {name}: {jobs} of plan {plan}"), name);
    context.output.note(format!("look at them with `astra action status {name} --follow`"));
    Ok(ExitCode::Success)
}

async fn list(limit: usize, context: &Context) -> Result<()> {
    let split = |page: Actions| (page.actions, page.total);
    let (actions, total) = pages::by_offset(context, "/api/v1/actions", limit, split).await?;
    let shown = Actions { actions, total };
    context.output.list(
        &shown,
        &shown.actions,
        &Columns {
            none: "no actions; make one with `astra action submit FILE`",
            id: |action| action.action_id.clone(),
            header: ["ACTION", "PLAN", "STATE", "DONE", "FAILED", "MADE"],
            row: |action| {
                let counts = &action.counts;
                [
                    action.action_id.clone(),
                    action.plan_id.clone(),
                    format::look(action.state).to_string(),
                    format!("{}/{}", done(counts), counts.total),
                    (counts.failed + counts.dead).to_string(),
                    format::ago(&action.created_at),
                ]
            },
        },
    );
    pages::note_rest(shown.actions.len(), total, context);
    Ok(())
}

fn headline(state: State) -> String {
    let look = format::look(state);
    look.styled(look)
}

impl Show for Action {
    fn text(&self) -> String {
        let counts = &self.counts;
        let all = [
            ("waiting", counts.waiting),
            ("queued", counts.queued),
            ("running", counts.running),
            ("succeeded", counts.completed),
            ("failed", counts.failed),
            ("dead", counts.dead),
            ("stopped", counts.stopped),
        ];
        let some = all.into_iter().filter(|(_, n)| *n > 0).map(|(word, n)| format!("{n} {word}"));
        let rows = [
            ("plan", self.plan_id.clone()),
            ("made", format::ago(&self.created_at)),
            ("jobs", format!("{} ({})", counts.total, some.collect::<Vec<_>>().join(", "))),
        ];
        let head =
            format!("{}  {}\n{}", headline(self.state), self.action_id, output::facts(&rows));
        match self.jobs.as_deref() {
            Some(jobs) if !jobs.is_empty() => format!("{head}\n{}", job_table(jobs)),
            _ => head,
        }
    }

    fn quiet(&self) -> String {
        self.state.word().into()
    }
}

fn job_table(jobs: &[ActionJob]) -> String {
    let rows = jobs.iter().take(JOBS_SHOWN).map(|job| {
        [
            job.job_id.clone(),
            format::look(job.state).to_string(),
            job.attempt.to_string(),
            format::or_dash(job.worker_id.clone()),
            format::or_dash(job.settled_at.as_deref().map(format::ago)),
            job.reason.clone().unwrap_or_default(),
        ]
    });
    let header = ["JOB", "STATE", "ATTEMPTS", "WORKER", "ENDED", "REASON"];
    let mut table = output::table(header, rows);
    if jobs.len() > JOBS_SHOWN {
        format::push(
            &mut table,
            format_args!("\nand {} more; see -o json", jobs.len() - JOBS_SHOWN),
        );
    }
    table
}

/// The first look; the pause doubles up to the longest.
const LOOK_AFTER: Duration = Duration::from_millis(50);
const LOOK_EVERY_MAX: Duration = Duration::from_secs(1);
/// More failures than this are counted, and not listed.
const FAILURES_SHOWN: usize = 20;

/// Follows to the end; success only if every job succeeded.
async fn stay(name: &str, context: &Context) -> Result<ExitCode> {
    let started = Instant::now();
    let action = tokio::select! {
        action = until_over(name, context) => action?,
        Ok(()) = tokio::signal::ctrl_c() => return Err(interrupted(&format!(
            "the jobs go on; come back with `astra action status {name} --follow`, stop them with \
             `astra action cancel {name}`"
        ))),
    };
    if context.output.is_for_people() {
        tell_end(&action, started.elapsed(), context);
    } else {
        context.output.show(&action);
    }
    Ok(if action.state == State::Completed { ExitCode::Success } else { ExitCode::Failed })
}

async fn until_over(name: &str, context: &Context) -> Result<Action> {
    let (path, mut pause, mut told) = (path(name), LOOK_AFTER, None);
    loop {
        let action: Action = context.ask_patiently(|| context.client.get(&path)).await?;
        if action.state.is_terminal() {
            return Ok(action);
        }
        let now = (done(&action.counts), action.counts.running);
        if told.replace(now) != Some(now) {
            tell(&action.counts, context);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LOOK_EVERY_MAX);
    }
}

fn done(counts: &ActionCounts) -> u64 {
    counts.completed + counts.failed + counts.dead + counts.stopped
}

fn tell(counts: &ActionCounts, context: &Context) {
    let failed = counts.failed + counts.dead;
    context.output.note(format!(
        "  {}/{} done  {} running  {failed} failed",
        done(counts),
        counts.total,
        counts.running
    ));
}

fn tell_end(action: &Action, took: Duration, context: &Context) {
    let jobs = format::count(action.counts.total, "job");
    let took = format::span(took);
    let head = headline(action.state);
    context.output.note(format!("{head}: action {} after {took} ({jobs})", action.action_id));
    let is_bad = |job: &&ActionJob| job.state != State::Completed;
    let bad: Vec<_> = action.jobs.iter().flatten().filter(is_bad).collect();
    for job in bad.iter().take(FAILURES_SHOWN) {
        let reason = job.reason.as_deref().unwrap_or(format::look(job.state).word);
        context.output.note(format!("  {}: {reason}", job.job_id));
    }
    if bad.len() > FAILURES_SHOWN {
        context.output.note(format!("  and {} more", bad.len() - FAILURES_SHOWN));
    }
    context.output.note("  results: astra task show JOB".to_owned());
}
