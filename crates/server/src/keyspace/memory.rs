//! What the lock of one keyspace guards.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use keyspace::{Answer, Keyspace, Operation, Popped, Write};
use model::Timestamp;
use tokio::sync::oneshot;

use super::committer::{Batch, CommitPoint};
use super::tenant_keyspace::KeyspaceLoad;
use super::waiters::{Served, WaiterId, Waiters};
use crate::handle::AskError;

/// Limit: changes of one tenant that are not durable yet; beyond this, commands are refused.
pub const PENDING_BYTES_MAX: usize = 64 << 20;

/// A keyspace, and the pops that wait for its lists.
#[derive(Debug)]
pub(super) struct Memory {
    state: State,
    waiters: Waiters,
    /// Elements that nobody took while there was no keyspace to put them back into.
    not_taken: Vec<Popped>,
}

#[derive(Debug)]
enum State {
    /// Commands are carried out.
    Live(Box<Live>),
    /// A change was lost; the keyspace is being restored.
    Recovering,
    /// The tenant is lost, or the server stops.
    Ended(AskError),
}

#[derive(Debug)]
struct Live {
    keyspace: Keyspace,
    /// The batch of the changes that the store has not been given.
    gathering: Option<Arc<Batch>>,
    /// The newest batch that the store has.
    newest: Option<Arc<Batch>>,
    /// Rows that the store has and that are not durable.
    in_flight_bytes: usize,
}

/// Changes for the store.
#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) writes: Vec<Write>,
    pub(super) bytes: usize,
    pub(super) batch: Arc<Batch>,
}

/// How a pop begins.
pub(super) enum PopStart {
    /// There was something to take.
    Served(Served),
    /// It waits, at most for so long.
    Waits { id: WaiterId, served: oneshot::Receiver<Served>, timeout: Option<std::time::Duration> },
}

impl Memory {
    pub(super) fn new(keyspace: Keyspace) -> Self {
        Self {
            state: State::Live(Live::new(keyspace)),
            waiters: Waiters::default(),
            not_taken: Vec::new(),
        }
    }

    /// Carries out commands, one after the other, with nobody between them but pops that wait.
    pub(super) fn execute<'a>(
        &mut self,
        now: Timestamp,
        commands: impl IntoIterator<Item = (Operation, &'a [Bytes])>,
    ) -> Result<(Vec<Answer>, CommitPoint), AskError> {
        let Self { state, waiters, .. } = self;
        let live = state.live()?;
        live.check_room()?;
        let commands = commands.into_iter();
        let mut served = Vec::new();
        let mut answers = Vec::with_capacity(commands.size_hint().1.unwrap_or(0));
        for (operation, arguments) in commands {
            answers.push(live.keyspace.execute(now, operation, arguments));
            live.serve_waiters(now, waiters, &mut served);
        }
        Ok((answers, live.gather(served)))
    }

    /// Carries out a pop that may wait.
    pub(super) fn begin_pop(
        &mut self,
        now: Timestamp,
        operation: Operation,
        arguments: &[Bytes],
    ) -> Result<PopStart, AskError> {
        let Self { state, waiters, .. } = self;
        let live = state.live()?;
        live.check_room()?;
        let answer = live.keyspace.execute(now, operation, arguments);
        if let Answer::Block { keys, timeout } = answer {
            // It changed nothing but keys that had ended; they are gathered with the next change.
            if waiters.is_full() {
                return Err(AskError::Overloaded);
            }
            let (id, served) = waiters.add((operation, arguments.to_vec()), keys);
            return Ok(PopStart::Waits { id, served, timeout });
        }
        let point = live.settle(now, waiters);
        Ok(PopStart::Served(Served { answer, point }))
    }

    /// Takes a waiter out of its lines; `false` when it was served before.
    pub(super) fn end_wait(&mut self, id: WaiterId) -> bool {
        self.waiters.remove(id).is_some()
    }

    /// Undoes a pop whose element nobody took.
    pub(super) fn give_back(&mut self, now: Timestamp, popped: Popped, point: &CommitPoint) {
        // The element of a lost pop is where it was.
        if point.is_lost() {
            return;
        }
        let Self { state, waiters, not_taken } = self;
        match state {
            State::Live(live) => {
                if let Err(why) = live.keyspace.put_back(now, &popped) {
                    tracing::warn!(
                        ?why,
                        "an element that nobody took is lost: its key has changed"
                    );
                }
                live.settle(now, waiters);
            }
            State::Recovering => not_taken.push(popped),
            State::Ended(_) => tracing::warn!("an element that nobody took is lost"),
        }
    }

    /// Removes keys that have ended; whether there may be more of them.
    pub(super) fn sweep(&mut self, now: Timestamp, at_most: usize) -> bool {
        let State::Live(live) = &mut self.state else { return false };
        let n_removed = live.keyspace.sweep(now, at_most);
        live.gather(Vec::new());
        n_removed == at_most
    }

    /// What has gathered, for the store.
    pub(super) fn hand_over(&mut self) -> Option<Gathered> {
        let State::Live(live) = &mut self.state else { return None };
        let batch = live.gathering.take()?;
        live.newest = Some(Arc::clone(&batch));
        let bytes = live.keyspace.unsaved_bytes();
        live.in_flight_bytes += bytes;
        Some(Gathered { writes: live.keyspace.take_writes(), bytes, batch })
    }

    pub(super) fn has_gathered(&self) -> bool {
        matches!(&self.state, State::Live(live) if live.gathering.is_some())
    }

    /// The oldest batch that the store had is durable.
    pub(super) fn kept(&mut self, bytes: usize) {
        if let State::Live(live) = &mut self.state {
            live.in_flight_bytes -= bytes;
        }
    }

