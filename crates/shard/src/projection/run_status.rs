//! What the end of a run is called on the wire.

use coordinator::RunWord;
use protocol::rest::runs::RunStatus;

/// What the end of a run is called.
pub fn of_end(word: RunWord) -> RunStatus {
    match word {
        RunWord::Succeeded => RunStatus::Succeeded,
        RunWord::Failed => RunStatus::Failed,
        RunWord::Cancelled => RunStatus::Cancelled,
    }
}
