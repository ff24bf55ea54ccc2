//! What the faults must lead to now and then; a run in which one of these never happens has not
//! tested what it claims to test.

use crate::faults::Fault;

/// Something that must happen sometimes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consequence {
    /// A report counted.
    Committed,
    /// CANCELLED, because the lease had ended.
    CancelledExpired,
    /// CANCELLED, because another lease was granted since.
    CancelledSuperseded,
    /// CANCELLED, because a person stopped the task.
    CancelledTaskCancelled,
    /// REJECTED: there is no such task.
    RejectedUnknownTask,
    /// REJECTED: no such lease was granted.
    RejectedUnknownLease,
    /// REJECTED: another worker holds the lease.
    RejectedNotHolder,
    /// REJECTED: the lease was reported before, with other words.
    RejectedDuplicateReport,
    /// REJECTED at the door: the text is no lease id.
    RejectedMalformed,
    /// A report that had been committed was committed again, by the stored verdict.
    VerdictReplayed,
    /// A heartbeat that was sent in time came too late.
    ExpiredWithHeartbeatInFlight,
    /// A heartbeat extended a lease.
    LeaseExtended,
    /// A task lost three workers in a row.
    DeadByPoison,
    /// A task ran out of attempts.
    DeadByAttempts,
    /// A failed attempt was followed by another one.
    RetriedAfterFailure,
    /// An attempt took longer than its timeout.
    TimedOut,
    /// A grant that nobody confirmed was taken back.
    UndeliveredTakenBack,
    /// A worker whose attempt had timed out was heard of after all.
    LossForgiven,
    /// A stale owner's turn failed.
    FencedTurn,
    /// After a commit of unknown fate the facts were read, and work went on.
    AmbiguousCommitRecovered,
    /// A repeated submit found its task.
    IdempotentSubmitFound,
    /// A key with other content was refused.
    IdempotencyConflict,
    /// A person put a task back into the queue.
    RequeuedByHand,
    /// A report was on its way when its task was stopped.
    StopRacedComplete,
    /// A task waited because another one held its concurrency key.
    KeyMadeTaskWait,
    /// A settled task was read back from the store.
    SettledTaskLoaded,
    /// A coordinator started while leases were alive.
    RestartWithLiveLeases,
    /// A coordinator started while tasks waited for others.
    RestartWithBlockedTasks,
    /// A coordinator started while a queue was paused.
    RestartWithPause,
    /// A task was ready, a fit worker asked, and its queue was paused.
    PauseHeldTaskBack,
    /// The last of the tasks that it waited for was completed.
    ReleasedByOthers,
    /// A task failed because one that it waited for did.
    FailedWithOthers,
    /// A submit named a task that nobody made.
    UnknownDependency,
    /// A worker left and gave back what it held.
    GivenBack,
    /// More kinds of demand were ready than placement looks at one by one.
    ManyKindsReady,
    /// A grant's asker had gone, and the grant was taken back.
    GrantFoundNobody,
    /// A worker that names nothing did not renew what an earlier process may have been granted.
    DoubtfulNotRenewed,
    /// Turns of two tenants shared a transaction.
    TenantsShareTransaction,
    /// Some turns of a transaction were kept, and others were not.
    TurnsFailedApart,
    /// A server that was fenced dropped the tenant's shard.
    FencedStepDown,
    /// Someone asked about a task of another tenant, and was told of nothing.
    ForeignTaskUnknown,
    /// A run ended as the interpreter says.
    RunAsInterpreted,
    /// A task of a run lost too many workers, so nobody knows how the run should have ended.
    RunNotCompared,
    /// The state of live runs was compared with a replay of their facts.
    ReplayCompared,
    /// A server started while runs were under way.
    RestartWithRuns,
    /// A task was dispatched to a session worker in a frame.
    DispatchedByFrame,
    /// The ack of a result said COMMITTED.
    CommittedByFrame,
    /// A worker was told in a frame that a lease is over.
    CancelReachedWorker,
    /// A session went on over another connection.
    SessionResumed,
    /// A connection was told that a newer one speaks for its worker.
    HandOver,
    /// A connection got the windows that the one before it had.
    WindowHandedOver,
    /// A session went on without the windows that a connection before it had.
    ParkedWindowLost,
    /// A connection ended before what its frames had begun was done.
    WindowDroppedUnsettled,
    /// A connection kept its place when its shard was rebuilt.
    LinkReattached,
    /// A drain reached its worker in a frame.
    DrainReachedWorker,
    /// A worker was told to leave because the time of its drain was over.
    DrainDeadlinePassed,
    /// A task was ready, a fit worker asked, and the worker was drained.
    DrainHeldTaskBack,
    /// A server started while a worker was drained.
    RestartWithDrain,
    /// A schedule started a run.
    ScheduleFired,
    /// A run was being prepared for a schedule when its server was lost, and was started after that.
    ScheduleFiredAroundCrash,
    /// A moment of a schedule passed or waited, because the run before went on.
    ScheduleOverlapped,
}

