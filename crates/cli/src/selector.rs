//! Which task is meant: a full id, the beginning of one, or `last`.

use model::TaskId;
use protocol::rest::tasks::TaskPage;

use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};

/// A page of recent tasks that a short id is looked for in.
const PAGE: usize = 200;
/// Beginnings of ids are looked for among so many pages of recent tasks.
const PAGES_MAX: usize = 10;
/// Shorter beginnings are guesses.
const PREFIX_MIN: usize = 2;
/// A full id that names no task here is not the beginning of another one.
const UUID_LETTERS: usize = 36;

/// The full id of what `text` selects.
pub(crate) async fn task(context: &Context, text: &str) -> Result<String> {
    if let Ok(id) = text.parse::<TaskId>() {
        return Ok(id.to_string());
    }
    if text == "last" {
        return last(context).await;
    }
    let is_prefix = text.len() >= PREFIX_MIN
        && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    if !is_prefix {
        let message = format!("`{text}` is not a task id");
        return Err(Failure::usage(message, "give an id, its first letters, or `last`"));
    }
    if text.len() == UUID_LETTERS {
        let message = format!("no task has the id {text}");
        return Err(Failure::new(ExitCode::NotFound, message, "look at `astra task list`"));
    }
    by_prefix(context, &text.to_ascii_lowercase()).await
}

async fn last(context: &Context) -> Result<String> {
    let page: TaskPage = context.ask(context.client.get("/api/v1/tasks?limit=1")).await?;
    let newest = page.tasks.into_iter().next().map(|task| task.task_id);
    newest.ok_or_else(|| {
        let hint = "submit one: astra task submit core.echo -p '{\"hello\":\"world\"}'";
        Failure::new(ExitCode::NotFound, "there is no task yet", hint)
    })
}

async fn by_prefix(context: &Context, prefix: &str) -> Result<String> {
    let mut found: Vec<String> = Vec::new();
    let mut path = format!("/api/v1/tasks?limit={PAGE}");
    for _ in 0..PAGES_MAX {
        let page: TaskPage = context.ask(context.client.get(&path)).await?;
        let ids = page.tasks.into_iter().map(|task| task.task_id);
        found.extend(ids.filter(|id| id.starts_with(prefix)));
        let Some(cursor) = page.next_cursor else { break };
        path = format!("/api/v1/tasks?limit={PAGE}&cursor={cursor}");
    }
    match found.as_slice() {
        [id] => Ok(id.clone()),
        [] => Err(Failure::new(
            ExitCode::NotFound,
            format!("no recent task begins with {prefix}"),
            "give the full id, or look at `astra task list`",
        )),
        several => Err(Failure::usage(
            format!("{} recent tasks begin with {prefix}", several.len()),
            format!("give more of it: {} or {}", several[0], several[1]),
        )),
    }
}
