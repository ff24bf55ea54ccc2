//! What the oracle has seen: counts, and the first promise that was broken.

use std::collections::BTreeMap;
use std::time::Duration;

use model::RetryPolicy;

use crate::consequence::{Consequence, Counters};

/// Equal pauses are taken for chance up to so many.
const PAUSES_TO_COMPARE: u32 = 5;
/// Shorter pauses leave jitter too little room.
const PAUSE_WITH_ROOM: Duration = Duration::from_millis(200);

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its number in the list of promises.
    pub promise: &'static str,
    /// What happened, in a sentence.
    pub story: String,
}

#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) broken: Option<Violation>,
    pub(crate) counters: Counters,
    pauses: BTreeMap<(RetryPolicy, u32), Pauses>,
}

#[derive(Debug)]
struct Pauses {
    first: Duration,
    count: u32,
    are_equal: bool,
}

impl Notes {
    /// Writes down a broken promise; only the first one counts, the rest may follow from it.
    pub(crate) fn broken(&mut self, promise: &'static str, story: impl FnOnce() -> String) {
        if self.broken.is_none() {
            self.broken = Some(Violation { promise, story: story() });
        }
    }

    /// Demands something of the system.
    pub(crate) fn demand(
        &mut self,
        is_kept: bool,
        promise: &'static str,
        story: impl FnOnce() -> String,
    ) {
        if !is_kept {
            self.broken(promise, story);
        }
    }

    /// Something that was checked elsewhere is wrong.
    pub(crate) fn wrong(&mut self, promise: &'static str, checked: Result<(), String>) {
        if let Err(story) = checked {
            self.broken(promise, || story);
        }
    }

    pub(crate) fn happened(&mut self, consequence: Consequence) {
        self.counters.happened(consequence);
    }

    /// A failed attempt is followed by a pause. Tasks that failed together come back together
    /// exactly if the pause after equal attempts under equal policies is always the same.
    pub(crate) fn pause(&mut self, policy: RetryPolicy, attempt: u32, pause: Duration) {
        let doublings = attempt.saturating_sub(1).min(31);
        let longest = policy.backoff.saturating_mul(1 << doublings).min(policy.backoff_max);
        self.demand(pause <= longest, "P5", || {
            format!("a retry waits {pause:?}, its policy says at most {longest:?}")
        });
        if longest < PAUSE_WITH_ROOM {
            return;
        }
        let entry = self.pauses.entry((policy, attempt)).or_insert(Pauses {
            first: pause,
            count: 0,
            are_equal: true,
        });
        entry.count += 1;
        entry.are_equal &= entry.first == pause;
        if entry.are_equal && entry.count > PAUSES_TO_COMPARE {
            let count = entry.count;
            self.broken("P5", || {
                format!("{count} retries all waited exactly {pause:?}: they come back together")
            });
        }
    }
}
