//! What the lock of one keyspace guards.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use keyspace::{Answer, Keyspace, Moment, Write};
use model::Timestamp;
use tokio::sync::oneshot;

use super::batch::{Batch, Mark};
use super::waiters::{Served, WaiterId, Waiters};
use crate::dice::Dice;
use crate::handle::AskError;

/// Changes of one tenant that are not durable yet; beyond this, commands are refused.
pub const SCRATCH_PENDING_BYTES_MAX: usize = 64 << 20;

/// What a row costs to keep in memory until it is durable, besides its bytes.
const WRITE_BYTES: usize = 128;

/// A keyspace, and who waits for it.
#[derive(Debug)]
pub(super) struct Memory {
    standing: Standing,
    waiters: Waiters,
    dice: Dice,
    /// Pops to undo, from a time when there was no keyspace.
    owed: Vec<Vec<Bytes>>,
}

#[derive(Debug)]
enum Standing {
    /// Commands are carried out.
    Live(Box<Live>),
    /// A change was lost; the keyspace is being restored.
    Away,
    /// The tenant is lost, or the server stops.
    Ended(AskError),
}

#[derive(Debug)]
struct Live {
    keyspace: Keyspace,
    gathered: Option<Gathered>,
    /// The newest batch that the store has.
    newest: Option<Arc<Batch>>,
    /// Changes that are not durable, whether the store has them or not.
    pending_bytes: usize,
}

/// Changes that the store has not been given.
#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) writes: Vec<Write>,
    pub(super) bytes: usize,
    pub(super) batch: Arc<Batch>,
}

/// When pops that wait hear of what commands have put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waking {
    /// After each command.
    Each,
    /// After the last one: nobody comes between them.
    Last,
}

/// How a pop begins.
pub(super) enum Begun {
    /// There was something to take.
    Served(Served),
    /// It waits, at most for so long.
    Waits { id: WaiterId, served: oneshot::Receiver<Served>, timeout: Option<std::time::Duration> },
}

impl Memory {
    pub(super) fn new(keyspace: Keyspace) -> Self {
        Self {
            standing: Standing::Live(Live::new(keyspace)),
            waiters: Waiters::default(),
            dice: Dice::seeded(),
            owed: Vec::new(),
        }
    }

    /// Carries out commands, one after the other, with nobody between them.
    pub(super) fn execute<C: AsRef<[Bytes]>>(
        &mut self,
        now: Timestamp,
        commands: &[C],
        waking: Waking,
    ) -> Result<(Vec<Answer>, Mark), AskError> {
        let Self { standing, waiters, dice, .. } = self;
        let live = standing.live()?;
        live.check_room()?;
        let mut served = Vec::new();
        let mut answers = Vec::with_capacity(commands.len());
        for command in commands {
            let at = Moment { now, entropy: dice.roll() };
            let mut answer = live.keyspace.execute(at, command.as_ref());
            match waking {
                Waking::Each if !waiters.is_empty() => live.wake(at, waiters, &mut served),
                Waking::Last if matches!(answer, Answer::Block { .. }) => {
                    answer = Answer::NullArray;
                }
                Waking::Each | Waking::Last => {}
            }
            answers.push(answer);
        }
        live.wake(Moment { now, entropy: dice.roll() }, waiters, &mut served);
        Ok((answers, live.gather(served)))
    }

    /// Carries out a command that may wait.
    pub(super) fn begin_turn(
        &mut self,
        now: Timestamp,
        command: &[Bytes],
    ) -> Result<Begun, AskError> {
        let Self { standing, waiters, dice, .. } = self;
        let live = standing.live()?;
        live.check_room()?;
        let at = Moment { now, entropy: dice.roll() };
        let answer = live.keyspace.execute(at, command);
        if let Answer::Block { keys, timeout } = answer {
            // It changed nothing but keys that had ended; they are gathered with the next change.
            if waiters.is_full() {
                return Err(AskError::Overloaded);
            }
            let (id, served) = waiters.add(command.to_vec(), keys);
            return Ok(Begun::Waits { id, served, timeout });
        }
        let mut served = Vec::new();
        live.wake(at, waiters, &mut served);
        let mark = live.gather(served);
        Ok(Begun::Served(Served { answer, mark }))
    }

