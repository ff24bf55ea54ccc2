//! How the wire and the processes at its ends fail.

use std::collections::{BTreeMap, BTreeSet};

/// What happens when so many frames were handed to the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blow {
    /// The connection is cut, and both ends notice.
    Cut,
    /// The worker comes back over a second connection, while the server still hears what was on
    /// its way over the first, and goes on talking there.
    Takeover,
    /// The server's side is cut first; the worker still hears what was on its way.
    ServerCut,
    /// The server's process dies and comes back without its buffers.
    ServerRestart,
    /// The worker's process dies and comes back without anything; the server does not notice.
    WorkerRestart,
    /// The worker is drained for a moment, whatever is on its way.
    Drain,
}

impl Blow {
    pub(crate) const ALL: [Self; 6] = [
        Self::Cut,
        Self::Takeover,
        Self::ServerCut,
        Self::ServerRestart,
        Self::WorkerRestart,
        Self::Drain,
    ];
}

/// How the wire fails.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    pub(crate) loss_percent: u64,
    pub(crate) duplicate_percent: u64,
    /// Every frame takes from 1 to so many milliseconds, and passes others if it is quicker.
    pub(crate) delay_ms_max: u64,
    pub(crate) blows: BTreeMap<u64, Blow>,
    /// Frames that the server takes back right after it sent them.
    pub(crate) voids: BTreeSet<usize>,
    pub(crate) commit_delay_ms_max: u64,
    /// When loss and duplication end.
    pub(crate) heals_at_ms: u64,
    pub(crate) window: u64,
    pub(crate) frames: usize,
}

impl Faults {
    /// A wire that does not fail.
    pub(crate) fn none() -> Self {
        Self {
            loss_percent: 0,
            duplicate_percent: 0,
            delay_ms_max: 1,
            blows: BTreeMap::new(),
            voids: BTreeSet::new(),
            commit_delay_ms_max: 1,
            heals_at_ms: u64::MAX,
            window: 4,
            frames: 6,
        }
    }
}
