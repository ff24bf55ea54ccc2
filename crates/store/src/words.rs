//! The words that stand in the tables.

use coordinator::{Ending, NodeWord, RunWord, StateWord, TaskState, WaitReason};
use keyspace::row::Kind;

/// Every state with its word, in the order of a task's life.
const STATES: [(StateWord, &str); 8] = [
    (StateWord::Waiting, "WAITING"),
    (StateWord::Queued, "QUEUED"),
    (StateWord::Retrying, "RETRYING"),
    (StateWord::Running, "RUNNING"),
    (StateWord::Completed, "COMPLETED"),
    (StateWord::Failed, "FAILED"),
    (StateWord::Dead, "DEAD"),
    (StateWord::Stopped, "STOPPED"),
];

/// Every end of a run.
const RUN_ENDS: [RunWord; 3] = [RunWord::Succeeded, RunWord::Failed, RunWord::Cancelled];

/// Every end of a node.
const NODE_ENDS: [NodeWord; 5] = [
    NodeWord::Succeeded,
    NodeWord::Failed,
    NodeWord::Skipped,
    NodeWord::Blocked,
    NodeWord::Cancelled,
];

/// What a key may hold, in Redis' own words.
const KINDS: [Kind; 5] = [Kind::String, Kind::List, Kind::Hash, Kind::Set, Kind::SortedSet];

pub(crate) const WAIT_FOR_DELAY: &str = "DELAY";
pub(crate) const WAIT_FOR_SIGNAL: &str = "SIGNAL";
pub(crate) const ENDING_FAILED: &str = "FAILED";
pub(crate) const ENDING_EXPIRED: &str = "EXPIRED";
pub(crate) const ENDING_TIMED_OUT: &str = "TIMED_OUT";
pub(crate) const ENDING_UNDELIVERED: &str = "UNDELIVERED";
pub(crate) const ENDING_STOPPED: &str = "STOPPED";

pub(crate) fn state_word(state: &TaskState) -> StateWord {
    match state {
        TaskState::Waiting { why, .. } => (*why).into(),
        TaskState::Ready => StateWord::Queued,
        TaskState::Leased(_) => StateWord::Running,
        TaskState::Settled(settlement) => settlement.outcome.into(),
    }
}

pub(crate) fn state_text(word: StateWord) -> &'static str {
    match word {
        StateWord::Waiting => "WAITING",
        StateWord::Queued => "QUEUED",
        StateWord::Retrying => "RETRYING",
        StateWord::Running => "RUNNING",
        StateWord::Completed => "COMPLETED",
        StateWord::Failed => "FAILED",
        StateWord::Dead => "DEAD",
        StateWord::Stopped => "STOPPED",
    }
}

pub(crate) fn state_from_text(text: &str) -> Option<StateWord> {
    STATES.iter().find(|(_, known)| *known == text).map(|(word, _)| *word)
}

/// The word for why a task waits, where its state and the tasks before it do not tell.
pub(crate) fn wait_text(why: WaitReason) -> Option<&'static str> {
    match why {
        WaitReason::Scheduled | WaitReason::Backoff | WaitReason::After => None,
        WaitReason::Delay => Some(WAIT_FOR_DELAY),
        WaitReason::Signal => Some(WAIT_FOR_SIGNAL),
    }
}

pub(crate) fn run_end_text(word: RunWord) -> &'static str {
    match word {
        RunWord::Succeeded => "SUCCEEDED",
        RunWord::Failed => "FAILED",
        RunWord::Cancelled => "CANCELLED",
    }
}

pub(crate) fn run_end_from_text(text: &str) -> Option<RunWord> {
    RUN_ENDS.into_iter().find(|word| run_end_text(*word) == text)
}

pub(crate) fn node_end_text(word: NodeWord) -> &'static str {
    match word {
        NodeWord::Succeeded => "SUCCEEDED",
        NodeWord::Failed => "FAILED",
        NodeWord::Skipped => "SKIPPED",
        NodeWord::Blocked => "BLOCKED",
        NodeWord::Cancelled => "CANCELLED",
    }
}

pub(crate) fn node_end_from_text(text: &str) -> Option<NodeWord> {
    NODE_ENDS.into_iter().find(|word| node_end_text(*word) == text)
}

pub(crate) fn kind_text(kind: Kind) -> &'static str {
    match kind {
        Kind::String => "string",
        Kind::List => "list",
        Kind::Hash => "hash",
        Kind::Set => "set",
        Kind::SortedSet => "zset",
    }
}

pub(crate) fn kind_from_text(text: &str) -> Option<Kind> {
    KINDS.into_iter().find(|kind| kind_text(*kind) == text)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_comes_back_from_its_word() {
        for (word, text) in STATES {
            assert_eq!(state_text(word), text);
            assert_eq!(state_from_text(text), Some(word));
        }
        assert_eq!(state_from_text("queued"), None);
    }

    #[test]
    fn an_end_comes_back_from_its_word() {
        for word in RUN_ENDS {
            assert_eq!(run_end_from_text(run_end_text(word)), Some(word));
        }
        for word in NODE_ENDS {
            assert_eq!(node_end_from_text(node_end_text(word)), Some(word));
        }
        assert_eq!(run_end_from_text("SKIPPED"), None, "only a node is skipped");
    }

    #[test]
    fn a_kind_comes_back_from_its_word() {
        for kind in KINDS {
            assert_eq!(kind_from_text(kind_text(kind)), Some(kind));
        }
        assert_eq!(kind_from_text("stream"), None);
    }
}
