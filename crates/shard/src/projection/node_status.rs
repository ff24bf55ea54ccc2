//! What the end of a task, of a node or of a run is called.

use coordinator::{NodeWord, Outcome, RunWord, Settlement};
use protocol::rest::runs::{NodeStatus, RunStatus};

/// A worker's own word that it gave the work up.
const GIVEN_UP: &str = "E.RUNNER.CANCELLED";

/// What the end of a task says about its node.
pub fn of_settlement(settlement: &Settlement) -> NodeStatus {
    match settlement.outcome {
        Outcome::Completed if settlement.extra.as_ref().is_some_and(|extra| extra.is_skipped) => {
            NodeStatus::Skipped
        }
        Outcome::Completed => NodeStatus::Succeeded,
        Outcome::Failed if settlement.failure.as_ref().is_some_and(|one| one.code == GIVEN_UP) => {
            NodeStatus::Cancelled
        }
        Outcome::Failed | Outcome::Dead => NodeStatus::Failed,
        Outcome::Stopped => NodeStatus::Cancelled,
    }
}

/// What the end of a node is called.
pub fn of_word(word: NodeWord) -> NodeStatus {
    match word {
        NodeWord::Succeeded => NodeStatus::Succeeded,
        NodeWord::Failed => NodeStatus::Failed,
        NodeWord::Skipped | NodeWord::Blocked => NodeStatus::Skipped,
        NodeWord::Cancelled => NodeStatus::Cancelled,
    }
}

/// What the end of a run is called.
pub fn of_end(word: RunWord) -> RunStatus {
    match word {
        RunWord::Succeeded => RunStatus::Succeeded,
        RunWord::Failed => RunStatus::Failed,
        RunWord::Cancelled => RunStatus::Cancelled,
    }
}
