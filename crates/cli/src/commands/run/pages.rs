//! Tasks of runs, page by page.

use protocol::rest::tasks::{State, Task, TaskPage};

use crate::context::Context;
use crate::failure::Result;
use crate::words;

/// The server's largest page.
pub(super) const PAGE: usize = 500;

/// Which tasks, newest first.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    path: String,
    cursor: Option<String>,
    is_over: bool,
}

impl Pages {
    /// The commands of all runs.
    pub(super) fn of_commands() -> Self {
        Self::new(format!("/api/v1/tasks?type=command&limit={PAGE}"))
    }

    /// The tasks of a run in these states; none means all.
    pub(super) fn of_run(run: &str, states: &[State]) -> Self {
        let mut path = format!("/api/v1/tasks?run={}&limit={PAGE}", words::percent_encoded(run));
        if !states.is_empty() {
            let states: Vec<_> = states.iter().map(|state| state.word()).collect();
            words::push(&mut path, format_args!("&state={}", states.join(",")));
        }
        Self::new(path)
    }

    fn new(path: String) -> Self {
        Self { path, cursor: None, is_over: false }
    }

    /// Only tasks that were submitted before this one.
    pub(super) fn before(self, task: String) -> Self {
        Self { cursor: Some(task), ..self }
    }

    /// Where the next page starts.
    pub(super) fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// The next page; `None` at the end.
    pub(super) async fn next(&mut self, context: &Context) -> Result<Option<Vec<Task>>> {
        if self.is_over {
            return Ok(None);
        }
        let path = match &self.cursor {
            Some(cursor) => format!("{}&cursor={cursor}", self.path),
            None => self.path.clone(),
        };
        let page: TaskPage = context.ask(context.client.get(&path)).await?;
        self.is_over = page.next_cursor.is_none();
        self.cursor = page.next_cursor;
        Ok(Some(page.tasks))
    }

    /// All that is left.
    pub(super) async fn all(mut self, context: &Context) -> Result<Vec<Task>> {
        let mut all = Vec::new();
        while let Some(page) = self.next(context).await? {
            all.extend(page);
        }
        Ok(all)
    }
}
