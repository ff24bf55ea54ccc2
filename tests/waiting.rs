//! Waiting for a condition with a deadline, for the tests of every crate.
//!
//! A crate declares it with `#[path]`: a crate of its own would be a dependency of all others, for
//! one function. No other test code in Rust sleeps in real time, and `cargo xtask tidy` checks it.

use std::fmt::Debug;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// A test that looks without a pause takes the time of what it waits for.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Looks again and again until `look` gives `Ok`. `what` completes the sentence "waited for ..";
/// the failure also shows the last `Err`, which is what was seen instead.
pub(crate) async fn wait_until<T, S: Debug>(
    what: &str,
    within: Duration,
    mut look: impl AsyncFnMut() -> Result<T, S>,
) -> T {
    let started = Instant::now();
    loop {
        match look().await {
            Ok(found) => return found,
            Err(seen) => assert!(
                started.elapsed() < within,
                "waited {within:?} for {what}; seen last: {seen:?}"
            ),
        }
        sleep(LOOK_EVERY).await;
    }
}
