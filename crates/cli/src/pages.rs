//! Lists that a server gives page by page, newest first.

use std::marker::PhantomData;

use protocol::rest::runs::{Run, RunPage};
use protocol::rest::tasks::{Task, TaskPage};
use protocol::rest::workflows::{WorkflowPage, WorkflowSummary};
use serde::de::DeserializeOwned;

use crate::context::Context;
use crate::failure::Result;
use crate::format;

/// A page of plans or actions holds no more.
const OFFSET_PAGE: usize = 100;

/// A page, and where the next one starts.
pub(crate) trait Page: DeserializeOwned {
    type Item;
    /// The server's largest page.
    const ITEMS_MAX: usize;

    fn split(self) -> (Vec<Self::Item>, Option<String>);
}

impl Page for TaskPage {
    type Item = Task;
    const ITEMS_MAX: usize = 500;

    fn split(self) -> (Vec<Task>, Option<String>) {
        (self.tasks, self.next_cursor)
    }
}

impl Page for RunPage {
    type Item = Run;
    const ITEMS_MAX: usize = 200;

    fn split(self) -> (Vec<Run>, Option<String>) {
        (self.items, self.next_cursor)
    }
}

impl Page for WorkflowPage {
    type Item = WorkflowSummary;
    const ITEMS_MAX: usize = 200;

    fn split(self) -> (Vec<WorkflowSummary>, Option<String>) {
        (self.items, self.next_cursor)
    }
}

/// Reads one page after the other.
#[derive(Clone, Debug)]
pub(crate) struct Pages<P> {
    path: String,
    cursor: Option<String>,
    is_over: bool,
    page: PhantomData<P>,
}

impl<P: Page> Pages<P> {
    pub(crate) fn of(path: impl Into<String>) -> Self {
        Self { path: path.into(), cursor: None, is_over: false, page: PhantomData }
    }

    /// Only what is older than this item.
    pub(crate) fn before(self, item: String) -> Self {
        Self { cursor: Some(item), ..self }
    }

    /// Where the next page starts.
    pub(crate) fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// The next page, of at most so many items; `None` at the end.
    pub(crate) async fn next(
        &mut self,
        context: &Context,
        limit: usize,
    ) -> Result<Option<Vec<P::Item>>> {
        if self.is_over {
            return Ok(None);
        }
        let limit = limit.clamp(1, P::ITEMS_MAX).to_string();
        let cursor = self.cursor.as_deref();
        let path = format::query(&self.path, &[("limit", Some(&limit)), ("cursor", cursor)]);
        let (items, next_cursor) = context.get::<P>(&path).await?.split();
        self.is_over = next_cursor.is_none();
        self.cursor = next_cursor;
        Ok(Some(items))
    }

    /// At most so many of what is left, and whether there is more.
    pub(crate) async fn take(
        mut self,
        context: &Context,
        limit: usize,
    ) -> Result<(Vec<P::Item>, bool)> {
        let mut taken = Vec::new();
        while taken.len() < limit
            && let Some(page) = self.next(context, limit - taken.len()).await?
        {
            taken.extend(page);
        }
        Ok((taken, !self.is_over))
    }

    pub(crate) async fn all(self, context: &Context) -> Result<Vec<P::Item>> {
        Ok(self.take(context, usize::MAX).await?.0)
    }
}

/// At most so many items of a list that is counted through, and how many there are in all.
pub(crate) async fn by_offset<P: DeserializeOwned, T>(
    context: &Context,
    path: &str,
    limit: usize,
    split: fn(P) -> (Vec<T>, u64),
) -> Result<(Vec<T>, u64)> {
    let mut taken = Vec::new();
    loop {
        let missing = limit.saturating_sub(taken.len()).clamp(1, OFFSET_PAGE);
        let (limit_text, offset) = (missing.to_string(), taken.len().to_string());
        let pairs = [("limit", Some(&*limit_text)), ("offset", Some(&*offset))];
        let (page, total) = split(context.get(&format::query(path, &pairs)).await?);
        let is_last = page.len() < missing;
        taken.extend(page);
        if is_last || taken.len() >= limit {
            return Ok((taken, total));
        }
    }
}

/// Says how many there are where not all are shown.
pub(crate) fn note_rest(shown: usize, total: u64, context: &Context) {
    if (shown as u64) < total {
        let total = format::thousands(total);
        context.output.note(format!("of {total}; see more with a larger --limit"));
    }
}
