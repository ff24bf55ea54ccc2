//! `core.sleep`: takes its time and says how much is left.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep_until};

use super::raw;
use crate::executor::{Context, Outcome, PARAMETERS_INVALID};

/// The longest sleep.
const SLEEP_MAX: Duration = Duration::from_hours(24);
/// How often a sleeper says how much is done.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sleep {
    seconds: Option<f64>,
    ms: Option<u64>,
}

pub(super) async fn run(parameters: &RawValue, context: &Context) -> Outcome {
    match serde_json::from_str(parameters.get()).map(pause) {
        Ok(Some(pause)) => {
            sleep(pause, context).await;
            Outcome::done(raw(&json!({ "slept_ms": pause.as_millis() })))
        }
        Ok(None) | Err(_) => Outcome::hopeless(
            PARAMETERS_INVALID,
            r#"core.sleep wants {"seconds": 1.5} or {"ms": 1500}, at most a day"#,
        ),
    }
}

async fn sleep(pause: Duration, context: &Context) {
    let began = Instant::now();
    let until = began + pause;
    let mut next = began + PROGRESS_EVERY;
    while next < until {
        sleep_until(next).await;
        context.feedback.progress(began.elapsed().div_duration_f64(pause));
        next += PROGRESS_EVERY;
    }
    sleep_until(until).await;
}

/// How long parameters ask to sleep; not at all if they make no sense.
pub(super) fn pause_of(parameters: &RawValue) -> Duration {
    let sleep: Sleep = serde_json::from_str(parameters.get()).unwrap_or_default();
    pause(sleep).unwrap_or_default()
}

fn pause(sleep: Sleep) -> Option<Duration> {
    let pause = match (sleep.seconds, sleep.ms) {
        (Some(seconds), None) => Duration::try_from_secs_f64(seconds).ok()?,
        (None, Some(ms)) => Duration::from_millis(ms),
        (None, None) | (Some(_), Some(_)) => return None,
    };
    (pause <= SLEEP_MAX).then_some(pause)
}