    /// A change was lost, and the memory with it. Settles what had gathered, and `given`.
    pub(super) fn lose(&mut self, given: impl Iterator<Item = Arc<Batch>>) {
        for batch in given {
            batch.settle(false);
        }
        let State::Live(live) = &mut self.state else { return };
        if let Some(batch) = live.gathering.take() {
            batch.settle(false);
        }
        self.state = State::Recovering;
    }

    /// The keyspace as it is durable. Every pop that still waits is tried again.
    pub(super) fn restore(&mut self, now: Timestamp, keyspace: Keyspace) {
        self.state = State::Live(Live::new(keyspace));
        for popped in std::mem::take(&mut self.not_taken) {
            self.give_back(now, popped, &CommitPoint::default());
        }
        let Self { state: State::Live(live), waiters, .. } = self else { return };
        let mut served = Vec::new();
        for id in waiters.ids() {
            live.serve(now, id, waiters, &mut served);
        }
        live.serve_waiters(now, waiters, &mut served);
        live.gather(served);
    }

    /// Takes no further command, and ends all waits; gives what has gathered.
    pub(super) fn end(&mut self, why: AskError) -> Option<Gathered> {
        let gathered = self.hand_over();
        if !self.not_taken.is_empty() {
            tracing::warn!(elements = self.not_taken.len(), "elements that nobody took are lost");
        }
        self.state = State::Ended(why);
        self.waiters = Waiters::default();
        gathered
    }

    /// Why a pop that waited is not served any more.
    pub(super) fn why_ended(&self) -> AskError {
        match &self.state {
            State::Ended(why) => why.clone(),
            State::Live(_) | State::Recovering => AskError::Unavailable,
        }
    }

    pub(super) fn next_expiry(&self) -> Option<Timestamp> {
        match &self.state {
            State::Live(live) => live.keyspace.next_expiry(),
            State::Recovering | State::Ended(_) => None,
        }
    }

    pub(super) fn load(&self, now: Timestamp) -> KeyspaceLoad {
        let waiters = self.waiters.len();
        match &self.state {
            State::Live(live) => {
                let (keys, bytes) = (live.keyspace.count_live(now), live.keyspace.used_bytes());
                KeyspaceLoad { keys, bytes, waiters }
            }
            State::Recovering | State::Ended(_) => KeyspaceLoad { waiters, ..Default::default() },
        }
    }
}

impl State {
    fn live(&mut self) -> Result<&mut Live, AskError> {
        match self {
            Self::Live(live) => Ok(live),
            Self::Recovering => Err(AskError::Unavailable),
            Self::Ended(why) => Err(why.clone()),
        }
    }
}

type ServedWaiter = (oneshot::Sender<Served>, Answer);

impl Live {
    fn new(keyspace: Keyspace) -> Box<Self> {
        Box::new(Self { keyspace, gathering: None, newest: None, in_flight_bytes: 0 })
    }

    fn check_room(&self) -> Result<(), AskError> {
        let pending_bytes = self.in_flight_bytes + self.keyspace.unsaved_bytes();
        if pending_bytes >= PENDING_BYTES_MAX { Err(AskError::Overloaded) } else { Ok(()) }
    }

    /// Serves the pops that wait, and begins a batch if something was changed. Gives the commit
    /// point of now.
    fn settle(&mut self, now: Timestamp, waiters: &mut Waiters) -> CommitPoint {
        let mut served = Vec::new();
        self.serve_waiters(now, waiters, &mut served);
        self.gather(served)
    }

    /// Serves the pops that wait for lists that have grown, before anyone else can take from them.
    fn serve_waiters(
        &mut self,
        now: Timestamp,
        waiters: &mut Waiters,
        served: &mut Vec<ServedWaiter>,
    ) {
        let mut grown = VecDeque::from(self.keyspace.take_grown());
        if waiters.is_empty() {
            return;
        }
        while let Some(key) = grown.pop_front() {
            while let Some(id) = waiters.first_of(&key) {
                // The list is empty again: nobody in this line can be served.
                if !self.serve(now, id, waiters, served) {
                    break;
                }
                // A move makes another list grow, for which others may wait.
                grown.extend(self.keyspace.take_grown());
            }
        }
    }

    /// Carries out the command of one waiter again; whether that was the end of its wait.
    fn serve(
        &mut self,
        now: Timestamp,
        id: WaiterId,
        waiters: &mut Waiters,
        served: &mut Vec<ServedWaiter>,
    ) -> bool {
        let (operation, arguments) = waiters.command(id);
        let answer = self.keyspace.execute(now, operation, arguments);
        if matches!(answer, Answer::Block { .. }) {
            return false;
        }
        let waiter = waiters.remove(id).expect("it was in the line");
        served.push((waiter.served, answer));
        true
    }

    /// Begins a batch if something was changed, and answers the waiters that were served. Gives the
    /// commit point of now.
    fn gather(&mut self, served: Vec<ServedWaiter>) -> CommitPoint {
        if self.gathering.is_none() && self.keyspace.has_writes() {
            self.gathering = Some(Arc::default());
        }
        let point = self.commit_point();
        for (waiter, answer) in served {
            let served = waiter.send(Served { answer, point: point.clone() });
            assert!(served.is_ok(), "a waiter in the table is there");
        }
        point
    }

    /// The newest change that is not known to be durable.
    fn commit_point(&mut self) -> CommitPoint {
        if let Some(batch) = &self.gathering {
            return CommitPoint::of(Some(Arc::clone(batch)));
        }
        if self.newest.as_ref().is_some_and(|batch| batch.is_settled()) {
            self.newest = None;
        }
        CommitPoint::of(self.newest.clone())
    }
}
