//! Runs for moments that have passed.

use std::sync::Arc;

use coordinator::{Calendar, Overlap, ScheduleRecord};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use model::{TenantId, Timestamp};

use super::prepare::{mark, request, source};
use crate::app::App;
use crate::clock::wall_now;
use crate::handle::{AskError, ShardHandle};
use crate::runs::start::{RunError, Started, check, earlier, start};

/// Runs that one call may start.
pub(crate) const BACKFILL_RUNS_MAX: usize = 1_000;
/// Runs of one call that are being started at the same time, where runs may overlap.
pub(crate) const BACKFILL_AT_ONCE_MAX: usize = 32;

/// Why nothing is started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BackfillError {
    /// The end is before the beginning.
    #[error("`to` is before `from`")]
    Backwards,
    /// The end is in the future.
    #[error("`to` is in the future; only moments that have passed are taken up")]
    Ahead,
    /// There are too many moments.
    #[error("more than {BACKFILL_RUNS_MAX} moments are between `from` and `to`")]
    TooMany,
    /// A run could not be started; others may exist.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Nobody answered, or the coordinator refused.
    #[error(transparent)]
    Ask(#[from] AskError),
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
    calendar: &Calendar,
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
    let mut next = calendar.after(before);
    while let Some(moment) = next.filter(|moment| *moment <= to) {
        if found.len() == BACKFILL_RUNS_MAX {
            return Err(BackfillError::TooMany);
        }
        found.push(moment);
        next = calendar.after(moment);
    }
    Ok(found)
}

/// Sees to it that each moment has a run. The same call again goes on where it stopped.
///
/// People asked for each of the moments, so none is skipped, and none ends the run before: where
/// runs may not overlap, they follow each other.
pub(crate) async fn backfill(
    app: &App,
    (tenant, handle): (&TenantId, &ShardHandle),
    schedule: &ScheduleRecord,
    moments: Vec<Timestamp>,
) -> Result<TakenUp, BackfillError> {
    if schedule.spec.overlap == Overlap::Allow {
        // They start at once and share the commits.
        let starting = moments.into_iter().map(|due| request(schedule.id, &schedule.spec, due));
        let starting = starting.map(|request| start(app, tenant, request));
        let started = stream::iter(starting).buffered(BACKFILL_AT_ONCE_MAX).try_collect().await?;
        return Ok(TakenUp { started, waiting: Vec::new() });
    }
    let mut taken = TakenUp::default();
    for due in moments {
        match earlier(&*app.store, handle.shard(), &mark(schedule.id, due)).await? {
            Some(record) => {
                taken.started.push(Started { record, existed: true, warnings: Arc::default() });
            }
            None => taken.waiting.push(due),
        }
    }
    if taken.waiting.is_empty() {
        return Ok(taken);
    }
    // Whoever asks for runs that can never start hears it now.
    check(app, handle.shard(), source(&schedule.spec)).await?;
    handle.backfill(schedule.id, taken.waiting.clone()).await?;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_included_and_there_is_a_limit() {
        let calendar = Calendar::read("0 * * * *", "UTC", wall_now()).expect("a rule");
        let moment = |text: &str| text.parse::<Timestamp>().expect("a moment");
        let count = |from: &str, to: &str| {
            moments(&calendar, moment(from), moment(to)).map(|found| found.len())
        };
        assert_eq!(count("2026-01-31T03:00:00Z", "2026-01-31T05:00:00Z").ok(), Some(3));
        assert_eq!(count("2026-01-31T03:00:01Z", "2026-01-31T04:59:59Z").ok(), Some(1));
        assert_eq!(count("2026-01-31T03:00:01Z", "2026-01-31T03:00:01Z").ok(), Some(0));
        let wrong = |from: &str, to: &str| count(from, to).expect_err("refused").to_string();
        assert!(wrong("2026-01-31T05:00:00Z", "2026-01-31T03:00:00Z").contains("before"));
        assert!(wrong("2026-01-31T05:00:00Z", "9999-01-31T03:00:00Z").contains("future"));
        assert!(wrong("2025-01-31T05:00:00Z", "2026-01-31T03:00:00Z").contains("more than 1000"));
    }
}
