//! Which run is meant: of commands by its name, of a workflow by its number or id, either by the
//! beginning of that, `last` or `last~1`.

use protocol::rest::runs::Run;

pub(super) use super::named::FoundRun;
use super::{named, numbered};
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::workflow_run;

/// Shorter beginnings are guesses.
const PREFIX_MIN: usize = 2;
/// A full id that names no run is not the beginning of another one.
const UUID_LETTERS: usize = 36;

/// A run that was found.
pub(super) enum Found {
    /// Of commands.
    Commands(FoundRun),
    /// Of a workflow, with its nodes.
    Workflow(Box<Run>),
}

/// The run that `text` selects.
pub(super) async fn run(context: &Context, text: &str) -> Result<Found> {
    if let Some(back) = steps_back(text) {
        return nth(context, back).await;
    }
    if let Some(run) = numbered_run(context, text).await? {
        return Ok(Found::Workflow(Box::new(run)));
    }
    if text.parse::<model::RunName>().is_err() {
        let message = format!("`{text}` names no run");
        let hint = "give a number, a name, the first letters of a name or an id, or `last`";
        return Err(Failure::usage(message, hint));
    }
    // Most often it is the whole name.
    match named::load(context, text.into()).await {
        Ok(found) => Ok(Found::Commands(found)),
        Err(failure) if failure.exit == ExitCode::NotFound && text.len() >= PREFIX_MIN => {
            by_prefix(context, text).await
        }
        Err(failure) => Err(failure),
    }
}

/// The run of a workflow that has this number or id, with its nodes.
pub(crate) async fn numbered_run(context: &Context, text: &str) -> Result<Option<Run>> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number && text.len() != UUID_LETTERS {
        return Ok(None);
    }
    numbered::load(context, text).await
}

/// A run of a workflow; one of commands is refused.
pub(crate) async fn workflow_run(context: &Context, text: &str) -> Result<Run> {
    match run(context, text).await? {
        Found::Workflow(run) => Ok(*run),
        Found::Commands(found) => Err(Failure::usage(
            format!("run {} is a run of commands, not of a workflow", found.name),
            "look at the kinds of runs with `astra run list`",
        )),
    }
}

/// `last` is 0, `last~1` the one before.
fn steps_back(text: &str) -> Option<usize> {
    match text.strip_prefix("last")? {
        "" => Some(0),
        rest => rest.strip_prefix('~')?.parse().ok(),
    }
}

/// The newest of either kind, and so on back.
async fn nth(context: &Context, back: usize) -> Result<Found> {
    let commands = named::newest(context, back + 1).await?;
    let (workflows, _) = numbered::newest(context, back + 1).await?;
    let n_runs = commands.len() + workflows.len();
    let mut all: Vec<(String, Newest)> = Vec::new();
    all.extend(commands.into_iter().map(|(name, moment)| (moment, Newest::Commands(name))));
    let of_workflow = |run: Run| (run.created_at, Newest::Workflow(run.run_id));
    all.extend(workflows.into_iter().map(of_workflow));
    // All moments are of one server, in one form.
    all.sort_by(|one, other| other.0.cmp(&one.0));
    match all.into_iter().nth(back) {
        Some((_, Newest::Commands(name))) => named::load(context, name).await.map(Found::Commands),
        Some((_, Newest::Workflow(id))) => {
            Ok(Found::Workflow(Box::new(workflow_run::look(context, &id).await?)))
        }
        None => {
            let message = match n_runs {
                0 => "there is no run yet".to_owned(),
                n => format!("there are only {n} recent runs"),
            };
            Err(Failure::new(ExitCode::NotFound, message, "start one: astra run -- echo hello"))
        }
    }
}

enum Newest {
    Commands(String),
    Workflow(String),
}

async fn by_prefix(context: &Context, prefix: &str) -> Result<Found> {
    let names = named::beginning_with(context, prefix).await?;
    let runs = numbered::beginning_with(context, prefix).await?;
    match (names.as_slice(), runs.as_slice()) {
        ([name], []) => named::load(context, name.clone()).await.map(Found::Commands),
        ([], [run]) => {
            let run = workflow_run::look(context, &run.run_id).await?;
            Ok(Found::Workflow(Box::new(run)))
        }
        ([], []) => Err(Failure::new(
            ExitCode::NotFound,
            format!("no recent run goes by {prefix}"),
            "look at `astra run list`",
        )),
        (names, runs) => {
            let n_runs = names.len() + runs.len();
            let ids = names.iter().chain(runs.iter().map(|run| &run.run_id));
            let two: Vec<_> = ids.take(2).map(String::as_str).collect();
            Err(Failure::usage(
                format!("{n_runs} recent runs begin with {prefix}"),
                format!("give more of it: {}", two.join(" or ")),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_counts_back() {
        assert_eq!(steps_back("last"), Some(0));
        assert_eq!(steps_back("last~12"), Some(12));
        for name in ["lastly", "last~", "last~x", "k3f9q2mx"] {
            assert_eq!(steps_back(name), None, "{name}");
        }
    }
}
