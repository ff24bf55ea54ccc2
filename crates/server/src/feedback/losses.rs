//! What a broken disk cost, until the logs can say so themselves.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use model::LeaseId;

use super::chunk::NewChunk;

/// Attempts whose losses are remembered. Beyond it, only those that number their bytes can tell.
const ATTEMPTS_MAX: usize = 10_000;

/// What one attempt lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Loss {
    /// It had put out so much when it last lost something; what of it is not held is lost.
    pub(super) until: u64,
    /// Lost bytes that had no position.
    pub(super) loose: u64,
}

/// What is lost and not yet noted in a log.
#[derive(Debug, Default)]
pub(super) struct Losses(HashMap<LeaseId, Loss, RandomState>);

impl Losses {
    /// These chunks could not be written.
    pub(super) fn note(&mut self, lease: LeaseId, chunks: &[NewChunk]) {
        if self.0.len() >= ATTEMPTS_MAX && !self.0.contains_key(&lease) {
            return;
        }
        let loss = self.0.entry(lease).or_default();
        for chunk in chunks {
            match chunk.next_position() {
                Some(next) => loss.until = loss.until.max(next),
                None => loss.loose += chunk.bytes.len() as u64,
            }
        }
    }

    pub(super) fn of(&self, lease: LeaseId) -> Loss {
        self.0.get(&lease).copied().unwrap_or_default()
    }

    pub(super) fn leases(&self) -> Vec<LeaseId> {
        self.0.keys().copied().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// So much stands in the log by now.
    pub(super) fn noted(&mut self, lease: LeaseId, noted: Loss) {
        let Some(loss) = self.0.get_mut(&lease) else { return };
        loss.loose = loss.loose.saturating_sub(noted.loose);
        if loss.until <= noted.until && loss.loose == 0 {
            self.0.remove(&lease);
        }
    }
}
