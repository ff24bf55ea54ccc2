//! Stays with a run of one command: its output as it comes, where it stands, then how it ended.

use std::io;
use std::time::{Duration, Instant};

use protocol::rest::logs::LogLine;
use protocol::rest::tasks::{Explanation, Reason, State, Task};
use tokio::sync::mpsc;

use super::change;
use super::progress::{self, Many};
use super::run_output::{self, LogEvent, LogReader, ResultOutput, RunOutput};
use super::selector::{self, Found, FoundRun};
use super::submit::Parameters;
use crate::commands::task;
use crate::context::Context;
use crate::duration::Span;
use crate::failure::{ExitCode, Failure, Result};
use crate::format;
use crate::interrupts::Interrupts;
use crate::workflow_run::{self, Manner};

/// Follow a run to its end: its output from the start, or its nodes.
#[derive(Debug, clap::Args)]
pub(super) struct FollowArguments {
    /// The run: its name or number, the first letters of its name or id, `last` or `last~1`.
    run: String,
    /// Skip the output so far.
    #[arg(long)]
    tail: bool,
    /// Exit with the command's own code; 128 and the signal's number if a signal killed it.
    #[arg(long)]
    propagate: bool,
    /// Print only the output of the command.
    #[arg(short, long)]
    quiet: bool,
}

pub(super) async fn follow(arguments: &FollowArguments, context: &Context) -> Result<ExitCode> {
    let FoundRun { name, tasks } = match selector::find(context, &arguments.run).await? {
        Found::Commands(found) => found,
        Found::Workflow(run) => {
            return workflow_run::follow(run.run_id, run.number, Manner::Nodes, context).await;
        }
    };
    let run_output = RunOutput::new(context.output, arguments.quiet);
    let title = Parameters::of(&tasks[0].parameters).title().to_owned();
    let mut task_ids: Vec<String> = tasks.into_iter().map(|task| task.task_id).collect();
    if task_ids.len() > 1 {
        return progress::follow(Many { run: name, title, task_ids, run_output }, context).await;
    }
    let task_id = task_ids.remove(0);
    let offset = if arguments.tail { run_output::log_end(context, &task_id).await? } else { 0 };
    let propagates = arguments.propagate;
    follow_task(Attachment { run: name, title, task_id, offset, propagates, run_output }, context)
        .await
}

pub(super) async fn wait(
    runs: &[String],
    timeout: Option<Span>,
    context: &Context,
) -> Result<ExitCode> {
    let all = async {
        let mut exit = ExitCode::Success;
        for selector in runs {
            match one(selector::find(context, selector).await?, context).await? {
                ExitCode::Success => {}
                ExitCode::Interrupted => return Ok(ExitCode::Interrupted),
                _ => exit = ExitCode::Failed,
            }
        }
        Ok(exit)
    };
    let limit = timeout.map_or(Duration::MAX, |timeout| timeout.0);
    tokio::time::timeout(limit, all).await.unwrap_or_else(|_| {
        Err(Failure::new(
            ExitCode::WaitTimeout,
            "the wait is over, the work is not",
            "it goes on; look with `astra run list`",
        ))
    })
}

async fn one(found: Found, context: &Context) -> Result<ExitCode> {
    let FoundRun { name: run, tasks } = match found {
        Found::Commands(found) => found,
        Found::Workflow(run) => {
            return workflow_run::follow(run.run_id, run.number, Manner::EndAlone, context).await;
        }
    };
    let run_output = RunOutput::new(context.output, false);
    if let [task] = tasks.as_slice() {
        let task = task::until_ended(context, &task.task_id).await?;
        run_output.note(run_output::headline(&run, &task));
        run_output.data(&task);
        return Ok(run_output::exit_code(&task, false));
    }
    let title = Parameters::of(&tasks[0].parameters).title().to_owned();
    let task_ids = tasks.into_iter().map(|task| task.task_id).collect();
    progress::follow(Many { run, title, task_ids, run_output }, context).await
}

/// A command that starts sooner is told once, with its worker.
const WAITING_AFTER: Duration = Duration::from_millis(150);

/// What is followed, and how it is told.
#[derive(Clone, Debug)]
pub(super) struct Attachment {
    pub(super) run: String,
    /// The program's name.
    pub(super) title: String,
    pub(super) task_id: String,
    /// From which byte of its output on.
    pub(super) offset: u64,
    pub(super) propagates: bool,
    pub(super) run_output: RunOutput,
}

