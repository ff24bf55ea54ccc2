//! Scores: doubles that are no NaN, in their order.

use std::cmp::Ordering;

use bytes::Bytes;

/// A score. There is one zero: Redis forgets the sign of the other in small sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Score(f64);

impl Score {
    /// Nothing for NaN.
    pub(crate) fn new(number: f64) -> Option<Self> {
        (!number.is_nan()).then_some(Self(number + 0.0))
    }

    pub(crate) fn get(self) -> f64 {
        self.0
    }

    /// The least score above this one; infinity has none.
    pub(crate) fn next(self) -> Option<Self> {
        (self.0 < f64::INFINITY).then(|| Self(self.0.next_up()))
    }

    /// What a row keeps.
    pub(crate) fn to_bytes(self) -> Bytes {
        Bytes::copy_from_slice(&self.0.to_be_bytes())
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Self::new(f64::from_be_bytes(bytes.try_into().ok()?))
    }
}

impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Score {}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.partial_cmp(&other.0).expect("a score is no NaN")
    }
}
