//! Where a task stands while its output is followed: who runs it, or why nobody does.

use std::time::{Duration, Instant};

use protocol::rest::tasks::{State, Task};
use tokio::sync::mpsc;

use super::why::Why;
use crate::context::Context;

/// The first look; the pause doubles up to the longest.
const LOOK_AFTER: Duration = Duration::from_millis(25);
const LOOK_EVERY_MAX: Duration = Duration::from_secs(2);
/// Who waits no longer than this needs no reason.
const WHY_AFTER: Duration = Duration::from_secs(2);
const NOTICES_MAX: usize = 16;

/// What is worth telling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// A worker has it.
    Started { worker: String, attempt: u32 },
    /// Nobody has it any more: its attempt failed, or its worker was lost.
    WaitsAgain { state: State },
    /// Why nobody has it.
    Waits(Why),
}

/// Looks now and then until the task has ended or nobody listens.
pub(super) fn spawn(context: &Context, task_id: &str) -> mpsc::Receiver<Notice> {
    let (sender, receiver) = mpsc::channel(NOTICES_MAX);
    let watch = Watch {
        context: context.clone(),
        task_id: task_id.into(),
        sender,
        running: None,
        waiting_since: Instant::now(),
        told: None,
    };
    tokio::spawn(watch.run());
    receiver
}

struct Watch {
    context: Context,
    task_id: String,
    sender: mpsc::Sender<Notice>,
    /// The attempt that runs.
    running: Option<u32>,
    waiting_since: Instant,
    /// The reasons that were told.
    told: Option<Why>,
}

impl Watch {
    async fn run(mut self) {
        let mut pause = LOOK_AFTER;
        let path = format!("/api/v1/tasks/{}", self.task_id);
        while !self.sender.is_closed() {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LOOK_EVERY_MAX);
            // What goes wrong here is told by whoever reads the output.
            let Ok(task) = self.context.client.get::<Task>(&path).await else { continue };
            if task.state.is_terminal() {
                return;
            }
            if let Some(notice) = self.changed(&task) {
                let _ = self.sender.send(notice).await;
            }
            if self.running.is_none() && self.waiting_since.elapsed() >= WHY_AFTER {
                self.say_why().await;
            }
        }
    }

    fn changed(&mut self, task: &Task) -> Option<Notice> {
        match &task.lease {
            Some(lease) if self.running != Some(task.attempt) => {
                self.running = Some(task.attempt);
                self.told = None;
                let worker = lease.worker_id.clone();
                Some(Notice::Started { worker, attempt: task.attempt })
            }
            None if self.running.take().is_some() => {
                self.waiting_since = Instant::now();
                Some(Notice::WaitsAgain { state: task.state })
            }
            Some(_) | None => None,
        }
    }

    async fn say_why(&mut self) {
        let Some(why) = Why::ask(&self.context, &self.task_id).await else { return };
        if !why.is_like(self.told.as_ref()) {
            let _ = self.sender.send(Notice::Waits(why.clone())).await;
        }
        self.told = Some(why);
    }
}