/// Follows to the end of the command.
pub(super) async fn follow_task(attachment: Attachment, context: &Context) -> Result<ExitCode> {
    let mut interrupts = Interrupts::new()?;
    let (id, offset) = (&attachment.task_id, attachment.offset);
    let mut log = LogReader::new(context, id, offset, true).spawn();
    let mut notices = if attachment.run_output.is_for_people() {
        watch(context, id)
    } else {
        // Nobody would hear them.
        mpsc::channel(1).1
    };
    let mut attached = Attached::new(attachment, context);
    let waiting = tokio::time::sleep(WAITING_AFTER);
    tokio::pin!(waiting);
    loop {
        tokio::select! {
            biased;
            () = interrupts.next() => {
                return leave(interrupts, &attached.about.run, attached.about.run_output, context).await;
            }
            heard = log.recv() => match heard.unwrap_or(Ok(LogEvent::End)).map_err(|f| attached.cut(f))? {
                LogEvent::Line(line) => attached.line(&line).await?,
                LogEvent::Away => attached.note("the server does not answer; waiting for it"),
                LogEvent::Back => attached.note("the server is back"),
                LogEvent::End => break,
            },
            Some(notice) = notices.recv() => attached.notice(notice),
            () = &mut waiting, if !attached.has_headline => attached.headline("waiting"),
        }
    }
    attached.end().await
}

/// What was told so far.
struct Attached<'a> {
    about: Attachment,
    context: &'a Context,
    has_headline: bool,
    /// The worker that was told.
    worker: String,
    has_output: bool,
    /// Whether the output stands in the middle of a line.
    is_mid_line: bool,
}

impl<'a> Attached<'a> {
    fn new(about: Attachment, context: &'a Context) -> Self {
        let worker = String::new();
        let (has_headline, has_output, is_mid_line) = (false, false, false);
        Self { about, context, has_headline, worker, has_output, is_mid_line }
    }

    fn note(&mut self, text: impl std::fmt::Display) {
        if std::mem::take(&mut self.is_mid_line) {
            self.about.run_output.break_line();
        }
        self.about.run_output.note(text);
    }

    fn headline(&mut self, state: &str) {
        self.has_headline = true;
        let text = format!("run {} · {} · {state}", self.about.run, self.about.title);
        self.note(text);
    }

    async fn line(&mut self, line: &LogLine) -> Result<()> {
        if !self.has_headline && self.about.run_output.is_for_people() {
            // Output came before the first look: who runs it is one question away.
            let worker = look(self.context, &self.about.task_id).await.and_then(worker_of);
            self.worker = worker.unwrap_or_else(|| "running".into());
            self.headline(&self.worker.clone());
        }
        self.has_output = true;
        self.about.run_output.line(line).map_err(|error| self.unread(&error))?;
        if let Some(last) = run_output::bytes_of(line).last() {
            self.is_mid_line = *last != b'\n';
        }
        Ok(())
    }

    fn notice(&mut self, notice: Notice) {
        match notice {
            // The first output told it already.
            Notice::Started { worker, attempt: 1 } if worker == self.worker => {}
            Notice::Started { worker, attempt: 1 } => {
                self.headline(&worker);
                self.worker = worker;
            }
            Notice::Started { worker, attempt } => {
                self.headline(&format!("{worker} · attempt {attempt}"));
                self.worker = worker;
            }
            Notice::WaitsAgain { state } => {
                let state = format::look(state).word.to_lowercase();
                self.headline(&format!("{state} again, after {}", self.worker.clone()));
            }
            Notice::Waits(why) => why.lines().for_each(|line| self.note(line)),
        }
    }

    /// Where to go on when the server was away for too long.
    fn cut(&self, failure: Failure) -> Failure {
        if failure.exit != ExitCode::Unreachable {
            return failure;
        }
        let run = &self.about.run;
        failure.with_hint(format!("the run may go on; follow it with `astra run follow {run}`"))
    }

    fn unread(&self, error: &io::Error) -> Failure {
        let run = &self.about.run;
        Failure::new(
            ExitCode::Failed,
            format!("nobody reads the output any more ({error}); run {run} goes on"),
            format!("follow it with `astra run follow {run}`, stop it with `astra run stop {run}`"),
        )
    }

    async fn end(mut self) -> Result<ExitCode> {
        let path = format!("/api/v1/tasks/{}", self.about.task_id);
        // The server may restart right now.
        let task = self.context.ask_patiently(|| self.context.client.get::<Task>(&path)).await?;
        let run = self.about.run.clone();
        if !self.has_headline {
            let worker = worker_of(task.clone());
            self.headline(&worker.unwrap_or_else(|| "not started".into()));
        }
        if !self.has_output && self.about.offset == 0 {
            self.late(&task)?;
        }
        self.note(run_output::headline(&run, &task));
        let exit = run_output::exit_code(&task, self.about.propagates);
        if exit != ExitCode::Success {
            let way_out = task.error.as_ref().and_then(run_output::way_out);
            let more = format!("  more: astra run show {run}");
            self.note(way_out.map_or(more, |way_out| format!("  → {way_out}")));
        }
        self.about.run_output.data(&task);
        Ok(exit)
    }

