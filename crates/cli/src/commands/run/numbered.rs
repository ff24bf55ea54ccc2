//! Runs of workflows, which have numbers and ids.

use protocol::error_code::ErrorCode;
use protocol::rest::runs::{Run, RunPage};

use super::named::PAGES_MAX;
use crate::context::Context;
use crate::failure::Result;
use crate::{words, workflow_run};

/// The server's largest page.
const PAGE: usize = 200;

/// The run with this number or id, if there is one; with its nodes.
pub(super) async fn load(context: &Context, run: &str) -> Result<Option<Run>> {
    match context.client.get(&workflow_run::path(run)).await {
        Ok(run) => Ok(Some(run)),
        Err(error) if error.refusal() == Some(ErrorCode::RunNotFound) => Ok(None),
        Err(error) => Err(context.explain(error)),
    }
}

/// The newest runs, without their nodes, and whether there are older ones.
pub(super) async fn newest(context: &Context, limit: usize) -> Result<(Vec<Run>, bool)> {
    let mut runs = Vec::new();
    let mut pages = Pages::default();
    while runs.len() < limit {
        let Some(page) = pages.next(context, (limit - runs.len()).min(PAGE)).await? else {
            return Ok((runs, false));
        };
        runs.extend(page);
    }
    Ok((runs, !pages.is_over))
}

/// Recent runs whose ids begin so.
pub(super) async fn beginning_with(context: &Context, prefix: &str) -> Result<Vec<Run>> {
    let prefix = prefix.to_ascii_lowercase();
    let mut found = Vec::new();
    let mut pages = Pages::default();
    for _ in 0..PAGES_MAX {
        let Some(page) = pages.next(context, PAGE).await? else { break };
        found.extend(page.into_iter().filter(|run| run.run_id.starts_with(&prefix)));
    }
    Ok(found)
}

/// Runs of workflows, newest first, page by page.
#[derive(Default)]
struct Pages {
    cursor: Option<String>,
    is_over: bool,
}

impl Pages {
    async fn next(&mut self, context: &Context, limit: usize) -> Result<Option<Vec<Run>>> {
        if self.is_over {
            return Ok(None);
        }
        let mut path = format!("/api/v1/runs?limit={limit}");
        if let Some(cursor) = &self.cursor {
            words::push(&mut path, format_args!("&cursor={}", words::percent_encoded(cursor)));
        }
        let page: RunPage = context.ask(context.client.get(&path)).await?;
        self.is_over = page.next_cursor.is_none();
        self.cursor = page.next_cursor;
        Ok(Some(page.items))
    }
}
