//! Deliberate bugs, to prove that the simulation would find them. Without the feature `planted`
//! every question here is answered with `false` at compile time.

use crate::change::TaskRecord;
use crate::command::Moment;

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// The sweep ends whatever lease the task has, without looking whether it has been extended.
    RescueByIdOnly,
    /// A heartbeat is answered, but does not extend the lease.
    HeartbeatDoesNotExtend,
    /// Retries of tasks that failed together come back together.
    BackoffWithoutJitter,
    /// A lost worker does not count as an attempt, so poison is retried for ever.
    LossNotCounted,
    /// A report under an older epoch counts like one under the newest.
    EpochNotChecked,
    /// Anyone may report on a lease.
    HolderNotChecked,
    /// A lease that is over counts until the sweep has come.
    ExpiryDecidedBySweep,
    /// The list of ready tasks lives only in memory: a restart forgets them.
    ReadyOnlyInMemory,
    /// A paused queue is granted from like any other.
    PauseIgnored,
    /// A task starts after the failure of one that it waits for, as if that had completed.
    DependencyReleasedOnFailure,
    /// After a restart nobody knows any more who waits for whom.
    DependentsForgotten,
    /// A worker that covers many kinds of demand is given tasks of other kinds too.
    CoverNotChecked,
    /// A node runs although one before it failed and says that those after it are skipped.
    SkipNotPassedOn,
    /// After a restart the nodes whose turn had come are forgotten.
    LineForgotten,
    /// Leases end by the wall clock, jumps and all.
    WallClockForExpiry,
    /// A drained worker is granted tasks like any other.
    DrainIgnored,
    /// A request that its worker's slots held back is not looked at again when a lease ends.
    HeldBackForgotten,
    /// The run of a schedule starts, but not the fact that its moment is dealt with.
    MomentNotDealtWith,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 18] = [
        Self::RescueByIdOnly,
        Self::HeartbeatDoesNotExtend,
        Self::BackoffWithoutJitter,
        Self::LossNotCounted,
        Self::EpochNotChecked,
        Self::HolderNotChecked,
        Self::ExpiryDecidedBySweep,
        Self::ReadyOnlyInMemory,
        Self::PauseIgnored,
        Self::DependencyReleasedOnFailure,
        Self::DependentsForgotten,
        Self::CoverNotChecked,
        Self::SkipNotPassedOn,
        Self::LineForgotten,
        Self::WallClockForExpiry,
        Self::DrainIgnored,
        Self::HeldBackForgotten,
        Self::MomentNotDealtWith,
    ];
}

#[cfg(feature = "planted")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Plants a bug in every coordinator of this thread, or takes it out.
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

pub(crate) fn forgets(record: &TaskRecord) -> bool {
    is(Bug::ReadyOnlyInMemory) && matches!(record.progress.state, crate::change::TaskState::Ready)
}

/// The moment by which a coordinator acts.
pub(crate) fn clock(at: Moment) -> Moment {
    if is(Bug::WallClockForExpiry) { Moment { now: at.wall, ..at } } else { at }
}
