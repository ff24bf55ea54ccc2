//! Which run is meant: its name, the beginning of one, `last` or `last~1`.

use protocol::rest::tasks::Task;

use super::pages::Pages;
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};

/// Runs are looked for among so many pages of recent commands.
pub(super) const PAGES_MAX: usize = 20;
/// Shorter beginnings are guesses.
const PREFIX_MIN: usize = 2;

/// A run that was found, with its tasks in the order of submission; at least one.
pub(super) struct FoundRun {
    pub(super) name: String,
    pub(super) tasks: Vec<Task>,
}

/// The run that `text` selects.
pub(super) async fn run(context: &Context, text: &str) -> Result<FoundRun> {
    if let Some(back) = steps_back(text) {
        let name = nth(context, back).await?;
        return load(context, name).await;
    }
    if text.parse::<model::RunName>().is_err() {
        let message = format!("`{text}` is not the name of a run");
        let hint = "give a name, its first letters, `last` or `last~1`";
        return Err(Failure::usage(message, hint));
    }
    // Most often it is the whole name.
    match load(context, text.into()).await {
        Err(failure) if failure.exit == ExitCode::NotFound && text.len() >= PREFIX_MIN => {
            let name = by_prefix(context, text).await?;
            load(context, name).await
        }
        found => found,
    }
}

/// `last` is 0, `last~1` the one before.
fn steps_back(text: &str) -> Option<usize> {
    match text.strip_prefix("last")? {
        "" => Some(0),
        rest => rest.strip_prefix('~')?.parse().ok(),
    }
}

async fn load(context: &Context, name: String) -> Result<FoundRun> {
    let mut tasks = Pages::of_run(&name, &[]).all(context).await?;
    tasks.reverse();
    if tasks.is_empty() {
        let message = format!("there is no run {name}");
        return Err(Failure::new(ExitCode::NotFound, message, "look at `astra run list`"));
    }
    Ok(FoundRun { name, tasks })
}

async fn nth(context: &Context, back: usize) -> Result<String> {
    let mut names: Vec<String> = Vec::new();
    let mut pages = Pages::of_commands();
    for _ in 0..PAGES_MAX {
        let Some(page) = pages.next(context).await? else { break };
        for name in page.into_iter().filter_map(|task| task.run) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        if names.len() > back {
            break;
        }
    }
    let n_runs = names.len();
    names.into_iter().nth(back).ok_or_else(|| {
        let message = match n_runs {
            0 => "there is no run yet".to_owned(),
            n => format!("there are only {n} recent runs"),
        };
        Failure::new(ExitCode::NotFound, message, "start one: astra run -- echo hello")
    })
}

async fn by_prefix(context: &Context, prefix: &str) -> Result<String> {
    let mut found: Vec<String> = Vec::new();
    let mut pages = Pages::of_commands();
    for _ in 0..PAGES_MAX {
        let Some(page) = pages.next(context).await? else { break };
        for name in page.into_iter().filter_map(|task| task.run) {
            if name.starts_with(prefix) && !found.contains(&name) {
                found.push(name);
            }
        }
    }
    match found.as_slice() {
        [name] => Ok(name.clone()),
        [] => Err(Failure::new(
            ExitCode::NotFound,
            format!("no recent run begins with {prefix}"),
            "look at `astra run list`",
        )),
        [first, second, ..] => Err(Failure::usage(
            format!("{} recent runs begin with {prefix}", found.len()),
            format!("give more of it: {first} or {second}"),
        )),
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
