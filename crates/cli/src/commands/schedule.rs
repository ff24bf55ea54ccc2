//! `astra schedule`: workflows that are started by the clock.

use model::Timestamp;
use protocol::rest::runs::RunRef;
use protocol::rest::schedules::{
    Backfill, Backfilled, NewSchedule, Overlap, Schedule, SchedulePage, ScheduledRun,
};
use serde_json::{Value, json};

use crate::commands::flow::{self, Input, inputs_object};
use crate::context::Context;
use crate::duration::Span;
use crate::failure::{ExitCode, Failure, Result};
use crate::output::{self, Columns, Show};
use crate::workflow_run::{self, Manner};
use crate::{format, selector};

/// Letters of a workflow's id that lists show; they name the workflow elsewhere, too.
const ID_LETTERS: usize = 8;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List schedules.
    List,
    /// Start a saved workflow at the times of a cron expression.
    Create(CreateArguments),
    /// Show a schedule.
    Show(Named),
    /// Pause a schedule: no run starts until it is resumed. Runs that go on are left alone.
    Pause(Named),
    /// Resume a paused schedule. Times that passed meanwhile start no runs; see `backfill`.
    Resume(Named),
    /// Start a schedule's workflow now, with its inputs.
    Run {
        /// The schedule: its name, its id or the first letters of it.
        schedule: String,
        /// Print the run's number and return; it runs on.
        #[arg(short, long)]
        detach: bool,
    },
    /// Start a run for each time that has passed. No time starts two runs.
    Backfill {
        /// The schedule: its name, its id or the first letters of it.
        schedule: String,
        /// From when: a moment (RFC 3339), or how long ago.
        #[arg(long, value_name = "MOMENT|DURATION")]
        from: String,
        /// Until when. Default: now.
        #[arg(long, value_name = "MOMENT|DURATION")]
        to: Option<String>,
    },
    /// Delete schedules. Their runs stay.
    Rm {
        /// Names, ids or first letters of ids.
        #[arg(required = true, value_name = "SCHEDULE")]
        schedules: Vec<String>,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Named {
    /// The schedule: its name, its id or the first letters of it.
    schedule: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CreateArguments {
    /// The workflow: its name, its id or the first letters of it.
    workflow: String,
    /// When: minute, hour, day of the month, month, day of the week; seconds may stand in front.
    #[arg(long, value_name = "TIMES")]
    cron: String,
    /// The time zone that the times are read in, like Europe/Berlin. Default `UTC`.
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
    /// What each run is given; may be given several times.
    #[arg(short, long, value_name = "NAME=VALUE|@FILE")]
    input: Vec<Input>,
    /// If the run before still goes on: skip the time, queue behind it, allow both, or cancel it.
    #[arg(long, default_value = "skip", value_parser = parse_overlap)]
    overlap: Overlap,
    /// Always this version. Default: the newest at each time.
    #[arg(long, value_name = "N")]
    version: Option<u64>,
    /// Start nothing until it is resumed.
    #[arg(long)]
    paused: bool,
    /// A name for people.
    #[arg(long)]
    name: Option<String>,
}

fn parse_overlap(word: &str) -> std::result::Result<Overlap, String> {
    Overlap::from_word(word).ok_or_else(|| "not one of skip, queue, allow, cancel".into())
}

pub(crate) async fn run(command: Command, context: &Context) -> Result<ExitCode> {
    match command {
        Command::List => list(context).await?,
        Command::Create(arguments) => create(arguments, context).await?,
        Command::Show(Named { schedule }) => context.output.show(&find(context, &schedule).await?),
        Command::Pause(Named { schedule }) => switch(&schedule, "pause", context).await?,
        Command::Resume(Named { schedule }) => switch(&schedule, "resume", context).await?,
        Command::Run { schedule, detach } => return run_now(&schedule, detach, context).await,
        Command::Backfill { schedule, from, to } => {
            backfill(&schedule, &from, to.as_deref(), context).await?;
        }
        Command::Rm { schedules } => {
            for text in schedules {
                let id = find(context, &text).await?.schedule_id;
                context.delete::<Value>(&path(&id)).await?;
                let text = format!("schedule {id} is deleted");
                context.output.answer(&json!({ "scheduleId": id }), text, &id);
            }
        }
    }
    Ok(ExitCode::Success)
}

async fn list(context: &Context) -> Result<()> {
    let page: SchedulePage = context.get("/api/v1/schedules").await?;
    context.output.list(
        &page,
        &page.items,
        &Columns {
            none: "no schedules; make one with `astra schedule create WORKFLOW --cron '0 3 * * *'`",
            id: |one| one.schedule_id.clone(),
            header: ["SCHEDULE", "NAME", "WORKFLOW", "TIMES", "STATE", "NEXT", "LAST"],
            row: |one| {
                [
                    one.schedule_id.clone(),
                    format::or_dash(one.name.clone()),
                    one.workflow_id.chars().take(ID_LETTERS).collect(),
                    format!("{} ({})", one.cron, one.timezone),
                    state(one).into(),
                    format::or_dash(one.next_runs.first().cloned()),
                    format::or_dash(one.last_run.as_ref().map(last_in_words)),
                ]
            },
        },
    );
    Ok(())
}

async fn create(arguments: CreateArguments, context: &Context) -> Result<()> {
    let new = NewSchedule {
        workflow_id: flow::find(context, &arguments.workflow).await?.workflow_id,
        version: arguments.version,
        inputs: inputs_object(&arguments.input)?,
        cron: arguments.cron,
        timezone: arguments.timezone,
        overlap: arguments.overlap,
        paused: arguments.paused,
        name: arguments.name,
    };
    context.output.show(&context.post::<Schedule>("/api/v1/schedules", &new).await?);
    Ok(())
}

async fn switch(schedule: &str, verb: &str, context: &Context) -> Result<()> {
    let path = format!("{}/{verb}", path(&find(context, schedule).await?.schedule_id));
    context.output.show(&context.command::<Schedule>(&path).await?);
    Ok(())
}

async fn run_now(schedule: &str, detach: bool, context: &Context) -> Result<ExitCode> {
    let path = format!("{}/run", path(&find(context, schedule).await?.schedule_id));
    let started: RunRef = context.command(&path).await?;
    if detach {
        context.output.show(&started);
        return Ok(ExitCode::Success);
    }
    workflow_run::follow(started.run_id, started.number, Manner::Nodes, context).await
}

async fn backfill(schedule: &str, from: &str, to: Option<&str>, context: &Context) -> Result<()> {
    let from = moment(from)?;
    let to = to.map_or_else(|| Ok(format::now().to_string()), moment)?;
    let path = format!("{}/backfill", path(&find(context, schedule).await?.schedule_id));
    context.output.show(&context.post::<Backfilled>(&path, &Backfill { from, to }).await?);
    Ok(())
}

fn path(id: &str) -> String {
    format!("/api/v1/schedules/{}", format::percent_encoded(id))
}

/// The schedule that `text` selects.
async fn find(context: &Context, text: &str) -> Result<Schedule> {
    let page: SchedulePage = context.get("/api/v1/schedules").await?;
    let ways: [selector::Way<'_, Schedule>; 3] =
        [&|one| one.schedule_id == text, &|one| one.name.as_deref() == Some(text), &|one| {
            !text.is_empty() && one.schedule_id.starts_with(text)
        }];
    let hint = "look at `astra schedule list`";
    let id =
        selector::choose(("schedule", text), &page.items, &ways, |one| &one.schedule_id, hint)?;
    context.get(&path(&id.schedule_id)).await
}

/// A moment, or one that is so long ago.
fn moment(text: &str) -> Result<String> {
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(moment.to_string());
    }
    let ago: Span = text.parse().map_err(|_| {
        let message = format!("`{text}` is neither a moment nor a duration");
        Failure::usage(message, "write 2026-03-01T00:00:00Z, or 7d for a week ago")
    })?;
    let now = format::now().since(Timestamp::default());
    Ok(Timestamp::default().after(now.saturating_sub(ago.0)).to_string())
}

impl Show for Backfilled {
    fn text(&self) -> String {
        let numbers: Vec<_> = self.runs.iter().map(|run| run.number.to_string()).collect();
        let started =
            format!("{} started: {}", format::count(numbers.len(), "run"), numbers.join(" "));
        let waiting = format::count(self.waiting.len(), "run") + " start one after another";
        match (numbers.is_empty(), self.waiting.is_empty()) {
            (true, true) => "no time was due then".into(),
            (false, true) => started,
            (true, false) => waiting,
            (false, false) => format!("{started}\n{waiting}"),
        }
    }

    fn quiet(&self) -> String {
        output::lines(self.runs.iter().map(|run| run.number.to_string()))
    }

    fn json_lines(&self) -> String {
        output::lines(self.runs.iter().map(output::json))
    }
}

fn state(schedule: &Schedule) -> &'static str {
    if schedule.paused { "■ Paused" } else { "▸ Active" }
}

impl Show for Schedule {
    fn text(&self) -> String {
        let name = self.name.as_deref().unwrap_or(&self.schedule_id);
        let version = self.version.map_or_else(|| "the newest".into(), |n| format!("version {n}"));
        let mut rows = vec![
            ("id", self.schedule_id.clone()),
            ("workflow", format!("{} ({version})", self.workflow_id)),
            ("times", format!("{} ({})", self.cron, self.timezone)),
            ("overlap", overlap(self.overlap).into()),
            ("made", format!("{} by {}", format::ago(&self.created_at), self.created_by)),
        ];
        if self.inputs.get() != "{}" {
            rows.push(("inputs", self.inputs.get().into()));
        }
        if self.waiting > 0 {
            rows.push(("waiting", format::count(self.waiting, "time")));
        }
        rows.extend(self.last_run.iter().map(|last| ("last", last_in_words(last))));
        rows.extend(self.next_runs.iter().map(|next| ("next", next.clone())));
        format!("{}  schedule {name}\n{}", state(self), output::facts(&rows))
    }

    fn quiet(&self) -> String {
        self.schedule_id.clone()
    }
}

fn overlap(overlap: Overlap) -> &'static str {
    match overlap {
        Overlap::Skip => "skip the time while a run goes on",
        Overlap::Queue => "queue behind the run that goes on",
        Overlap::Allow => "allow runs side by side",
        Overlap::Cancel => "cancel the run that goes on",
    }
}

fn last_in_words(last: &ScheduledRun) -> String {
    let due = format::ago(&last.due_at);
    match (last.number, &last.problem) {
        (Some(number), _) => format!("run {number}, {due}"),
        (None, Some(problem)) => format!("no run {due}: {problem}"),
        (None, None) => due,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_given_or_so_long_ago() {
        let given = moment("2026-03-01T00:00:00Z").expect("a moment");
        assert!(given.starts_with("2026-03-01T00:00:00"), "{given}");
        let week: Timestamp = moment("7d").expect("a duration").parse().expect("a moment");
        let days = format::now().since(week).as_secs() / 86_400;
        assert_eq!(days, 7);
        assert!(moment("yesterday").is_err());
    }
}