    /// Takes a waiter out of its lines; `false` when it was served before.
    pub(super) fn end_wait(&mut self, id: WaiterId) -> bool {
        self.waiters.remove(id).is_some()
    }

    /// Undoes a pop that became true and whose element nobody took.
    pub(super) fn give_back(&mut self, now: Timestamp, undoing: Vec<Bytes>, mark: &Mark) {
        // The element of a lost pop is where it was.
        if mark.is_lost() {
            return;
        }
        let Self { standing, waiters, dice, owed } = self;
        match standing {
            Standing::Live(live) => {
                let at = Moment { now, entropy: dice.roll() };
                if let Answer::Error(why) = live.keyspace.execute(at, &undoing) {
                    tracing::warn!(%why, "an element that nobody took does not fit any more");
                }
                let mut served = Vec::new();
                live.wake(at, waiters, &mut served);
                live.gather(served);
            }
            Standing::Away => owed.push(undoing),
            Standing::Ended(_) => tracing::warn!("an element that nobody took is lost"),
        }
    }

    /// Removes keys that have ended; whether there may be more of them.
    pub(super) fn sweep(&mut self, now: Timestamp, at_most: usize) -> bool {
        let Standing::Live(live) = &mut self.standing else { return false };
        let n_removed = live.keyspace.sweep(now, at_most);
        live.gather(Vec::new());
        n_removed == at_most
    }

    /// What has gathered, for the store.
    pub(super) fn hand_over(&mut self) -> Option<Gathered> {
        let Standing::Live(live) = &mut self.standing else { return None };
        let gathered = live.gathered.take()?;
        live.newest = Some(Arc::clone(&gathered.batch));
        Some(gathered)
    }

    pub(super) fn has_gathered(&self) -> bool {
        matches!(&self.standing, Standing::Live(live) if live.gathered.is_some())
    }

    /// The oldest batch that the store had is durable.
    pub(super) fn kept(&mut self, bytes: usize) {
        if let Standing::Live(live) = &mut self.standing {
            live.pending_bytes -= bytes;
        }
    }

    /// A change was lost, and the memory with it. Settles what had gathered, and `given`.
    pub(super) fn lose(&mut self, given: impl Iterator<Item = Arc<Batch>>) {
        for batch in given {
            batch.settle(false);
        }
        let Standing::Live(live) = &mut self.standing else { return };
        if let Some(gathered) = live.gathered.take() {
            gathered.batch.settle(false);
        }
        self.standing = Standing::Away;
    }

    /// The keyspace as it is durable. Everyone who still waits is tried again.
    pub(super) fn restore(&mut self, now: Timestamp, keyspace: Keyspace) {
        self.standing = Standing::Live(Live::new(keyspace));
        for undoing in std::mem::take(&mut self.owed) {
            self.give_back(now, undoing, &Mark::default());
        }
        let Self { standing: Standing::Live(live), waiters, dice, .. } = self else { return };
        let at = Moment { now, entropy: dice.roll() };
        let mut served = Vec::new();
        for id in waiters.ids() {
            live.serve(at, id, waiters, &mut served);
        }
        live.wake(at, waiters, &mut served);
        live.gather(served);
    }

    /// Takes no further command, and tells who waits; gives what has gathered.
    pub(super) fn end(&mut self, why: AskError) -> Option<Gathered> {
        let gathered = self.hand_over();
        if !self.owed.is_empty() {
            tracing::warn!(elements = self.owed.len(), "elements that nobody took are lost");
        }
        self.standing = Standing::Ended(why);
        self.waiters = Waiters::default();
        gathered
    }

    /// Why whoever waited is not served any more.
    pub(super) fn why_ended(&self) -> AskError {
        match &self.standing {
            Standing::Ended(why) => why.clone(),
            Standing::Live(_) | Standing::Away => AskError::Unavailable,
        }
    }