impl Consequence {
    /// All of them, with their words.
    pub const ALL: [(Self, &'static str); 61] = [
        (Self::Committed, "COMMITTED"),
        (Self::CancelledExpired, "CANCELLED (expired)"),
        (Self::CancelledSuperseded, "CANCELLED (superseded)"),
        (Self::CancelledTaskCancelled, "CANCELLED (task_cancelled)"),
        (Self::RejectedUnknownTask, "REJECTED (unknown_task)"),
        (Self::RejectedUnknownLease, "REJECTED (unknown_lease)"),
        (Self::RejectedNotHolder, "REJECTED (not_holder)"),
        (Self::RejectedDuplicateReport, "REJECTED (duplicate_report)"),
        (Self::RejectedMalformed, "REJECTED (malformed)"),
        (Self::VerdictReplayed, "verdict replayed"),
        (Self::ExpiredWithHeartbeatInFlight, "lease expired, heartbeat in flight"),
        (Self::LeaseExtended, "lease extended"),
        (Self::DeadByPoison, "task dead by poison"),
        (Self::DeadByAttempts, "task dead by attempts"),
        (Self::RetriedAfterFailure, "retried after failure"),
        (Self::TimedOut, "attempt timed out"),
        (Self::UndeliveredTakenBack, "undelivered grant taken back"),
        (Self::LossForgiven, "slow worker forgiven"),
        (Self::FencedTurn, "turn fenced"),
        (Self::AmbiguousCommitRecovered, "ambiguous commit recovered"),
        (Self::IdempotentSubmitFound, "idempotent submit found again"),
        (Self::IdempotencyConflict, "idempotency conflict refused"),
        (Self::RequeuedByHand, "requeued by hand"),
        (Self::StopRacedComplete, "stop raced with a report"),
        (Self::KeyMadeTaskWait, "concurrency key made a task wait"),
        (Self::SettledTaskLoaded, "settled task loaded"),
        (Self::RestartWithLiveLeases, "restart with live leases"),
        (Self::RestartWithBlockedTasks, "restart with blocked tasks"),
        (Self::RestartWithPause, "restart with a paused queue"),
        (Self::PauseHeldTaskBack, "pause held a task back"),
        (Self::ReleasedByOthers, "released by other tasks"),
        (Self::FailedWithOthers, "failed with another task"),
        (Self::UnknownDependency, "unknown dependency refused"),
        (Self::GivenBack, "given back by leaving"),
        (Self::ManyKindsReady, "more than 32 kinds ready"),
        (Self::GrantFoundNobody, "grant found nobody"),
        (Self::DoubtfulNotRenewed, "lease of a former process not renewed"),
        (Self::TenantsShareTransaction, "tenants shared a transaction"),
        (Self::TurnsFailedApart, "turns failed apart"),
        (Self::FencedStepDown, "fenced server stepped down"),
        (Self::ForeignTaskUnknown, "foreign task unknown"),
        (Self::RunAsInterpreted, "run ended as interpreted"),
        (Self::RunNotCompared, "run lost too many workers"),
        (Self::ReplayCompared, "runs compared with a replay"),
        (Self::RestartWithRuns, "restart with live runs"),
        (Self::DispatchedByFrame, "dispatched by frame"),
        (Self::CommittedByFrame, "COMMITTED by frame"),
        (Self::CancelReachedWorker, "cancel reached a worker"),
        (Self::SessionResumed, "session resumed"),
        (Self::HandOver, "hand-over of a session"),
        (Self::WindowHandedOver, "windows handed over"),
        (Self::ParkedWindowLost, "parked windows lost"),
        (Self::WindowDroppedUnsettled, "windows dropped unsettled"),
        (Self::LinkReattached, "connection reattached"),
        (Self::DrainReachedWorker, "drain reached a worker"),
        (Self::DrainDeadlinePassed, "drain deadline passed"),
        (Self::DrainHeldTaskBack, "drain held a task back"),
        (Self::RestartWithDrain, "restart with a drained worker"),
        (Self::ScheduleFired, "schedule fired"),
        (Self::ScheduleFiredAroundCrash, "schedule fired around a crash"),
        (Self::ScheduleOverlapped, "schedule overlapped its run"),
    ];

    fn position(self) -> usize {
        Self::ALL.iter().position(|(consequence, _)| *consequence == self).unwrap_or(0)
    }
}

/// How often everything happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    faults: [u64; Fault::ALL.len()],
    consequences: [u64; Consequence::ALL.len()],
}

impl Default for Counters {
    fn default() -> Self {
        Self { faults: [0; Fault::ALL.len()], consequences: [0; Consequence::ALL.len()] }
    }
}

impl Counters {
    pub(crate) fn fault(&mut self, fault: Fault) {
        self.faults[fault.position()] += 1;
    }

    pub(crate) fn happened(&mut self, consequence: Consequence) {
        self.consequences[consequence.position()] += 1;
    }

    /// Adds another run's counts.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.faults.iter_mut().zip(other.faults) {
            *mine += theirs;
        }
        for (mine, theirs) in self.consequences.iter_mut().zip(other.consequences) {
            *mine += theirs;
        }
    }

    /// Every fault and consequence with its words and its count.
    pub fn rows(&self) -> impl Iterator<Item = (String, u64)> {
        let faults = Fault::ALL.into_iter().zip(self.faults).map(|(fault, count)| {
            let (number, words) = fault.name();
            (format!("{number} {words}"), count)
        });
        let consequences = Consequence::ALL.into_iter().zip(self.consequences);
        faults.chain(consequences.map(|((_, words), count)| (words.to_owned(), count)))
    }

    /// What happened less often than this.
    pub fn rarer_than(&self, least: u64) -> Vec<(String, u64)> {
        self.rows().filter(|(_, count)| *count < least).collect()
    }
}
