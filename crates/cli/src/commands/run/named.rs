//! Runs of commands, which have names.

use protocol::rest::tasks::Task;

use super::pages::Pages;
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};

/// Runs are looked for among so many pages of recent commands.
pub(super) const PAGES_MAX: usize = 20;
/// A run that was found, with its tasks in the order of submission; at least one.
pub(super) struct FoundRun {
    pub(super) name: String,
    pub(super) tasks: Vec<Task>,
}

/// The run with this name.
pub(super) async fn load(context: &Context, name: String) -> Result<FoundRun> {
    let mut tasks = Pages::of_run(&name, &[]).all(context).await?;
    tasks.reverse();
    if tasks.is_empty() {
        let message = format!("there is no run {name}");
        return Err(Failure::new(ExitCode::NotFound, message, "look at `astra run list`"));
    }
    Ok(FoundRun { name, tasks })
}

/// Names of the newest runs, with the moment of their first task, newest first; at most so many.
pub(super) async fn newest(context: &Context, limit: usize) -> Result<Vec<(String, String)>> {
    let mut runs: Vec<(String, String)> = Vec::new();
    let mut pages = Pages::of_commands();
    for _ in 0..PAGES_MAX {
        let Some(page) = pages.next(context).await? else { break };
        for task in page {
            let Some(name) = name_of(&task) else { continue };
            match runs.iter_mut().find(|(known, _)| known == name) {
                Some((_, moment)) => moment.clone_from(&task.created_at),
                None => runs.push((name.into(), task.created_at.clone())),
            }
        }
        // One more than is asked for: by then the moments of the others are those of first tasks.
        if runs.len() > limit {
            break;
        }
    }
    runs.truncate(limit);
    Ok(runs)
}

/// Names of recent runs that begin so.
pub(super) async fn beginning_with(context: &Context, prefix: &str) -> Result<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    let mut pages = Pages::of_commands();
    for _ in 0..PAGES_MAX {
        let Some(page) = pages.next(context).await? else { break };
        for name in page.iter().filter_map(name_of).filter(|name| name.starts_with(prefix)) {
            if !found.iter().any(|known| known == name) {
                found.push(name.into());
            }
        }
    }
    Ok(found)
}

/// The run of a command. Nodes of workflows may be commands too; their runs have no names.
pub(super) fn name_of(task: &Task) -> Option<&str> {
    task.run.as_deref().filter(|name| name.parse::<model::RunId>().is_err())
}
