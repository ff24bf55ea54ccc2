//! How doors talk to a coordinator loop: one question, one answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use coordinator::{Answer, Command, Ticket};
use model::ShardId;
use tokio::sync::{mpsc, oneshot};

/// Questions that wait to be taken up; one more is refused.
pub const INBOX_MAX: usize = 65_536;

/// Talks to the coordinator of one shard. Cheap to clone.
#[derive(Clone)]
pub struct CoordinatorHandle {
    shard: ShardId,
    inbox: mpsc::Sender<Message>,
    tickets: Arc<AtomicU64>,
}

/// What travels to the loop.
pub(crate) enum Message {
    /// A question; the answer goes back through `reply`.
    Ask { command: Command, ticket: Ticket, reply: oneshot::Sender<Answer> },
    /// An order without an answer.
    Tell(Command),
}

/// Why a question got no answer. Nothing that it asked for is promised, and all of it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// Too many questions wait already; this one was not taken up.
    #[error("more requests than the coordinator can take right now")]
    Overloaded,
    /// The store cannot keep anything right now.
    #[error("the store cannot keep anything right now")]
    Unavailable,
    /// The server is stopping.
    #[error("the server is stopping")]
    Stopping,
}

impl CoordinatorHandle {
    /// A handle and the receiving end for the loop.
    pub(crate) fn new(shard: ShardId) -> (Self, mpsc::Receiver<Message>) {
        let (inbox, receiver) = mpsc::channel(INBOX_MAX);
        (Self { shard, inbox, tickets: Arc::new(AtomicU64::new(1)) }, receiver)
    }

    /// The shard behind this handle; ids of other shards are unknown to it.
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// Asks and waits for the answer, which comes only after what it says is durable.
    ///
    /// When the caller goes away while it waits, the coordinator is told to forget the request;
    /// leases that were granted meanwhile are taken back.
    pub async fn ask(&self, command: impl FnOnce(Ticket) -> Command) -> Result<Answer, AskError> {
        let ticket = Ticket(self.tickets.fetch_add(1, Ordering::Relaxed));
        let (reply, answer) = oneshot::channel();
        let message = Message::Ask { command: command(ticket), ticket, reply };
        self.inbox.try_send(message).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => AskError::Overloaded,
            mpsc::error::TrySendError::Closed(_) => AskError::Stopping,
        })?;
        let mut question = Question { handle: self, ticket, answer: Some(answer) };
        let answer = question.answered().await;
        // The loop dropped the question: because it stops, or because it lost its store.
        let is_stopping = self.inbox.is_closed();
        answer.map_err(|_| if is_stopping { AskError::Stopping } else { AskError::Unavailable })
    }

    /// Gives an order that nobody waits for.
    pub(crate) fn tell(&self, command: Command) {
        // A full inbox loses only courtesy: what a withdrawal would have freed at once is freed
        // by its own deadline.
        let _ = self.inbox.try_send(Message::Tell(command));
    }
}

/// A question under way. Tells the coordinator when its asker goes before it has the answer.
struct Question<'a> {
    handle: &'a CoordinatorHandle,
    ticket: Ticket,
    /// `None` once the answer is with the asker.
    answer: Option<oneshot::Receiver<Answer>>,
}

impl Question<'_> {
    async fn answered(&mut self) -> Result<Answer, oneshot::error::RecvError> {
        let answer = self.answer.as_mut().expect("a question is waited for once").await;
        self.answer = None;
        answer
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        let Some(mut answer) = self.answer.take() else { return };
        // From here on the loop finds nobody, and takes back what it grants. What it handed over
        // just before lies here, and nobody else knows of it.
        answer.close();
        match answer.try_recv() {
            Ok(Answer::Leases(grants)) => {
                let leases = grants.iter().map(|grant| grant.lease).collect();
                self.handle.tell(Command::ReturnLeases { leases });
            }
            Ok(_) => {} // Any other answer may be lost: the asker asks again.
            Err(_) => self.handle.tell(Command::Withdraw { ticket: self.ticket }),
        }
    }
}

#[cfg(test)]
mod tests;
