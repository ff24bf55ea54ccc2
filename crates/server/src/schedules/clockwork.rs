//! The loop that starts runs when their time has come: one for all tenants.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use model::Timestamp;
use tokio_util::sync::CancellationToken;

use super::cron::Times;
use super::fire::{FireError, fire, fire_waiting};
use super::registry::{KeepError, ScheduleKey};
use super::schedule::KeptSchedule;
use crate::app::App;
use crate::clock::wall_now;

/// The loop looks at the wall's clock at least so often: it may be set.
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_secs(30);
/// How often runs are looked at that others wait for.
const LOOK_AT_WAITING_EVERY: Duration = Duration::from_secs(1);
/// A moment that could not be dealt with is tried again after this.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(2);

/// Runs until the server stops.
pub(crate) async fn run(app: Arc<App>, shutdown: CancellationToken) {
    let mut rules = Rules::default();
    loop {
        let pause = turn(&app, &mut rules).await;
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = app.schedules.changed.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Deals with every moment that has come; says when to look again.
async fn turn(app: &App, rules: &mut Rules) -> Duration {
    let mut pause = LOOK_AT_LEAST_EVERY;
    for (key, _) in app.schedules.all() {
        // As it is now: it may have been changed while others were dealt with.
        let Some(schedule) = app.schedules.get(&key) else { continue };
        let now = wall_now();
        let waits = match rules.of(&schedule) {
            Some(times) => one(app, (&key, &schedule), times, now).await,
            None => LOOK_AT_LEAST_EVERY,
        };
        pause = pause.min(waits);
    }
    pause
}

/// One schedule: how long until it has to be looked at again.
async fn one(
    app: &App,
    (key, schedule): (&ScheduleKey, &KeptSchedule),
    times: &Times,
    now: Timestamp,
) -> Duration {
    let mut pause = LOOK_AT_LEAST_EVERY;
    if schedule.next_waiting().is_some() {
        match fire_waiting(app, key, schedule).await {
            // What it came to is in the registry; the next look sees it.
            Ok(true) => return Duration::ZERO,
            Ok(false) => pause = LOOK_AT_WAITING_EVERY,
            Err(error) => return pause_after(key, &error),
        }
    }
    match schedule.next_due(times, now) {
        Some(due) if due <= now => match fire(app, key, schedule, due).await {
            Ok(()) => Duration::ZERO,
            Err(error) => pause_after(key, &error),
        },
        Some(due) => pause.min(due.since(now)),
        None => pause,
    }
}

/// A moment could not be dealt with: the log says why, and it is tried again.
fn pause_after(key: &ScheduleKey, error: &FireError) -> Duration {
    // Someone forgot the schedule in the meantime.
    if matches!(error, FireError::Keep(KeepError::Unknown)) {
        return Duration::ZERO;
    }
    let (tenant, schedule) = key;
    tracing::warn!(%tenant, %schedule, %error, "a schedule is tried again");
    TRY_AGAIN_AFTER
}

/// Rules that were read before, by their text: reading one costs more than a look.
#[derive(Default)]
struct Rules(HashMap<(String, String), Option<Times>>);

/// Rules that are remembered; then all are forgotten.
const RULES_MAX: usize = 10_000;

impl Rules {
    fn of(&mut self, schedule: &KeptSchedule) -> Option<&Times> {
        if self.0.len() > RULES_MAX {
            self.0.clear();
        }
        let key = (schedule.cron.clone(), schedule.timezone.clone());
        self.0.entry(key).or_insert_with(|| schedule.times().ok()).as_ref()
    }
}