    /// A worker that keeps no log leaves its output in the result.
    fn late(&mut self, task: &Task) -> Result<()> {
        let written = ResultOutput::of(task);
        let run_output = self.about.run_output;
        let late = run_output
            .late("stdout", &written.stdout)
            .and_then(|()| run_output.late("stderr", &written.stderr));
        late.map_err(|error| self.unread(&error))?;
        self.is_mid_line = !written.stdout.is_empty() && !written.stdout.ends_with('\n');
        Ok(())
    }
}

async fn look(context: &Context, task_id: &str) -> Option<Task> {
    context.client.get(&format!("/api/v1/tasks/{task_id}")).await.ok()
}

fn worker_of(task: Task) -> Option<String> {
    task.lease.map(|lease| lease.worker_id).or(task.worker_id)
}

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
    Waits(WaitReasons),
}

/// Looks now and then until the task has ended or nobody listens.
pub(super) fn watch(context: &Context, task_id: &str) -> mpsc::Receiver<Notice> {
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
    told: Option<WaitReasons>,
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
        let Some(why) = WaitReasons::ask(&self.context, &self.task_id).await else { return };
        if !why.is_like(self.told.as_ref()) {
            let _ = self.sender.send(Notice::Waits(why.clone())).await;
        }
        self.told = Some(why);
    }
}

/// The most telling come first.
const REASONS_MAX: usize = 3;

/// Reasons, and what to do about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WaitReasons {
    reasons: Vec<String>,
    hints: Vec<String>,
    /// The same as long as only numbers change, which they do from moment to moment.
    kind: String,
}

impl WaitReasons {
    /// What the server says; `None` if it says nothing.
    pub(super) async fn ask(context: &Context, task_id: &str) -> Option<Self> {
        let path = format!("/api/v1/tasks/{task_id}/explain");
        let explanation: Explanation = context.client.get(&path).await.ok()?;
        Self::of(&explanation.reasons)
    }

    fn of(reasons: &[Reason]) -> Option<Self> {
        let told = reasons.get(..reasons.len().min(REASONS_MAX)).filter(|told| !told.is_empty())?;
        Some(Self {
            reasons: told.iter().map(|reason| reason.message.clone()).collect(),
            hints: told.iter().filter_map(way_out).collect(),
            kind: told.iter().map(kind).collect(),
        })
    }

    pub(super) fn is_like(&self, other: Option<&Self>) -> bool {
        other.is_some_and(|other| self.kind == other.kind)
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = String> + '_ {
        let reasons = self.reasons.iter().map(|reason| format!("  waiting: {reason}"));
        reasons.chain(self.hints.iter().map(|hint| format!("  → {hint}")))
    }
}

fn kind(reason: &Reason) -> String {
    let words = reason.message.chars().filter(|letter| !letter.is_ascii_digit());
    format!("{} {}\n", reason.code, words.collect::<String>())
}

fn way_out(reason: &Reason) -> Option<String> {
    let hint = reason.hint.clone()?;
    let is_tool = reason.code == "lacking" && reason.message.contains(" tool ");
    Some(if is_tool { format!("{hint}, or run with --no-tool-check") } else { hint })
}

/// After the first one.
pub(super) async fn leave(
    mut interrupts: Interrupts,
    run: &str,
    run_output: RunOutput,
    context: &Context,
) -> Result<ExitCode> {
    run_output.break_line();
    run_output.note(format!(
        "left run {run}, which goes on; follow it with `astra run follow {run}`, stop it with \
         `astra run stop {run}` or Ctrl-C again"
    ));
    if interrupts.is_repeated().await {
        let stopped = change::stop_all(context, run).await?;
        run_output.note(format!("■ run {run} was stopped ({})", stopped.in_words()));
    }
    Ok(ExitCode::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_the_same_while_only_their_numbers_change() {
        let few = why("behind", "3 tasks go first");
        assert!(why("behind", "12 tasks go first").is_like(Some(&few)));
        assert!(!why("no_workers", "no worker has asked").is_like(Some(&few)));
        assert!(!few.is_like(None));
        assert_eq!(WaitReasons::of(&[]), None);
    }

    #[test]
    fn a_missing_tool_can_be_ignored() {
        let lines: Vec<_> = why("lacking", "1 worker lacks tool ffmpeg").lines().collect();
        assert_eq!(lines[0], "  waiting: 1 worker lacks tool ffmpeg");
        assert_eq!(lines[1], "  → install it, or run with --no-tool-check");
    }

    fn why(code: &str, message: &str) -> WaitReasons {
        let hint = Some("install it".to_owned());
        let reason = Reason { code: code.into(), message: message.into(), hint, count: None };
        WaitReasons::of(&[reason]).expect("a reason")
    }
}
