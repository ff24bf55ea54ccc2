//! Deliberate bugs, to prove that the simulation would find them. Without the feature `planted`
//! every question here is answered with `false` at compile time.

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// The store does not look at the epoch of a commit.
    StaleLeaderKeepsWriting,
    /// A turn is kept although one that it builds on was lost.
    BrokenClaimGoesOn,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::StaleLeaderKeepsWriting, Self::BrokenClaimGoesOn];
}

#[cfg(feature = "planted")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Plants a bug in every store of this thread, or takes it out.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.with(|planted| planted.set(bug));
}

#[cfg(feature = "planted")]
pub(crate) fn is(bug: Bug) -> bool {
    PLANTED.with(|planted| planted.get() == Some(bug))
}

#[cfg(not(feature = "planted"))]
pub(crate) const fn is(_: Bug) -> bool {
    false
}
