//! Stays with a run of many tasks: how far it is, found out with few questions, then what failed.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use model::TaskId;
use protocol::rest::tasks::{State, Task};
use serde::Serialize;

use super::follow::{self, WaitReasons};
use super::run_output::{self, RunOutput};
use super::selector;
use super::submit::Parameters;
use crate::context::{AWAY_MAX, Context};
use crate::failure::{ExitCode, Failure, Result};
use crate::format;
use crate::interrupts::Interrupts;
use crate::output;

/// Questions are asked no more often.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The first look comes sooner: short runs are over by then.
const FIRST_LOOK_AFTER: Duration = Duration::from_millis(50);
/// A server that needs long for an answer is asked less often: looking takes at most so much of
/// its time.
const PAUSES_PER_LOOK: u32 = 9;
/// Nothing runs and nothing ends for so long: somebody should know why.
const WHY_AFTER: Duration = Duration::from_secs(2);
/// Without a terminal a line is written for each step.
const STEPS: usize = 10;
/// More failures than this are counted, and not listed.
pub(super) const FAILURES_SHOWN: usize = 20;

/// What is followed.
pub(super) struct Many {
    pub(super) run: String,
    pub(super) title: String,
    pub(super) task_ids: Vec<String>,
    pub(super) run_output: RunOutput,
}

/// Follows to the end of all tasks.
pub(super) async fn follow(many: Many, context: &Context) -> Result<ExitCode> {
    let mut interrupts = Interrupts::new()?;
    let started = Instant::now();
    let counts = RunCounts::new(&many.run, &many.task_ids)?;
    many.run_output.note(format!("run {} · {} × {}", many.run, many.title, counts.total));
    let mut display = Display::new(many.run_output, &counts);
    let mut poller = Poller { counts, context, seen: started, quiet_since: started };
    let mut pause = FIRST_LOOK_AFTER;
    loop {
        tokio::select! {
            biased;
            () = interrupts.next() => {
                display.bar.finish_and_clear();
                return follow::leave(interrupts, &many.run, many.run_output, context).await;
            }
            () = tokio::time::sleep(pause) => {}
        }
        pause = poller.look(&mut display).await?;
        if poller.counts.is_over() {
            break;
        }
    }
    display.bar.finish_and_clear();
    end(&many, &poller.counts, started.elapsed(), context).await
}

struct Poller<'a> {
    counts: RunCounts,
    context: &'a Context,
    /// When the server last answered.
    seen: Instant,
    /// Since when nothing runs.
    quiet_since: Instant,
}

impl Poller<'_> {
    /// One look; gives the pause until the next.
    async fn look(&mut self, display: &mut Display) -> Result<Duration> {
        let asked = Instant::now();
        let is_urgent = match self.counts.look(self.context).await {
            Ok(is_urgent) => is_urgent,
            Err(failure) if self.is_tolerated(&failure) => return Ok(LOOK_EVERY),
            Err(failure) => return Err(failure),
        };
        self.seen = Instant::now();
        display.show(&self.counts);
        if self.counts.running > 0 || self.counts.is_over() {
            self.quiet_since = Instant::now();
        } else if self.quiet_since.elapsed() > WHY_AFTER {
            display.say_why(&self.counts, self.context).await;
        }
        if is_urgent {
            return Ok(Duration::ZERO);
        }
        Ok(LOOK_EVERY.max(asked.elapsed() * PAUSES_PER_LOOK))
    }

    /// A server that restarts comes back.
    fn is_tolerated(&self, failure: &Failure) -> bool {
        failure.exit == ExitCode::Unreachable && self.seen.elapsed() < AWAY_MAX
    }
}

/// A bar on a terminal, lines elsewhere.
struct Display {
    run_output: RunOutput,
    bar: ProgressBar,
    /// The last step that was told.
    step: usize,
    told: Option<WaitReasons>,
}

impl Display {
    fn new(run_output: RunOutput, counts: &RunCounts) -> Self {
        let look = "  {bar:20}  {pos}/{len}  {msg}  ~{eta} left";
        let total = Some(counts.total as u64);
        let bar = output::progress_bar(run_output.is_for_people(), total, look);
        Self { run_output, bar, step: 0, told: None }
    }

    fn show(&mut self, counts: &RunCounts) {
        let state = format!("{} running  {} failed", counts.running, counts.failed);
        let step = counts.done() * STEPS / counts.total.max(1);
        if self.bar.is_hidden() && step > self.step && !counts.is_over() {
            self.run_output.note(format!("  {}/{}  {state}", counts.done(), counts.total));
            self.step = step;
        }
        self.bar.set_message(state);
        self.bar.set_position(counts.done() as u64);
    }

    async fn say_why(&mut self, counts: &RunCounts, context: &Context) {
        let Some(oldest) = counts.oldest() else { return };
        let Some(why) = WaitReasons::ask(context, &oldest).await else { return };
        if !why.is_like(self.told.as_ref()) {
            self.bar.suspend(|| why.lines().for_each(|line| self.run_output.note(line)));
        }
        self.told = Some(why);
    }
}

