//! Runs for moments that have passed.

use model::Timestamp;

use super::cron::{Times, wall_now};
use super::fire::start_due;
use super::registry::ScheduleKey;
use super::schedule::KeptSchedule;
use crate::app::App;
use crate::runs::start::{RunError, Started};

/// Runs that one call may start.
pub(crate) const BACKFILL_RUNS_MAX: usize = 1_000;

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
    /// A run could not be started; those before it exist.
    #[error(transparent)]
    Run(#[from] RunError),
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

/// Starts a run for each moment that has none. The same call again goes on where it stopped.
pub(crate) async fn backfill(
    app: &App,
    key: &ScheduleKey,
    schedule: &KeptSchedule,
    moments: Vec<Timestamp>,
) -> Result<Vec<Started>, BackfillError> {
    let mut started = Vec::with_capacity(moments.len());
    for due in moments {
        started.push(start_due(app, key, schedule, due).await?);
    }
    Ok(started)
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
