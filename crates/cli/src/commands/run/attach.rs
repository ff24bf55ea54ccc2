//! Stays with a run of one command: its output as it comes, then how it ended.

use std::io;
use std::time::{Duration, Instant};

use protocol::rest::logs::LogLine;
use protocol::rest::tasks::Task;
use tokio::sync::mpsc;

use super::ending::{self, Written};
use super::interrupt;
use super::log_reader::{Heard, LogReader};
use super::voice::{self, Voice};
use super::watch::{self, Notice};
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::interrupts::Interrupts;
use crate::words;

/// A command that starts sooner is told once, with its worker.
const WAITING_AFTER: Duration = Duration::from_millis(150);
/// How long one question waits at the server.
const WAIT: Duration = Duration::from_secs(20);
/// So long without the server, and it is given up.
const AWAY_MAX: Duration = Duration::from_mins(1);
/// How long the last look at a task is tried.
const LAST_LOOK_WITHIN: Duration = Duration::from_secs(15);
const LAST_LOOK_PAUSE: Duration = Duration::from_millis(200);

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
    pub(super) voice: Voice,
}

/// Follows to the end of the command.
pub(super) async fn follow(attachment: Attachment, context: &Context) -> Result<ExitCode> {
    let mut interrupts = Interrupts::new()?;
    let (id, offset) = (&attachment.task_id, attachment.offset);
    let mut log = LogReader::new(context, id, offset, true).spawn();
    let mut notices = if attachment.voice.is_for_people() {
        watch::spawn(context, id)
    } else {
        // Nobody would hear them.
        mpsc::channel(1).1
    };
    let mut story = Story::new(attachment, context);
    let waiting = tokio::time::sleep(WAITING_AFTER);
    tokio::pin!(waiting);
    loop {
        tokio::select! {
            biased;
            () = interrupts.next() => {
                return interrupt::leave(interrupts, &story.about.run, story.about.voice, context).await;
            }
            heard = log.recv() => match heard.unwrap_or(Ok(Heard::End)).map_err(|f| story.cut(f))? {
                Heard::Line(line) => story.line(&line).await?,
                Heard::Away => story.note("the server does not answer; waiting for it"),
                Heard::Back => story.note("the server is back"),
                Heard::End => break,
            },
            Some(notice) = notices.recv() => story.notice(notice),
            () = &mut waiting, if !story.has_headline => story.headline("waiting"),
        }
    }
    story.end().await
}

/// What was told so far.
struct Story<'a> {
    about: Attachment,
    context: &'a Context,
    has_headline: bool,
    /// The worker that was told.
    worker: String,
    has_output: bool,
    /// Whether the output stands in the middle of a line.
    is_mid_line: bool,
}

impl<'a> Story<'a> {
    fn new(about: Attachment, context: &'a Context) -> Self {
        let worker = String::new();
        let (has_headline, has_output, is_mid_line) = (false, false, false);
        Self { about, context, has_headline, worker, has_output, is_mid_line }
    }

    fn note(&mut self, text: impl std::fmt::Display) {
        if std::mem::take(&mut self.is_mid_line) {
            self.about.voice.break_line();
        }
        self.about.voice.note(text);
    }

    fn headline(&mut self, state: &str) {
        self.has_headline = true;
        let text = format!("run {} · {} · {state}", self.about.run, self.about.title);
        self.note(text);
    }

    async fn line(&mut self, line: &LogLine) -> Result<()> {
        if !self.has_headline && self.about.voice.is_for_people() {
            // Output came before the first look: who runs it is one question away.
            let worker = look(self.context, &self.about.task_id).await.and_then(worker_of);
            self.worker = worker.unwrap_or_else(|| "running".into());
            self.headline(&self.worker.clone());
        }
        self.has_output = true;
        self.about.voice.line(line).map_err(|error| self.unread(&error))?;
        if let Some(last) = voice::bytes_of(line).last() {
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
                let state = words::state(state).to_lowercase();
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
        let task = last_look(self.context, &self.about.task_id).await?;
        let run = self.about.run.clone();
        if !self.has_headline {
            let worker = worker_of(task.clone());
            self.headline(&worker.unwrap_or_else(|| "not started".into()));
        }
        if !self.has_output && self.about.offset == 0 {
            self.late(&task)?;
        }
        self.note(ending::headline(&run, &task));
        let exit = ending::exit_code(&task, self.about.propagates);
        if exit != ExitCode::Success {
            let way_out = task.error.as_ref().and_then(ending::way_out);
            let more = format!("  more: astra run show {run}");
            self.note(way_out.map_or(more, |way_out| format!("  → {way_out}")));
        }
        self.about.voice.data(&task);
        Ok(exit)
    }

    /// A worker that keeps no log leaves its output in the result.
    fn late(&mut self, task: &Task) -> Result<()> {
        let written = Written::of(task);
        let voice = self.about.voice;
        let late = voice
            .late("stdout", &written.stdout)
            .and_then(|()| voice.late("stderr", &written.stderr));
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

/// Waits for the end of a task, however long it takes.
pub(super) async fn until_ended(context: &Context, task_id: &str) -> Result<Task> {
    let path = format!("/api/v1/tasks/{task_id}?wait_ms={}", WAIT.as_millis());
    let mut answered = Instant::now();
    loop {
        match context.client.get_waiting::<Task>(&path, WAIT).await {
            Ok(task) if task.state.is_terminal() => return Ok(task),
            Ok(_) => answered = Instant::now(),
            Err(error) if error.is_passing() && answered.elapsed() < AWAY_MAX => {
                tokio::time::sleep(LAST_LOOK_PAUSE).await;
            }
            Err(error) => return Err(context.explain(error)),
        }
    }
}

/// The task after its end, also when the server restarts right then.
async fn last_look(context: &Context, task_id: &str) -> Result<Task> {
    let path = format!("/api/v1/tasks/{task_id}");
    let started = Instant::now();
    loop {
        match context.client.get::<Task>(&path).await {
            Err(error) if error.is_passing() && started.elapsed() < LAST_LOOK_WITHIN => {
                tokio::time::sleep(LAST_LOOK_PAUSE).await;
            }
            answer => return answer.map_err(|error| context.explain(error)),
        }
    }
}
