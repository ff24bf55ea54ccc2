//! Runs for moments that have passed.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use model::Timestamp;
use protocol::rest::schedules::Overlap;

use super::cron::Times;
use super::fire::{source, start_due, started_before};
use super::registry::{KeepError, ScheduleKey};
use super::schedule::KeptSchedule;
use crate::app::App;
use crate::clock::wall_now;
use crate::runs::start::{RunError, Started, check};

/// Runs that one call may start.
pub(crate) const BACKFILL_RUNS_MAX: usize = 1_000;
/// Runs of one call that are being started at the same time, where runs may overlap.
pub(crate) const BACKFILL_AT_ONCE_MAX: usize = 32;
/// Moments of the past that wait for their turn, of one schedule.
pub(crate) const BACKFILL_WAITING_MAX: usize = 1_000;

/// Why nothing is started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BackfillError {
    /// The end lies before the beginning.
    #[error("to lies before from")]
    Backwards,
    /// The end lies ahead.
    #[error("to lies ahead; only moments that have passed are taken up")]
    Ahead,
    /// There are too many moments.
    #[error("more than {BACKFILL_RUNS_MAX} moments lie between from and to")]
    TooMany,
    /// Too many wait from earlier calls.
    #[error("more than {BACKFILL_WAITING_MAX} times would wait for their runs")]
    TooManyWait,
    /// A run could not be started; others may exist.
    #[error(transparent)]
    Run(#[from] RunError),
    /// What is to be done could not be kept.
    #[error(transparent)]
    Keep(#[from] KeepError),
}

/// What came of the moments.
#[derive(Default)]
pub(crate) struct TakenUp {
    /// Runs that there are, oldest moment first.
    pub(crate) started: Vec<Started>,
    /// Moments whose runs start one after another, oldest first.
    pub(crate) waiting: Vec<Timestamp>,
}

/// The moments of a rule between two others, both included.
pub(crate) fn moments(
    times: &Times,
    from: Timestamp,
    to: Timestamp,
) -> Result<Vec<Timestamp>, BackfillError> {
    if to < from {
        return Err(BackfillError::Backwards);
    }
    if to > wall_now() {
        return Err(BackfillError::Ahead);
    }
    let before = Timestamp::from_millis(from.as_millis().saturating_sub(1));
    let mut found = Vec::new();
    let mut next = times.after(before);
    while let Some(moment) = next.filter(|moment| *moment <= to) {
        if found.len() == BACKFILL_RUNS_MAX {
            return Err(BackfillError::TooMany);
        }
        found.push(moment);
        next = times.after(moment);
    }
    Ok(found)
}

/// Sees to it that each moment has a run. The same call again goes on where it stopped.
///
/// People asked for each of the moments, so none is skipped, and none ends the run before: where
/// runs may not overlap, they follow each other.
pub(crate) async fn backfill(
    app: &App,
    key: &ScheduleKey,
    schedule: &KeptSchedule,
    moments: Vec<Timestamp>,
) -> Result<TakenUp, BackfillError> {
    match schedule.overlap {
        Overlap::Allow => together(app, key, schedule, moments).await,
        Overlap::Skip | Overlap::Queue | Overlap::Cancel => {
            one_after_another(app, key, schedule, moments).await
        }
    }
}

/// Starts the runs at once: they share the commits.
async fn together(
    app: &App,
    key: &ScheduleKey,
    schedule: &KeptSchedule,
    moments: Vec<Timestamp>,
) -> Result<TakenUp, BackfillError> {
    let starting = moments.into_iter().map(|due| start_due(app, key, schedule, due));
    let started = stream::iter(starting).buffered(BACKFILL_AT_ONCE_MAX).try_collect().await?;
    Ok(TakenUp { started, waiting: Vec::new() })
}

/// Leaves the runs to the clockwork, which starts each when the one before has ended.
async fn one_after_another(
    app: &App,
    key: &ScheduleKey,
    schedule: &KeptSchedule,
    moments: Vec<Timestamp>,
) -> Result<TakenUp, BackfillError> {
    let mut taken = TakenUp::default();
    for due in moments {
        match started_before(app, key, due).await? {
            Some(started) => taken.started.push(started),
            None => taken.waiting.push(due),
        }
    }
    if taken.waiting.is_empty() {
        return Ok(taken);
    }
    // Whoever asks for runs that can never start hears it now.
    check(app, &key.0, source(schedule)).await?;
    let mut is_too_much = false;
    let wait = |kept: &mut KeptSchedule| {
        let mut all = kept.backfill_ms.clone();
        all.extend(taken.waiting.iter().map(|due| due.as_millis()));
        all.sort_unstable();
        all.dedup();
        is_too_much = all.len() > BACKFILL_WAITING_MAX;
        if !is_too_much {
            kept.backfill_ms = all;
        }
    };
    app.schedules.change(key, wait).await?;
    if is_too_much { Err(BackfillError::TooManyWait) } else { Ok(taken) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_included_and_there_is_a_limit() {
        let times = Times::read("0 * * * *", "UTC").expect("a rule");
        let moment = |text: &str| text.parse::<Timestamp>().expect("a moment");
        let count = |from: &str, to: &str| {
            moments(&times, moment(from), moment(to)).map(|found| found.len())
        };
        assert_eq!(count("2026-01-31T03:00:00Z", "2026-01-31T05:00:00Z").ok(), Some(3));
        assert_eq!(count("2026-01-31T03:00:01Z", "2026-01-31T04:59:59Z").ok(), Some(1));
        assert_eq!(count("2026-01-31T03:00:01Z", "2026-01-31T03:00:01Z").ok(), Some(0));
        let wrong = |from: &str, to: &str| count(from, to).expect_err("refused").to_string();
        assert!(wrong("2026-01-31T05:00:00Z", "2026-01-31T03:00:00Z").contains("before"));
        assert!(wrong("2026-01-31T05:00:00Z", "9999-01-31T03:00:00Z").contains("ahead"));
        assert!(wrong("2025-01-31T05:00:00Z", "2026-01-31T03:00:00Z").contains("more than 1000"));
    }
}
