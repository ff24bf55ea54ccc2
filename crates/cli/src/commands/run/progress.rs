//! Stays with a run of many tasks: how far it is, then what failed.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use protocol::rest::tasks::{State, Task};
use serde::Serialize;

use super::ending;
use super::interrupt;
use super::plan::Parameters;
use super::tally::{self, Tally};
use super::voice::Voice;
use super::why::Why;
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::interrupts::Interrupts;
use crate::output::{self, Show};
use crate::words;

/// Questions are asked no more often.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The first look comes sooner: short runs are over by then.
const FIRST_LOOK_AFTER: Duration = Duration::from_millis(50);
/// A server that needs long for an answer is asked less often: looking takes at most so much of
/// its time.
const PAUSES_PER_LOOK: u32 = 9;
/// So long without the server, and it is given up.
const AWAY_MAX: Duration = Duration::from_mins(1);
/// Nothing runs and nothing ends for so long: somebody should know why.
const WHY_AFTER: Duration = Duration::from_secs(2);
/// Without a terminal a line is written for each step.
const STEPS: usize = 10;
/// More failures than this are counted, and not listed.
const FAILURES_SHOWN: usize = 20;

/// What is followed.
pub(super) struct Many {
    pub(super) run: String,
    pub(super) title: String,
    pub(super) task_ids: Vec<String>,
    pub(super) voice: Voice,
}

/// Follows to the end of all tasks.
pub(super) async fn follow(many: Many, context: &Context) -> Result<ExitCode> {
    let mut interrupts = Interrupts::new()?;
    let started = Instant::now();
    let tally = Tally::new(&many.run, &many.task_ids)?;
    many.voice.note(format!("run {} · {} × {}", many.run, many.title, tally.total));
    let mut display = Display::new(many.voice, &tally);
    let mut counting = Counting { tally, context, seen: started, quiet_since: started };
    let mut pause = FIRST_LOOK_AFTER;
    loop {
        tokio::select! {
            biased;
            () = interrupts.next() => {
                display.finish();
                return interrupt::leave(interrupts, &many.run, many.voice, context).await;
            }
            () = tokio::time::sleep(pause) => {}
        }
        pause = counting.look(&mut display).await?;
        if counting.tally.is_over() {
            break;
        }
    }
    display.finish();
    end(&many, &counting.tally, started.elapsed(), context).await
}

struct Counting<'a> {
    tally: Tally,
    context: &'a Context,
    /// When the server last answered.
    seen: Instant,
    /// Since when nothing runs.
    quiet_since: Instant,
}

impl Counting<'_> {
    /// One look; gives the pause until the next.
    async fn look(&mut self, display: &mut Display) -> Result<Duration> {
        let asked = Instant::now();
        let is_urgent = match self.tally.look(self.context).await {
            Ok(is_urgent) => is_urgent,
            Err(failure) if self.is_endured(&failure) => return Ok(LOOK_EVERY),
            Err(failure) => return Err(failure),
        };
        self.seen = Instant::now();
        display.show(&self.tally);
        if self.tally.running > 0 || self.tally.is_over() {
            self.quiet_since = Instant::now();
        } else if self.quiet_since.elapsed() > WHY_AFTER {
            display.say_why(&self.tally, self.context).await;
        }
        if is_urgent {
            return Ok(Duration::ZERO);
        }
        Ok(LOOK_EVERY.max(asked.elapsed() * PAUSES_PER_LOOK))
    }

    /// A server that restarts comes back.
    fn is_endured(&self, failure: &Failure) -> bool {
        failure.exit == ExitCode::Unreachable && self.seen.elapsed() < AWAY_MAX
    }
}

/// A bar on a terminal, lines elsewhere.
struct Display {
    voice: Voice,
    bar: Option<ProgressBar>,
    /// The last step that was told.
    step: usize,
    told: Option<Why>,
}

impl Display {
    fn new(voice: Voice, tally: &Tally) -> Self {
        let has_bar = voice.is_for_people() && output::stderr_is_terminal();
        let bar = has_bar.then(|| {
            let bar = ProgressBar::with_draw_target(
                Some(tally.total as u64),
                ProgressDrawTarget::stderr(),
            );
            let look = "  {bar:20}  {pos}/{len}  {msg}  ~{eta} left";
            let style = ProgressStyle::with_template(look).expect("a good template");
            bar.set_style(style.progress_chars("█▌░"));
            bar
        });
        Self { voice, bar, step: 0, told: None }
    }

    fn show(&mut self, tally: &Tally) {
        let state = format!("{} running  {} failed", tally.running, tally.failed);
        if let Some(bar) = &self.bar {
            bar.set_message(state);
            bar.set_position(tally.done() as u64);
            return;
        }
        let step = tally.done() * STEPS / tally.total.max(1);
        if step > self.step && !tally.is_over() {
            self.voice.note(format!("  {}/{}  {state}", tally.done(), tally.total));
            self.step = step;
        }
    }

    async fn say_why(&mut self, tally: &Tally, context: &Context) {
        let Some(oldest) = tally.oldest() else { return };
        let Some(why) = Why::ask(context, &oldest).await else { return };
        if !why.is_like(self.told.as_ref()) {
            why.lines().for_each(|line| self.say(&line));
        }
        self.told = Some(why);
    }

    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| self.voice.note(text)),
            None => self.voice.note(text),
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
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

#[derive(Serialize)]
struct FailedItem {
    task_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<String>,
    state: State,
    reason: String,
}

async fn end(many: &Many, tally: &Tally, took: Duration, context: &Context) -> Result<ExitCode> {
    let failures: Vec<FailedItem> =
        tally::unsuccessful(context, &many.run).await?.iter().map(failed_item).collect();
    let succeeded = tally.total.saturating_sub(failures.len());
    let (run, tasks) = (many.run.clone(), tally.total);
    let ended = ManyEnded { run, tasks, succeeded, failures };
    let state = if ended.failures.is_empty() { State::Completed } else { State::Failed };
    let mark = output::styled(words::style(state), words::mark(state));
    let took = words::span(took);
    let jobs = words::count(tasks, "task");
    if ended.failures.is_empty() {
        many.voice.note(format!("{mark} run {} succeeded in {took}  ({jobs})", ended.run));
    } else {
        let n_failed = words::thousands(ended.failures.len() as u64);
        many.voice
            .note(format!("{mark} run {} failed: {n_failed} of {jobs}, in {took}", ended.run));
        list_failures(many.voice, &ended);
    }
    many.voice.data(&ended);
    Ok(if state == State::Completed { ExitCode::Success } else { ExitCode::Failed })
}

fn list_failures(voice: Voice, ended: &ManyEnded) {
    for failure in ended.failures.iter().take(FAILURES_SHOWN) {
        let item = failure.item.as_deref().unwrap_or(&failure.task_id);
        voice.note(format!("  {item}: {}", failure.reason));
    }
    if ended.failures.len() > FAILURES_SHOWN {
        voice.note(format!("  and {} more", ended.failures.len() - FAILURES_SHOWN));
    }
    voice.note(format!("  more: astra run show {0}; astra run logs {0} ITEM", ended.run));
}

fn failed_item(task: &Task) -> FailedItem {
    let item = Parameters::of(&task.parameters).item().map(ToOwned::to_owned);
    let reason = match task.state {
        State::Stopped => "stopped".to_owned(),
        _ => ending::why(task),
    };
    FailedItem { task_id: task.task_id.clone(), item, state: task.state, reason }
}

impl Show for ManyEnded {
    fn text(&self) -> String {
        String::new()
    }

    fn quiet(&self) -> String {
        String::new()
    }
}
