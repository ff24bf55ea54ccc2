//! `astra schedule pause`, `resume`, `run`, `backfill` and `rm`.

use model::Timestamp;
use protocol::rest::runs::RunRef;
use protocol::rest::schedules::{Backfill, Backfilled, Schedule};
use serde::Serialize;
use serde_json::json;

use super::selector::{self, path};
use crate::context::Context;
use crate::duration::Span;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::{self, Show};
use crate::words;
use crate::workflow_run::{self, Followed, Manner};

const PAUSE_EXAMPLES: &str = "\
Examples:
  astra schedule pause nightly
  astra schedule pause 7f3k
  astra schedule list -o quiet | xargs -n1 astra schedule pause
";
const RESUME_EXAMPLES: &str = "\
Examples:
  astra schedule resume nightly
  astra schedule resume 7f3k
  astra schedule resume nightly -o json
";
const RUN_EXAMPLES: &str = "\
Examples:
  astra schedule run nightly                  now, and watch it
  astra schedule run nightly -d
  astra schedule run nightly -d -o quiet
";
const BACKFILL_EXAMPLES: &str = "\
Examples:
  astra schedule backfill nightly --from 7d
  astra schedule backfill nightly --from 2026-03-01T00:00:00Z --to 2026-03-08T00:00:00Z
  astra schedule backfill nightly --from 7d -o quiet | xargs astra run wait
";
const RM_EXAMPLES: &str = "\
Examples:
  astra schedule rm nightly
  astra schedule rm 7f3k 9abc
  astra schedule list -o quiet | xargs astra schedule rm
";

/// Start nothing by the clock until it is resumed. Runs that go on are left alone.
#[derive(Debug, clap::Args)]
#[command(before_help = PAUSE_EXAMPLES)]
pub(crate) struct PauseArguments {
    /// Its name, its id or the first letters of it.
    schedule: String,
}

/// Let a schedule go on. Times that passed meanwhile are not made up for; see `backfill`.
#[derive(Debug, clap::Args)]
#[command(before_help = RESUME_EXAMPLES)]
pub(crate) struct ResumeArguments {
    /// Its name, its id or the first letters of it.
    schedule: String,
}

/// Start a schedule's workflow now, with its inputs.
#[derive(Debug, clap::Args)]
#[command(before_help = RUN_EXAMPLES)]
pub(crate) struct RunArguments {
    /// Its name, its id or the first letters of it.
    schedule: String,
    /// Print the run's number and return; it runs on.
    #[arg(short, long)]
    detach: bool,
}

/// Start runs for times that have passed, one for each. The same again starts none twice.
#[derive(Debug, clap::Args)]
#[command(before_help = BACKFILL_EXAMPLES)]
pub(crate) struct BackfillArguments {
    /// Its name, its id or the first letters of it.
    schedule: String,
    /// From when: a moment (RFC 3339), or how long ago.
    #[arg(long, value_name = "MOMENT|DURATION")]
    from: String,
    /// Until when. Default: now.
    #[arg(long, value_name = "MOMENT|DURATION")]
    to: Option<String>,
}

/// Forget schedules. Their runs stay.
#[derive(Debug, clap::Args)]
#[command(before_help = RM_EXAMPLES)]
pub(crate) struct RmArguments {
    /// Names, ids or first letters of ids.
    #[arg(required = true, value_name = "SCHEDULE")]
    schedules: Vec<String>,
}

pub(super) async fn pause(arguments: &PauseArguments, context: &Context) -> Result<ExitCode> {
    turn(&arguments.schedule, "pause", context).await
}

pub(super) async fn resume(arguments: &ResumeArguments, context: &Context) -> Result<ExitCode> {
    turn(&arguments.schedule, "resume", context).await
}

async fn turn(schedule: &str, verb: &str, context: &Context) -> Result<ExitCode> {
    let found = selector::schedule(context, schedule).await?;
    let path = format!("{}/{verb}", path(&found.schedule_id));
    let changed: Schedule = context.ask(context.client.post(&path, &json!({}))).await?;
    context.output.show(&changed);
    Ok(ExitCode::Success)
}

pub(super) async fn run(arguments: &RunArguments, context: &Context) -> Result<ExitCode> {
    let found = selector::schedule(context, &arguments.schedule).await?;
    let path = format!("{}/run", path(&found.schedule_id));
    let started: RunRef = context.ask(context.client.post(&path, &json!({}))).await?;
    if arguments.detach {
        context.output.show(&started);
        return Ok(ExitCode::Success);
    }
    let followed = Followed { run_id: started.run_id, number: started.number };
    workflow_run::follow(followed, Manner::Nodes, context).await
}

pub(super) async fn backfill(arguments: &BackfillArguments, context: &Context) -> Result<ExitCode> {
    let from = moment(&arguments.from)?;
    let to = arguments.to.as_deref().map_or_else(|| Ok(words::now().to_string()), moment)?;
    let found = selector::schedule(context, &arguments.schedule).await?;
    let path = format!("{}/backfill", path(&found.schedule_id));
    let made: Backfilled = context.ask(context.client.post(&path, &Backfill { from, to })).await?;
    context.output.show(&made);
    Ok(ExitCode::Success)
}

pub(super) async fn rm(arguments: &RmArguments, context: &Context) -> Result<ExitCode> {
    for text in &arguments.schedules {
        let schedule_id = selector::schedule(context, text).await?.schedule_id;
        context.ask(context.client.delete::<serde_json::Value>(&path(&schedule_id))).await?;
        context.output.show(&Removed { schedule_id });
    }
    Ok(ExitCode::Success)
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
    let now = words::now().since(Timestamp::default());
    Ok(Timestamp::default().after(now.saturating_sub(ago.0)).to_string())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Removed {
    schedule_id: String,
}

impl Show for Removed {
    fn text(&self) -> String {
        format!("schedule {} is forgotten", self.schedule_id)
    }

    fn quiet(&self) -> String {
        self.schedule_id.clone()
    }
}

impl Show for Backfilled {
    fn text(&self) -> String {
        let numbers: Vec<_> = self.runs.iter().map(|run| run.number.to_string()).collect();
        let started = match numbers.len() {
            0 => None,
            n => Some(format!("{} started: {}", words::count(n, "run"), numbers.join(" "))),
        };
        let waiting = match self.waiting.len() {
            0 => None,
            n => Some(format!("{} start one after another", words::count(n, "run"))),
        };
        let parts: Vec<_> = started.into_iter().chain(waiting).collect();
        if parts.is_empty() { "no time was due then".into() } else { parts.join("\n") }
    }

    fn quiet(&self) -> String {
        let numbers: Vec<_> = self.runs.iter().map(|run| run.number.to_string()).collect();
        numbers.join("\n")
    }

    fn json_lines(&self) -> Vec<String> {
        self.runs.iter().map(output::json).collect()
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
        let days = words::now().since(week).as_secs() / 86_400;
        assert_eq!(days, 7);
        assert!(moment("yesterday").is_err());
    }
}
