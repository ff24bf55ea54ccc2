//! What a link has asked for and is not answered yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use model::{LeaseId, Report, Timestamp, WorkerId};
use protocol::session::event::CommitToken;

use crate::sessions::Call;

/// The pause before something is asked again that the coordinator could not answer.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Names something that a link asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A frame whose report is being judged.
#[derive(Debug)]
pub(super) struct Reported {
    pub(super) token: Option<CommitToken>,
    pub(super) lease: LeaseId,
}

/// Something that is not answered yet.
#[derive(Debug)]
pub(super) enum Waiting {
    /// Leases for the session that is open.
    Leases,
    /// Verdicts; the reports are kept, for they are asked again until they are judged.
    Verdicts { reported: Vec<Reported>, reports: Vec<Report> },
    /// Whether leases live on. `is_of_frames` if delivered frames wait for it.
    Heartbeat { leases: Vec<LeaseId>, is_of_frames: bool },
    /// The end of the next in line.
    Next { call: Arc<Call>, worker: WorkerId },
    /// Progress or output of a task is stored.
    Feedback { token: CommitToken },
    /// A drain was set; nothing waits for it.
    Drain,
}

/// Requests that are out, and those that are asked again later.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    next: u64,
    out: BTreeMap<RequestId, Waiting>,
    again: BTreeSet<(Timestamp, RequestId)>,
    /// Requests that delivered frames wait for.
    n_of_frames: usize,
}

impl InFlight {
    pub(super) fn new_id(&mut self) -> RequestId {
        self.next += 1;
        RequestId(self.next)
    }

    pub(super) fn add(&mut self, id: RequestId, waiting: Waiting) {
        self.n_of_frames += usize::from(waiting.is_of_frames());
        self.out.insert(id, waiting);
    }

    pub(super) fn remove(&mut self, id: RequestId) -> Option<Waiting> {
        let waiting = self.out.remove(&id)?;
        self.n_of_frames -= usize::from(waiting.is_of_frames());
        Some(waiting)
    }

    pub(super) fn is_out(&self, id: RequestId) -> bool {
        self.out.contains_key(&id)
    }

    /// Whether nothing is under way that delivered frames have begun.
    pub(super) fn is_settled(&self) -> bool {
        self.n_of_frames == 0
    }

    pub(super) fn ask_again(&mut self, now: Timestamp, id: RequestId) {
        self.again.insert((now.after(ASK_AGAIN_AFTER), id));
    }

    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.again.first().map(|(at, _)| *at)
    }

    /// The next request whose pause is over.
    pub(super) fn next_due(&mut self, now: Timestamp) -> Option<RequestId> {
        self.again.first().filter(|(at, _)| *at <= now)?;
        self.again.pop_first().map(|(_, id)| id)
    }

    pub(super) fn get(&self, id: RequestId) -> Option<&Waiting> {
        self.out.get(&id)
    }

    /// The requests of a session that is over. Reports are judged all the same.
    pub(super) fn of_session(&self) -> Vec<RequestId> {
        let is_of_session =
            |waiting: &Waiting| matches!(waiting, Waiting::Leases | Waiting::Next { .. });
        self.out.iter().filter(|(_, one)| is_of_session(one)).map(|(id, _)| *id).collect()
    }
}

impl Waiting {
    fn is_of_frames(&self) -> bool {
        match self {
            Self::Verdicts { .. } | Self::Feedback { .. } => true,
            Self::Heartbeat { is_of_frames, .. } => *is_of_frames,
            Self::Leases | Self::Next { .. } | Self::Drain => false,
        }
    }
}