/// How a run of many tasks ended.
#[derive(Serialize)]
struct ManyEnded {
    run: String,
    tasks: usize,
    succeeded: usize,
    failures: Vec<FailedItem>,
}

/// A task that ended without success.
#[derive(Serialize)]
pub(super) struct FailedItem {
    pub(super) task_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) item: Option<String>,
    state: State,
    pub(super) reason: String,
}

async fn end(
    many: &Many,
    counts: &RunCounts,
    took: Duration,
    context: &Context,
) -> Result<ExitCode> {
    let failures: Vec<FailedItem> =
        unsuccessful(context, &many.run).await?.iter().map(failed_item).collect();
    let succeeded = counts.total.saturating_sub(failures.len());
    let (run, tasks) = (many.run.clone(), counts.total);
    let ended = ManyEnded { run, tasks, succeeded, failures };
    let state = if ended.failures.is_empty() { State::Completed } else { State::Failed };
    let mark = format::look(state).styled_mark();
    let took = format::span(took);
    let jobs = format::count(tasks, "task");
    if ended.failures.is_empty() {
        many.run_output.note(format!("{mark} run {} succeeded in {took}  ({jobs})", ended.run));
    } else {
        let n_failed = format::thousands(ended.failures.len() as u64);
        many.run_output
            .note(format!("{mark} run {} failed: {n_failed} of {jobs}, in {took}", ended.run));
        list_failures(many.run_output, &ended);
    }
    many.run_output.data(&ended);
    Ok(if state == State::Completed { ExitCode::Success } else { ExitCode::Failed })
}

fn list_failures(run_output: RunOutput, ended: &ManyEnded) {
    for failure in ended.failures.iter().take(FAILURES_SHOWN) {
        let item = failure.item.as_deref().unwrap_or(&failure.task_id);
        run_output.note(format!("  {item}: {}", failure.reason));
    }
    if ended.failures.len() > FAILURES_SHOWN {
        run_output.note(format!("  and {} more", ended.failures.len() - FAILURES_SHOWN));
    }
    run_output.note(format!("  more: astra run show {0}; astra run logs {0} ITEM", ended.run));
}

pub(super) fn failed_item(task: &Task) -> FailedItem {
    let item = Parameters::of(&task.parameters).item().map(ToOwned::to_owned);
    let reason = match task.state {
        State::Stopped => "stopped".to_owned(),
        _ => run_output::why(task),
    };
    FailedItem { task_id: task.task_id.clone(), item, state: task.state, reason }
}

pub(super) const LIVE: [State; 4] =
    [State::Waiting, State::Queued, State::Retrying, State::Running];
pub(super) const UNSUCCESSFUL: [State; 3] = [State::Failed, State::Dead, State::Stopped];

/// Tasks end about in the order of their submission, so that it is enough to look at the oldest
/// that have not ended, however many there are.
const WINDOW: usize = 1_000;

/// A run of many tasks, as far as it is known.
pub(super) struct RunCounts {
    run: String,
    /// In the order of submission.
    unfinished: VecDeque<TaskId>,
    pub(super) total: usize,
    pub(super) running: usize,
    pub(super) failed: usize,
    pub(super) workers: BTreeSet<String>,
}

impl RunCounts {
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
        let mut pages = selector::tasks_of(&self.run, &LIVE);
        // The page begins before the first task that is not looked at.
        if let Some(bound) = self.unfinished.get(WINDOW) {
            pages = pages.before(bound.to_string());
        }
        let first = self.unfinished.front().copied();
        let mut live = BTreeSet::new();
        self.running = 0;
        while let Some(page) = pages.next(context, usize::MAX).await? {
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
    let mut tasks = selector::tasks_of(run, &UNSUCCESSFUL).all(context).await?;
    tasks.reverse();
    Ok(tasks)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use protocol::rest::tasks::SubmittedTask;
    use server::app::Options;

    use super::super::submit::RunFlags;
    use super::super::{change, submit};
    use super::*;
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
        let mut counts = RunCounts::new("r1", &ids).expect("ids");
        assert!(!counts.look(&context).await.expect("looks"));
        assert_eq!((counts.done(), counts.failed), (0, 0));
        for number in [1, 700, 1300] {
            let path = format!("/api/v1/tasks/{}/cancel", ids[number - 1]);
            let _: Task = context.client.post(&path, &serde_json::json!({})).await.expect("stops");
        }
        counts.look(&context).await.expect("looks");
        assert_eq!((counts.done(), counts.failed), (2, 3), "the newest is not looked at yet");
        assert_eq!(counts.oldest(), Some(ids[1].clone()));
        change::stop_all(&context, "r1").await.expect("stops");
        assert!(counts.look(&context).await.expect("looks"), "there is more to see at once");
        assert!(!counts.is_over());
        counts.look(&context).await.expect("looks");
        assert!(counts.is_over() && counts.failed == 1300);
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
        let tasks = submit::tasks(&flags, &["true".into()], &name).expect("fits");
        let submitted = submit::submit_all(context, tasks).await.expect("submits");
        submitted.into_iter().map(|task: SubmittedTask| task.task_id).collect()
    }
}
