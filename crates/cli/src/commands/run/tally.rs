//! How many tasks of a run have ended, found out with few questions.

use std::collections::{BTreeSet, VecDeque};

use model::TaskId;
use protocol::rest::tasks::{State, Task};

use super::pages::Pages;
use crate::context::Context;
use crate::failure::{Failure, Result};

pub(super) const LIVE: [State; 4] =
    [State::Waiting, State::Queued, State::Retrying, State::Running];
pub(super) const UNSUCCESSFUL: [State; 3] = [State::Failed, State::Dead, State::Stopped];

/// Tasks end about in the order of their submission, so that it is enough to look at the oldest
/// that have not ended, however many there are.
const WINDOW: usize = 1_000;

/// A run of many tasks, as far as it is known.
pub(super) struct Tally {
    run: String,
    /// In the order of submission.
    unfinished: VecDeque<TaskId>,
    pub(super) total: usize,
    pub(super) running: usize,
    pub(super) failed: usize,
    pub(super) workers: BTreeSet<String>,
}

impl Tally {
    pub(super) fn new(run: &str, task_ids: &[String]) -> Result<Self> {
        let parsed: std::result::Result<BTreeSet<TaskId>, _> =
            task_ids.iter().map(|id| id.parse()).collect();
        let ids =
            parsed.map_err(|_| Failure::from(anyhow::anyhow!("the server names tasks oddly")))?;
        Ok(Self {
            run: run.into(),
            total: ids.len(),
            unfinished: ids.into_iter().collect(),
            running: 0,
            failed: 0,
            workers: BTreeSet::new(),
        })
    }

    pub(super) fn done(&self) -> usize {
        self.total - self.unfinished.len()
    }

    pub(super) fn is_over(&self) -> bool {
        self.unfinished.is_empty()
    }

    /// Any task that has not ended.
    pub(super) fn oldest(&self) -> Option<String> {
        self.unfinished.front().map(ToString::to_string)
    }

    /// Looks again. `true` if so much has ended that another look is worth it at once.
    pub(super) async fn look(&mut self, context: &Context) -> Result<bool> {
        let n_before = self.unfinished.len();
        let n_looked_at = n_before.min(WINDOW);
        let live = self.live(context).await?;
        let mut settled_in_window = 0;
        for _ in 0..n_looked_at {
            let Some(id) = self.unfinished.pop_front() else { break };
            if live.contains(&id) {
                self.unfinished.push_back(id);
            } else {
                settled_in_window += 1;
            }
        }
        // What is still live goes back to the front.
        self.unfinished.rotate_right(n_looked_at - settled_in_window);
        if settled_in_window > 0 {
            self.failed = unsuccessful(context, &self.run).await?.len();
        }
        Ok(settled_in_window == WINDOW)
    }

    /// The live tasks among the oldest that were not known to have ended.
    async fn live(&mut self, context: &Context) -> Result<BTreeSet<TaskId>> {
        let mut pages = Pages::of_run(&self.run, &LIVE);
        // The page begins before the first task that is not looked at.
        if let Some(bound) = self.unfinished.get(WINDOW) {
            pages = pages.before(bound.to_string());
        }
        let first = self.unfinished.front().copied();
        let mut live = BTreeSet::new();
        self.running = 0;
        while let Some(page) = pages.next(context).await? {
            for task in page {
                self.running += usize::from(task.state == State::Running);
                self.workers.extend(task.lease.map(|lease| lease.worker_id));
                live.extend(task.task_id.parse::<TaskId>().ok());
            }
            // Whatever is older has ended.
            let next = pages.cursor().and_then(|cursor| cursor.parse::<TaskId>().ok());
            if next.is_some() && next <= first {
                break;
            }
        }
        Ok(live)
    }
}

/// The tasks that ended without success, in the order of submission.
pub(super) async fn unsuccessful(context: &Context, run: &str) -> Result<Vec<Task>> {
    let mut tasks = Pages::of_run(run, &UNSUCCESSFUL).all(context).await?;
    tasks.reverse();
    Ok(tasks)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use protocol::rest::tasks::SubmittedTask;
    use server::app::Options;

    use super::*;
    use crate::commands::run::flags::RunFlags;
    use crate::commands::run::{plan, stop, submit};
    use crate::config::{self, Flags, ServerFlags};
    use crate::embedded::EmbeddedServer;
    use crate::output::{Color, Format, Output};

    #[tokio::test]
    async fn only_what_has_ended_is_counted_however_many_are_left() {
        let folder = tempfile::tempdir().expect("folder");
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let options = Options { dev: true, ..Options::new(folder.path(), any_port) };
        let server = EmbeddedServer::start(options).await.expect("starts");
        let context = context_of(&server);
        let ids = submit_numbers(&context, "1-1300").await;
        let mut tally = Tally::new("r1", &ids).expect("ids");
        assert!(!tally.look(&context).await.expect("looks"));
        assert_eq!((tally.done(), tally.failed), (0, 0));
        for number in [1, 700, 1300] {
            let path = format!("/api/v1/tasks/{}/cancel", ids[number - 1]);
            let _: Task = context.client.post(&path, &serde_json::json!({})).await.expect("stops");
        }
        tally.look(&context).await.expect("looks");
        assert_eq!((tally.done(), tally.failed), (2, 3), "the newest is not looked at yet");
        assert_eq!(tally.oldest(), Some(ids[1].clone()));
        stop::all(&context, "r1").await.expect("stops");
        assert!(tally.look(&context).await.expect("looks"), "there is more to see at once");
        assert!(!tally.is_over());
        tally.look(&context).await.expect("looks");
        assert!(tally.is_over() && tally.failed == 1300);
        server.stop().await;
    }

    fn context_of(server: &EmbeddedServer) -> Context {
        let server = Some(format!("http://{}", server.http_addr()));
        let flags = Flags { server, ..Flags::default() };
        let config = config::load(&flags, ServerFlags::default()).expect("loads");
        Context::new(&config, Output::new(Format::Text, Color::Never)).expect("an address")
    }

    async fn submit_numbers(context: &Context, numbers: &str) -> Vec<String> {
        let flags = RunFlags { array: numbers.parse().ok(), ..RunFlags::default() };
        let name = "r1".parse().expect("a name");
        let tasks = plan::tasks(&flags, &["true".into()], &name).expect("fits");
        let submitted = submit::all(context, tasks).await.expect("submits");
        submitted.into_iter().map(|task: SubmittedTask| task.task_id).collect()
    }
}
