//! What can happen to a connection.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::ValueEnum;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

/// The kinds of faults.
///
/// Plain comments on the variants: clap would list documented ones over half a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Kind {
    // Both ends get a reset after some more bytes, most often in the middle of a frame.
    Reset,
    // Both ends see an orderly end of the stream after some more bytes.
    Finish,
    // Bytes of one direction vanish for a time; then both ends get a reset, because a stream with a
    // hole cannot go on.
    BlackHole,
    // Bytes of one direction arrive late.
    Delay,
    // Nothing is forwarded any more, and nothing is closed.
    HalfOpen,
    // Nothing is read from one end for a time, so that its sends are held up.
    Stall,
    // A whole text message arrives twice.
    Duplicate,
    // Two text messages that follow each other arrive in the wrong order.
    Swap,
}

impl Kind {
    /// Faults after which an end hears nothing for a time although its connection is open. No
    /// error tells of them, so a lease can end before anybody connects again.
    pub(crate) const fn is_silence(self) -> bool {
        match self {
            Self::BlackHole | Self::Delay | Self::HalfOpen | Self::Stall => true,
            Self::Reset | Self::Finish | Self::Duplicate | Self::Swap => false,
        }
    }

    /// The word for it, as on the command line.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Reset => "reset",
            Self::Finish => "finish",
            Self::BlackHole => "black-hole",
            Self::Delay => "delay",
            Self::HalfOpen => "half-open",
            Self::Stall => "stall",
            Self::Duplicate => "duplicate",
            Self::Swap => "swap",
        }
    }
}

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) direction: Direction,
    /// How many bytes still pass before a connection ends.
    pub(crate) after_bytes: u64,
    /// How long faults last that pass.
    pub(crate) lasts: Duration,
}

/// Counts what has happened.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally(Arc<Mutex<BTreeMap<Kind, u64>>>);

impl Tally {
    pub(super) fn count(&self, kind: Kind) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(kind).or_default() += 1;
    }

    pub(super) fn so_far(&self) -> BTreeMap<Kind, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
