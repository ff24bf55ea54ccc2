//! Stays with an action until all its jobs are over.

use std::time::{Duration, Instant};

use protocol::rest::actions::{Action, ActionCounts, ActionJob};
use protocol::rest::tasks::State;

use super::{headline, look};
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::run::interrupted;
use crate::words;

/// The first look; the pause doubles up to the longest.
const LOOK_AFTER: Duration = Duration::from_millis(50);
const LOOK_EVERY_MAX: Duration = Duration::from_secs(1);
/// So long without the server, and it is given up.
const AWAY_MAX: Duration = Duration::from_mins(1);
/// More failures than this are counted, and not listed.
const FAILURES_SHOWN: usize = 20;

/// Follows to the end; success only if every job succeeded.
pub(super) async fn run(name: &str, context: &Context) -> Result<ExitCode> {
    let started = Instant::now();
    let action = tokio::select! {
        action = until_over(name, context) => action?,
        Ok(()) = tokio::signal::ctrl_c() => return Err(interrupted(&format!(
            "the jobs go on; come back with `astra action status {name} --follow`, stop them with \
             `astra action cancel {name}`"
        ))),
    };
    if context.output.is_for_people() {
        tell_end(&action, started.elapsed(), context);
    } else {
        context.output.show(&action);
    }
    Ok(if action.state == State::Completed { ExitCode::Success } else { ExitCode::Failed })
}

async fn until_over(name: &str, context: &Context) -> Result<Action> {
    let (mut seen, mut pause) = (Instant::now(), LOOK_AFTER);
    let mut told = None;
    loop {
        match look(name, context).await {
            Ok(action) if action.state.is_terminal() => return Ok(action),
            Ok(action) => {
                seen = Instant::now();
                let now = (done(&action.counts), action.counts.running);
                if told.replace(now) != Some(now) {
                    tell(&action.counts, context);
                }
            }
            // A server that restarts comes back.
            Err(failure) if failure.exit == ExitCode::Unreachable && seen.elapsed() < AWAY_MAX => {}
            Err(failure) => return Err(failure),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LOOK_EVERY_MAX);
    }
}

fn done(counts: &ActionCounts) -> u64 {
    counts.completed + counts.failed + counts.dead + counts.stopped
}

fn tell(counts: &ActionCounts, context: &Context) {
    let failed = counts.failed + counts.dead;
    context.output.note(format!(
        "  {}/{} done  {} running  {failed} failed",
        done(counts),
        counts.total,
        counts.running
    ));
}

fn tell_end(action: &Action, took: Duration, context: &Context) {
    let jobs = words::count(usize::try_from(action.counts.total).unwrap_or(usize::MAX), "job");
    let took = words::span(took);
    let head = headline(action.state);
    context.output.note(format!("{head}: action {} after {took} ({jobs})", action.action_id));
    let is_bad = |job: &&ActionJob| job.state != State::Completed;
    let bad: Vec<_> = action.jobs.iter().flatten().filter(is_bad).collect();
    for job in bad.iter().take(FAILURES_SHOWN) {
        let reason = job.reason.as_deref().unwrap_or(words::state(job.state));
        context.output.note(format!("  {}: {reason}", job.job_id));
    }
    if bad.len() > FAILURES_SHOWN {
        context.output.note(format!("  and {} more", bad.len() - FAILURES_SHOWN));
    }
    context.output.note("  results: astra task show JOB".to_owned());
}
