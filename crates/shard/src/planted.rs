//! Deliberate bugs of the turn loop, to prove that the simulation would find them. Without the
//! feature `planted` every question here is answered with `false` at compile time.

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Answers leave before the facts behind them are durable.
    AckBeforeFsync,
    /// Leases leave before they are durable; everything else waits.
    PopBeforeDurable,
    /// A turn without facts is not fenced: a stale owner still answers.
    AnswersNotFenced,
    /// An answer that found nobody is forgotten, a grant like any other.
    UndeliveredGrantKept,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::AckBeforeFsync,
        Self::PopBeforeDurable,
        Self::AnswersNotFenced,
        Self::UndeliveredGrantKept,
    ];
}

#[cfg(feature = "planted")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Plants a bug in every shard of this thread, or takes it out.
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
