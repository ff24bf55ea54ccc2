//! Which kept workflow is meant: its id, the first letters of it, or its name.

use protocol::rest::workflows::{WorkflowPage, WorkflowSummary};

use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::words;

/// The server's largest page.
pub(super) const PAGE: usize = 200;
/// Shorter beginnings are guesses.
const PREFIX_MIN: usize = 2;

/// The workflow that `text` selects.
pub(crate) async fn workflow(context: &Context, text: &str) -> Result<WorkflowSummary> {
    choose(text, &all(context, usize::MAX).await?.0)
}

/// The kept workflows, and whether there are more.
pub(super) async fn all(context: &Context, limit: usize) -> Result<(Vec<WorkflowSummary>, bool)> {
    let mut found = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut path = format!("/api/v1/workflows?limit={}", PAGE.min(limit.max(1)));
        if let Some(cursor) = &cursor {
            words::push(&mut path, format_args!("&cursor={}", words::percent_encoded(cursor)));
        }
        let page: WorkflowPage = context.ask(context.client.get(&path)).await?;
        found.extend(page.items);
        let is_more = page.next_cursor.is_some() || found.len() > limit;
        if !is_more || found.len() >= limit {
            found.truncate(limit);
            return Ok((found, is_more));
        }
        cursor = page.next_cursor;
    }
}

fn choose(text: &str, all: &[WorkflowSummary]) -> Result<WorkflowSummary> {
    let is_same = |one: &str| one.eq_ignore_ascii_case(text);
    let by_id = |one: &WorkflowSummary| is_same(&one.workflow_id);
    let by_name = |one: &WorkflowSummary| is_same(&one.name);
    let prefix = text.to_ascii_lowercase();
    let by_prefix = |one: &WorkflowSummary| {
        text.len() >= PREFIX_MIN && one.workflow_id.to_ascii_lowercase().starts_with(&prefix)
    };
    let ways: [&dyn Fn(&WorkflowSummary) -> bool; 3] = [&by_id, &by_name, &by_prefix];
    for is_it in ways {
        let mut found = all.iter().filter(|one| is_it(one));
        match (found.next(), found.next()) {
            (Some(one), None) => return Ok(one.clone()),
            (Some(one), Some(other)) => {
                let hint = format!("give the id: {} or {}", one.workflow_id, other.workflow_id);
                let message = format!("several workflows go by {text}");
                return Err(Failure::usage(message, hint));
            }
            (None, _) => {}
        }
    }
    let hint = "look at `astra flow list`; a file is named by its path, like ./flow.json";
    Err(Failure::new(ExitCode::NotFound, format!("no workflow goes by {text}"), hint))
}

/// A workflow's name, where it has one.
pub(super) fn label(name: &str, id: &str) -> String {
    if name.is_empty() { id.into() } else { name.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_go_before_names_and_names_before_beginnings() {
        let all = [one("aa11", "Nightly"), one("aa22", "Weekly"), one("bb33", "aa22")];
        let id = |text| choose(text, &all).map(|found| found.workflow_id);
        assert_eq!(id("aa22").ok().as_deref(), Some("aa22"));
        assert_eq!(id("nightly").ok().as_deref(), Some("aa11"));
        assert_eq!(id("bb").ok().as_deref(), Some("bb33"));
        assert_eq!(id("aa").expect_err("two").exit, ExitCode::Usage);
        assert_eq!(id("b").expect_err("a guess").exit, ExitCode::NotFound);
    }

    fn one(id: &str, name: &str) -> WorkflowSummary {
        WorkflowSummary {
            workflow_id: id.into(),
            name: name.into(),
            version: 1,
            definition_hash: String::new(),
            updated_at: String::new(),
            updated_by: String::new(),
        }
    }
}
