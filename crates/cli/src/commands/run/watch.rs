//! Where a task stands while its output is followed: who runs it, or why nobody does.

use std::time::{Duration, Instant};

use protocol::rest::tasks::{Explanation, Reason, State, Task};
use tokio::sync::mpsc;

use crate::context::Context;

/// The first look; the pause doubles up to the longest.
const LOOK_AFTER: Duration = Duration::from_millis(25);
const LOOK_EVERY_MAX: Duration = Duration::from_secs(2);
/// Who waits no longer than this needs no reason.
const WHY_AFTER: Duration = Duration::from_secs(2);
const NOTICES_MAX: usize = 16;
/// The most telling come first.
const REASONS_MAX: usize = 3;

/// What is worth telling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// A worker has it.
    Started { worker: String, attempt: u32 },
    /// Nobody has it any more: its attempt failed, or its worker was lost.
    WaitsAgain { state: State },
    /// Why nobody has it, and what to do about it.
    Waits { reasons: Vec<String>, hints: Vec<String> },
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
        told_reason: String::new(),
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
    told_reason: String,
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
                self.told_reason.clear();
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
        let path = format!("/api/v1/tasks/{}/explain", self.task_id);
        let Ok(explanation) = self.context.client.get::<Explanation>(&path).await else { return };
        let told: Vec<_> = explanation.reasons.into_iter().take(REASONS_MAX).collect();
        let kinds: String = told.iter().map(kind).collect();
        if kinds != std::mem::replace(&mut self.told_reason, kinds.clone()) {
            let hints = told.iter().filter_map(with_way_out).collect();
            let reasons = told.into_iter().map(|reason| reason.message).collect();
            let _ = self.sender.send(Notice::Waits { reasons, hints }).await;
        }
    }
}

/// The reason without its numbers, which change from moment to moment.
fn kind(reason: &Reason) -> String {
    let words = reason.message.chars().filter(|letter| !letter.is_ascii_digit());
    format!("{} {}", reason.code, words.collect::<String>())
}

fn with_way_out(reason: &Reason) -> Option<String> {
    let hint = reason.hint.clone()?;
    let is_tool = reason.code == "lacking" && reason.message.contains(" tool ");
    Some(if is_tool { format!("{hint}, or run with --no-tool-check") } else { hint })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_the_same_while_only_its_numbers_change() {
        let reason = |message: &str| Reason {
            code: "behind".into(),
            message: message.into(),
            hint: Some("install ffmpeg".into()),
            count: None,
        };
        assert_eq!(kind(&reason("3 tasks go first")), kind(&reason("12 tasks go first")));
        assert_ne!(kind(&reason("3 tasks go first")), kind(&reason("no worker")));
        let tool = Reason { code: "lacking".into(), ..reason("1 worker lacks tool ffmpeg") };
        let hint = with_way_out(&tool).expect("a hint");
        assert_eq!(hint, "install ffmpeg, or run with --no-tool-check");
    }
}