    pub(super) fn next_expiry(&self) -> Option<Timestamp> {
        match &self.standing {
            Standing::Live(live) => live.keyspace.next_expiry(),
            Standing::Away | Standing::Ended(_) => None,
        }
    }

    /// Keys, bytes, and pops that wait.
    pub(super) fn load(&self) -> (usize, usize, usize) {
        match &self.standing {
            Standing::Live(live) => {
                (live.keyspace.len(), live.keyspace.used_bytes(), self.waiters.len())
            }
            Standing::Away | Standing::Ended(_) => (0, 0, self.waiters.len()),
        }
    }
}

impl Standing {
    fn live(&mut self) -> Result<&mut Live, AskError> {
        match self {
            Self::Live(live) => Ok(live),
            Self::Away => Err(AskError::Unavailable),
            Self::Ended(why) => Err(why.clone()),
        }
    }
}

type ServedWaiter = (oneshot::Sender<Served>, Answer);

impl Live {
    fn new(keyspace: Keyspace) -> Box<Self> {
        Box::new(Self { keyspace, gathered: None, newest: None, pending_bytes: 0 })
    }

    fn check_room(&self) -> Result<(), AskError> {
        let is_full = self.pending_bytes >= SCRATCH_PENDING_BYTES_MAX;
        if is_full { Err(AskError::Overloaded) } else { Ok(()) }
    }

    /// Serves who waits for lists that have grown, before anyone else can take from them.
    fn wake(&mut self, at: Moment, waiters: &mut Waiters, served: &mut Vec<ServedWaiter>) {
        let mut grown = VecDeque::from(self.keyspace.take_grown());
        if waiters.is_empty() {
            return;
        }
        while let Some(key) = grown.pop_front() {
            while let Some(id) = waiters.first_of(&key) {
                // The list is empty again: nobody in this line can be served.
                if !self.serve(at, id, waiters, served) {
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
        at: Moment,
        id: WaiterId,
        waiters: &mut Waiters,
        served: &mut Vec<ServedWaiter>,
    ) -> bool {
        let answer = self.keyspace.execute(at, waiters.command(id));
        if matches!(answer, Answer::Block { .. }) {
            return false;
        }
        let waiter = waiters.remove(id).expect("it was in the line");
        served.push((waiter.served, answer));
        true
    }

    /// Takes up what was changed, and answers who was served. Gives the mark of now.
    fn gather(&mut self, served: Vec<ServedWaiter>) -> Mark {
        let writes = self.keyspace.take_writes();
        if !writes.is_empty() {
            let bytes = writes.iter().map(weight).sum();
            self.pending_bytes += bytes;
            match &mut self.gathered {
                Some(gathered) => {
                    gathered.writes.extend(writes);
                    gathered.bytes += bytes;
                }
                None => self.gathered = Some(Gathered { writes, bytes, batch: Arc::default() }),
            }
        }
        let mark = self.mark();
        for (waiter, answer) in served {
            let served = waiter.send(Served { answer, mark: mark.clone() });
            assert!(served.is_ok(), "a waiter in the table is there");
        }
        mark
    }

    /// The newest change that is not known to be durable.
    fn mark(&mut self) -> Mark {
        if let Some(gathered) = &self.gathered {
            return Mark::of(Some(Arc::clone(&gathered.batch)));
        }
        if self.newest.as_ref().is_some_and(|batch| batch.is_settled()) {
            self.newest = None;
        }
        Mark::of(self.newest.clone())
    }
}

fn weight(write: &Write) -> usize {
    let bytes = match write {
        Write::PutKey { key, value, .. } => key.len() + value.len(),
        Write::DeleteKey { key } => key.len(),
        Write::PutItem { key, item, value } => key.len() + item.len() + value.len(),
        Write::DeleteItem { key, item } => key.len() + item.len(),
    };
    WRITE_BYTES + bytes
}
