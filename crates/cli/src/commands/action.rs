//! `astra action`: one plan, many inputs, a job for each.

use protocol::rest::actions::{Action, Actions, StoppedAction, SubmittedAction};
use protocol::rest::tasks::State;

use super::plan::json_file;
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::output::{self, Show};
use crate::words;

mod follow;

const SUBMIT_EXAMPLES: &str = "\
Examples:
  astra action submit photos.json --follow
  echo '{\"action_id\":\"a1\",\"plan_id\":\"dedupe\",\"inputs\":[{\"text\":\"b\\na\\nb\"}]}' |
    astra action submit - --follow
";
const LIST_EXAMPLES: &str = "\
Examples:
  astra action list
  astra action list --limit 100 -o json
";
const STATUS_EXAMPLES: &str = "\
Examples:
  astra action status a1
  astra action status a1 --follow
  astra action status a1 -o quiet             one word: QUEUED, RUNNING, COMPLETED, ...
";
const CANCEL_EXAMPLES: &str = "\
Examples:
  astra action cancel a1
";
const ACTION_HINT: &str = "an action is an object like {\"action_id\":\"a1\",\"plan_id\":\"p1\",\
                           \"inputs\":[{\"text\":\"...\"}]}";
/// More jobs than this are counted, and not listed, for people.
const JOBS_SHOWN: usize = 50;
/// So many come in one answer.
const PAGE_MAX: usize = 100;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Make a job for each input of a plan. The same action again is the same jobs.
    #[command(before_help = SUBMIT_EXAMPLES)]
    Submit {
        /// A JSON file; `-` for stdin.
        file: String,
        /// Wait for the end of all jobs; exit 1 unless all succeeded.
        #[arg(long)]
        follow: bool,
    },
    /// List actions, newest first.
    #[command(before_help = LIST_EXAMPLES)]
    List {
        /// At most so many.
        #[arg(long, default_value_t = 20)]
        limit: usize,
    },
    /// Show how the jobs of an action fare.
    #[command(before_help = STATUS_EXAMPLES)]
    Status {
        /// Its name.
        action: String,
        /// Wait for the end of all jobs; exit 1 unless all succeeded.
        #[arg(long)]
        follow: bool,
    },
    /// Stop every job of an action that is not over.
    #[command(before_help = CANCEL_EXAMPLES)]
    Cancel {
        /// Its name.
        action: String,
    },
}

pub(crate) async fn run(command: Command, context: &Context) -> Result<ExitCode> {
    match command {
        Command::Submit { file, follow } => return submit(&file, follow, context).await,
        Command::Status { action, follow: true } => return follow::run(&action, context).await,
        Command::Status { action, follow: false } => {
            context.output.show(&look(&action, context).await?);
        }
        Command::List { limit } => list(limit, context).await?,
        Command::Cancel { action } => {
            let path = format!("{}/cancel", path(&action));
            let stopped: StoppedAction =
                context.ask(context.client.post(&path, &serde_json::json!({}))).await?;
            context.output.show(&stopped);
        }
    }
    Ok(ExitCode::Success)
}

fn path(action: &str) -> String {
    format!("/api/v1/actions/{}", words::percent_encoded(action))
}

async fn look(action: &str, context: &Context) -> Result<Action> {
    context.ask(context.client.get(&path(action))).await
}

async fn submit(file: &str, follow: bool, context: &Context) -> Result<ExitCode> {
    let body = json_file(file, ACTION_HINT)?;
    let made: SubmittedAction = context.ask(context.client.post("/api/v1/actions", &body)).await?;
    if follow {
        let jobs = words::count(made.job_ids.len(), "job");
        context.output.note(format!("action {} · plan {} · {jobs}", made.action_id, made.plan_id));
        return follow::run(&made.action_id, context).await;
    }
    context.output.show(&made);
    let name = &made.action_id;
    context.output.note(format!("look at them with `astra action status {name} --follow`"));
    Ok(ExitCode::Success)
}

async fn list(limit: usize, context: &Context) -> Result<()> {
    let mut shown = Actions { actions: Vec::new(), total: 0 };
    loop {
        let missing = limit.saturating_sub(shown.actions.len()).clamp(1, PAGE_MAX);
        let path = format!("/api/v1/actions?limit={missing}&offset={}", shown.actions.len());
        let page: Actions = context.ask(context.client.get(&path)).await?;
        let is_last = page.actions.len() < missing;
        shown.total = page.total;
        shown.actions.extend(page.actions);
        if is_last || shown.actions.len() >= limit {
            break;
        }
    }
    context.output.show(&shown);
    if shown.actions.len() < usize::try_from(shown.total).unwrap_or(usize::MAX) {
        let total = words::thousands(shown.total);
        context.output.note(format!("of {total}; see more with a larger --limit"));
    }
    Ok(())
}

fn headline(state: State) -> String {
    let text = format!("{} {}", words::mark(state), words::state(state));
    output::styled(words::style(state), text)
}

impl Show for SubmittedAction {
    fn text(&self) -> String {
        let jobs = words::count(self.job_ids.len(), "job");
        format!("action {}: {jobs} of plan {}", self.action_id, self.plan_id)
    }

    fn quiet(&self) -> String {
        self.action_id.clone()
    }
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
            ("made", words::ago(&self.created_at)),
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

fn job_table(jobs: &[protocol::rest::actions::ActionJob]) -> String {
    let rows = jobs.iter().take(JOBS_SHOWN).map(|job| {
        [
            job.job_id.clone(),
            format!("{} {}", words::mark(job.state), words::state(job.state)),
            job.attempt.to_string(),
            job.worker_id.clone().unwrap_or_else(|| "-".into()),
            job.settled_at.as_deref().map_or("-".into(), words::ago),
            job.reason.clone().unwrap_or_default(),
        ]
    });
    let header = ["JOB", "STATE", "ATTEMPTS", "WORKER", "ENDED", "REASON"];
    let mut table = output::table(header, rows.collect());
    if jobs.len() > JOBS_SHOWN {
        words::push(
            &mut table,
            format_args!("\nand {} more; see -o json", jobs.len() - JOBS_SHOWN),
        );
    }
    table
}

impl Show for Actions {
    fn text(&self) -> String {
        if self.actions.is_empty() {
            return "no actions; make one with `astra action submit FILE`".into();
        }
        let rows = self.actions.iter().map(|action| {
            let counts = &action.counts;
            let done = counts.completed + counts.failed + counts.dead + counts.stopped;
            [
                action.action_id.clone(),
                action.plan_id.clone(),
                format!("{} {}", words::mark(action.state), words::state(action.state)),
                format!("{done}/{}", counts.total),
                (counts.failed + counts.dead).to_string(),
                words::ago(&action.created_at),
            ]
        });
        let header = ["ACTION", "PLAN", "STATE", "DONE", "FAILED", "MADE"];
        output::table(header, rows.collect())
    }

    fn quiet(&self) -> String {
        let names: Vec<_> = self.actions.iter().map(|one| one.action_id.as_str()).collect();
        names.join("\n")
    }

    fn json_lines(&self) -> Vec<String> {
        self.actions.iter().map(output::json).collect()
    }
}

impl Show for StoppedAction {
    fn text(&self) -> String {
        let name = &self.action.action_id;
        match self.stopped {
            0 => format!("action {name}: nothing was left to stop"),
            n => {
                let jobs = words::count(usize::try_from(n).unwrap_or(usize::MAX), "job");
                format!("action {name}: {jobs} stopped")
            }
        }
    }

    fn quiet(&self) -> String {
        self.action.action_id.clone()
    }
}
