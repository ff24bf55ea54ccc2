//! The words that stand in the tables beside those of `model`.

use coordinator::{Ending, WaitReason};

pub(crate) const WAIT_FOR_DELAY: &str = "DELAY";
pub(crate) const WAIT_FOR_SIGNAL: &str = "SIGNAL";
pub(crate) const ENDING_FAILED: &str = "FAILED";
pub(crate) const ENDING_EXPIRED: &str = "EXPIRED";
pub(crate) const ENDING_TIMED_OUT: &str = "TIMED_OUT";
pub(crate) const ENDING_UNDELIVERED: &str = "UNDELIVERED";
pub(crate) const ENDING_STOPPED: &str = "STOPPED";

/// The word for why a task waits, where its state and the tasks before it do not tell.
pub(crate) fn wait_text(why: WaitReason) -> Option<&'static str> {
    match why {
        WaitReason::Scheduled | WaitReason::Backoff | WaitReason::After => None,
        WaitReason::Delay => Some(WAIT_FOR_DELAY),
        WaitReason::Signal => Some(WAIT_FOR_SIGNAL),
    }
}

pub(crate) fn ending_text(ending: &Ending) -> &'static str {
    match ending {
        Ending::Failed { .. } => ENDING_FAILED,
        Ending::Expired => ENDING_EXPIRED,
        Ending::TimedOut => ENDING_TIMED_OUT,
        Ending::Undelivered => ENDING_UNDELIVERED,
        Ending::Stopped => ENDING_STOPPED,
    }
}
