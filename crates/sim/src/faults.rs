//! Everything that can be done to the system, by the numbers of the list in the reliability plan.

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// F1: a message is lost.
    Drop,
    /// F2: a message arrives twice.
    Duplicate,
    /// F3: a message is overtaken by later ones.
    Reorder,
    /// F4: a message takes far longer than others.
    Delay,
    /// F8: a connection is reset.
    Reset,
    /// F9: a peer believes that it is connected, and every answer to it vanishes.
    HalfOpen,
    /// F13: a worker dies.
    WorkerKill,
    /// F14: a worker stands still past its lease, then goes on.
    WorkerPause,
    /// F15: the coordinator dies and starts again from the store.
    CoordinatorKill,
    /// F16: the coordinator stands still, then goes on with whatever authority it has left.
    CoordinatorPause,
    /// F17: a second coordinator takes over while the first one lives.
    SecondCoordinator,
    /// F18: two processes with one worker id.
    ClonedWorker,
    /// F20: a worker that goes on after CANCELLED.
    IgnoresCancelled,
    /// F21: a worker that reports twice, with the same or with other words.
    ReportsTwice,
    /// F22: a worker that lies: foreign leases, epochs never granted, nonsense.
    Lies,
    /// F23: the wall clock is set by an hour.
    WallJump,
    /// F24: a worker's clock runs up to a tenth too fast or too slow.
    Drift,
    /// F25: a timer fires late.
    LateTimer,
    /// F26: a commit fails before anything is written.
    FailBeforeCommit,
    /// F27: a commit happens and is reported as failed.
    CommitThenFail,
    /// F28: a commit takes long.
    SlowCommit,
    /// F29: the store could not order a commit among others.
    Serialization,
    /// F30: the disk is full for a while.
    DiskFull,
    /// F31: the sync of a commit fails; whether it is on the disk is anyone's guess.
    FsyncError,
    /// F34: a task that kills each worker that starts it.
    Poison,
}

impl Fault {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 25] = [
        Self::Drop,
        Self::Duplicate,
        Self::Reorder,
        Self::Delay,
        Self::Reset,
        Self::HalfOpen,
        Self::WorkerKill,
        Self::WorkerPause,
        Self::CoordinatorKill,
        Self::CoordinatorPause,
        Self::SecondCoordinator,
        Self::ClonedWorker,
        Self::IgnoresCancelled,
        Self::ReportsTwice,
        Self::Lies,
        Self::WallJump,
        Self::Drift,
        Self::LateTimer,
        Self::FailBeforeCommit,
        Self::CommitThenFail,
        Self::SlowCommit,
        Self::Serialization,
        Self::DiskFull,
        Self::FsyncError,
        Self::Poison,
    ];

    /// Its number in the list, and what it is.
    pub fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::Drop => ("F1", "message lost"),
            Self::Duplicate => ("F2", "message duplicated"),
            Self::Reorder => ("F3", "message overtaken"),
            Self::Delay => ("F4", "message delayed"),
            Self::Reset => ("F8", "connection reset"),
            Self::HalfOpen => ("F9", "answer vanished, half-open"),
            Self::WorkerKill => ("F13", "worker killed"),
            Self::WorkerPause => ("F14", "worker paused"),
            Self::CoordinatorKill => ("F15", "coordinator killed"),
            Self::CoordinatorPause => ("F16", "coordinator paused"),
            Self::SecondCoordinator => ("F17", "second coordinator"),
            Self::ClonedWorker => ("F18", "cloned worker id acted"),
            Self::IgnoresCancelled => ("F20", "CANCELLED ignored"),
            Self::ReportsTwice => ("F21", "reported twice"),
            Self::Lies => ("F22", "lied"),
            Self::WallJump => ("F23", "wall clock jumped"),
            Self::Drift => ("F24", "timer drifted"),
            Self::LateTimer => ("F25", "timer late"),
            Self::FailBeforeCommit => ("F26", "failed before commit"),
            Self::CommitThenFail => ("F27", "committed, reported failed"),
            Self::SlowCommit => ("F28", "slow commit"),
            Self::Serialization => ("F29", "serialization error"),
            Self::DiskFull => ("F30", "refused, disk full"),
            Self::FsyncError => ("F31", "fsync error"),
            Self::Poison => ("F34", "poison killed a worker"),
        }
    }

    /// The fault with this number, like `F27`.
    pub fn by_number(number: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.name().0 == number)
    }

    pub(crate) fn position(self) -> usize {
        Self::ALL.iter().position(|fault| *fault == self).unwrap_or(0)
    }
}

/// Which kinds of fault may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultSet(u64);

impl FaultSet {
    /// Every kind.
    pub const ALL: Self = Self(u64::MAX);
    /// No kind.
    pub const NONE: Self = Self(0);

    /// Whether this kind may happen.
    pub fn has(self, fault: Fault) -> bool {
        self.0 >> fault.position() & 1 == 1
    }

    /// The same without one kind.
    #[must_use]
    pub fn without(self, fault: Fault) -> Self {
        Self(self.0 & !(1 << fault.position()))
    }

    /// The same with one kind.
    #[must_use]
    pub fn with(self, fault: Fault) -> Self {
        Self(self.0 | 1 << fault.position())
    }

    /// The kinds that may happen.
    pub fn iter(self) -> impl Iterator<Item = Fault> {
        Fault::ALL.into_iter().filter(move |fault| self.has(*fault))
    }
}
