//! How doors talk to a shard: one question, one answer.
//!
//! `commands` has a method for each command, and the answers for the links of workers.

mod commands;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use coordinator::{Answer, Command, Question, Refusal, Ticket};
use model::{ShardId, WorkerId};
use shard::documents::TenantDocuments;
use shard::sessions::{
    LinkId, LinkMessage, LinkWord, MemberMessage, SessionClaim, SessionCounts, SessionRecord,
    SessionView,
};
use shard::{Shard, Tell};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

pub(crate) use self::commands::{LinkAnswer, WorkerRegistration};
use crate::directory::Tenant;
use crate::keyspace::TenantKeyspace;
use crate::links::{Mailbox, ToLink, Told};
use crate::resp_workers::WorkerRegistry;

/// Limit: questions that wait to be taken up; one more is refused.
const INBOX_MAX: usize = 65_536;

/// The way to one tenant: talks to the coordinator of its shard, and finds what else the server
/// holds of it. Cheap to clone; it does not keep the tenant alive.
#[derive(Clone)]
pub struct ShardHandle {
    inner: Arc<Inner>,
}

struct Inner {
    shard: ShardId,
    inbox: mpsc::Sender<Message>,
    tickets: AtomicU64,
    workers: Arc<WorkerRegistry>,
    tenant: Weak<Tenant>,
    shutdown: CancellationToken,
}

/// What travels to the loop.
pub(crate) enum Message {
    /// A question.
    Ask(Asking),
    /// An order without an answer.
    Tell(Command),
    /// What a connection says of its worker.
    Link { link: LinkId, message: LinkMessage, reply: Option<oneshot::Sender<LinkWord>> },
    /// A connection wants to speak for a worker.
    Claim {
        link: LinkId,
        claim: SessionClaim,
        reply: oneshot::Sender<LinkWord>,
        mailbox: Box<Mailbox>,
    },
    /// A worker without a session says who it is, perhaps with a question about it.
    Member { worker: WorkerId, message: MemberMessage, ask: Option<Asking> },
    /// Something for the connection of a worker; the reply says whether there is one.
    ToWorker { worker: WorkerId, word: ToLink, reply: oneshot::Sender<bool> },
    /// A credential is no longer good.
    CredentialGone { token_id: String },
    /// Someone looks at the shard. What was seen is told when it is durable.
    Look(Look),
    /// Someone changes documents. What came of it is told when it is durable.
    Change(Change),
}

/// A question, and the way of its answer.
pub(crate) struct Asking {
    pub(crate) question: Question,
    pub(crate) ticket: Ticket,
    pub(crate) reply: oneshot::Sender<Answer>,
}

/// Looks at a shard, and gives how that is told.
pub(crate) type Look = Box<dyn FnOnce(&Shard) -> Tell + Send>;
/// Changes documents, and gives how what came of it is told.
pub(crate) type Change = Box<dyn FnOnce(&mut TenantDocuments) -> Tell + Send>;

/// Why a question did not get the answer that it hoped for. Unless it was refused, nothing that it
/// asked for is promised, and all of it may be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
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
    /// The coordinator refused; nothing changed.
    #[error("the coordinator refused")]
    Refused(Refusal),
}

impl ShardHandle {
    /// A handle and the receiving end for the loop.
    pub(crate) fn new(
        shard: ShardId,
        tenant: Weak<Tenant>,
        shutdown: CancellationToken,
    ) -> (Self, mpsc::Receiver<Message>) {
        let (inbox, receiver) = mpsc::channel(INBOX_MAX);
        let (tickets, workers) = (AtomicU64::new(1), Arc::default());
        let inner = Inner { shard, inbox, tickets, workers, tenant, shutdown };
        (Self { inner: Arc::new(inner) }, receiver)
    }

    /// What the Redis door knows of this tenant's workers.
    pub(crate) fn workers(&self) -> &Arc<WorkerRegistry> {
        &self.inner.workers
    }

    /// What the server holds of the tenant, until the shard is lost.
    pub(crate) fn tenant(&self) -> Result<Arc<Tenant>, AskError> {
        self.inner.tenant.upgrade().ok_or_else(|| self.unanswered())
    }

    /// The keys and values of the tenant.
    pub async fn keyspace(&self) -> Result<Arc<TenantKeyspace>, AskError> {
        self.tenant()?.keyspace().await
    }

    /// Whether the shard is lost. Then the directory may have another way to the tenant.
    pub(crate) fn is_lost(&self) -> bool {
        self.inner.inbox.is_closed()
    }

    /// The shard behind this handle; ids of other shards are unknown to it.
    pub fn shard(&self) -> ShardId {
        self.inner.shard
    }

    /// Asks and waits for the answer, which comes only after what it says is durable.
    ///
    /// When the caller goes away while it waits, the coordinator is told to forget the request;
    /// leases that were granted meanwhile are taken back.
    async fn ask(&self, question: Question) -> Result<Answer, AskError> {
        self.ask_in(question, Message::Ask).await
    }

    /// Asks on behalf of a worker that says who it is; refused where that is.
    async fn ask_as_member(
        &self,
        (worker, message): (WorkerId, MemberMessage),
        question: Question,
    ) -> Result<Answer, AskError> {
        let message = |asking| Message::Member { worker, message, ask: Some(asking) };
        self.ask_in(question, message).await
    }

    async fn ask_in(
        &self,
        question: Question,
        message: impl FnOnce(Asking) -> Message,
    ) -> Result<Answer, AskError> {
        let ticket = Ticket(self.inner.tickets.fetch_add(1, Ordering::Relaxed));
        let (reply, answer) = oneshot::channel();
        self.send(message(Asking { question, ticket, reply }))?;
        let mut waiting = Waiting { handle: self, ticket, answer: Some(answer) };
        let answer = waiting.answered().await;
        self.heard(answer)
    }

    fn send(&self, message: Message) -> Result<(), AskError> {
        self.inner.inbox.try_send(message).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => AskError::Overloaded,
            mpsc::error::TrySendError::Closed(_) => self.unanswered(),
        })
    }

    /// What the loop answered, or why it did not.
    fn heard<A>(&self, answer: Result<A, oneshot::error::RecvError>) -> Result<A, AskError> {
        answer.map_err(|_| self.unanswered())
    }

    /// Why the loop answers nothing: the server stops, or the shard is lost.
    fn unanswered(&self) -> AskError {
        if self.inner.shutdown.is_cancelled() { AskError::Stopping } else { AskError::Unavailable }
    }

    // ----- connections of workers

    /// Makes a connection the one that speaks for a worker. The answer is `Claimed` or
    /// `NotClaimed`; from `Claimed` on the connection is told what concerns its worker.
    pub(crate) fn claim(
        &self,
        link: LinkId,
        claim: SessionClaim,
    ) -> Result<(oneshot::Receiver<LinkWord>, Told), AskError> {
        let (reply, claimed) = oneshot::channel();
        let (mailbox, told) = Mailbox::new();
        self.send(Message::Claim { link, claim, reply, mailbox: Box::new(mailbox) })?;
        Ok((claimed, told))
    }

    /// Makes the session of a claimed worker durable, or renews it (`None`). `false` if the
    /// connection no longer speaks for the worker.
    pub(crate) async fn open_session(
        &self,
        link: LinkId,
        record: Option<Box<SessionRecord>>,
    ) -> Result<bool, AskError> {
        let message = record.map_or(LinkMessage::Renew, LinkMessage::Open);
        let (reply, opened) = oneshot::channel();
        self.send(Message::Link { link, message, reply: Some(reply) })?;
        let opened = self.heard(opened.await)?;
        Ok(matches!(opened, LinkWord::Opened { is_held: true }))
    }

    /// A connection says something that must not be lost, even where the inbox is full.
    pub(crate) fn tell_link(&self, link: LinkId, message: LinkMessage) {
        self.send_surely(Message::Link { link, message, reply: None });
    }

    /// A worker without a session says who it is; nobody waits for an answer.
    pub(crate) fn tell_member(&self, worker: WorkerId, message: MemberMessage) {
        self.send_surely(Message::Member { worker, message, ask: None });
    }

    fn send_surely(&self, message: Message) {
        if let Err(mpsc::error::TrySendError::Full(message)) = self.inner.inbox.try_send(message)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let inbox = self.inner.inbox.clone();
            runtime.spawn(async move { inbox.send(message).await });
        }
    }

    /// Tells a worker's connection something; says whether there is one.
    pub(crate) async fn tell_worker(&self, worker: WorkerId, word: ToLink) -> bool {
        let (reply, told) = oneshot::channel();
        self.send(Message::ToWorker { worker, word, reply }).is_ok() && told.await == Ok(true)
    }

    /// The sessions that a credential opened end.
    pub(crate) fn credential_gone(&self, token_id: String) {
        let _ = self.send(Message::CredentialGone { token_id });
    }

    /// The sessions behind these names of workers.
    pub(crate) async fn session_views(
        &self,
        workers: Vec<WorkerId>,
    ) -> Result<Vec<Option<SessionView>>, AskError> {
        let view = move |shard: &Shard| {
            workers.iter().map(|worker| shard.sessions().view(worker)).collect()
        };
        self.look(view).await
    }

    /// How many workers are remembered and how many were forgotten: with a session, and without.
    pub(crate) async fn worker_counts(&self) -> Result<[SessionCounts; 2], AskError> {
        self.look(|shard| [shard.sessions().counts(), shard.sessions().member_counts()]).await
    }

    /// Looks at the shard; what it sees is durable when it comes back.
    pub(crate) async fn look<A: Send + 'static>(
        &self,
        look: impl FnOnce(&Shard) -> A + Send + 'static,
    ) -> Result<A, AskError> {
        let (reply, seen) = oneshot::channel();
        self.send(Message::Look(Box::new(move |shard| {
            let seen = look(shard);
            Tell::new(move || drop(reply.send(seen)))
        })))?;
        self.heard(seen.await)
    }

    /// Changes the tenant's documents; what came of it is durable when it comes back.
    pub(crate) async fn change<A: Send + 'static>(
        &self,
        change: impl FnOnce(&mut TenantDocuments) -> A + Send + 'static,
    ) -> Result<A, AskError> {
        let (reply, changed) = oneshot::channel();
        self.send(Message::Change(Box::new(move |documents| {
            let answer = change(documents);
            Tell::new(move || drop(reply.send(answer)))
        })))?;
        self.heard(changed.await)
    }

    /// Gives an order that nobody waits for.
    pub(crate) fn tell(&self, command: Command) {
        // A full inbox loses only courtesy: what a withdrawal would have freed at once is freed
        // by its own deadline.
        let _ = self.inner.inbox.try_send(Message::Tell(command));
    }
}

/// Someone who waits for an answer. Tells the coordinator when it goes before it has the answer.
struct Waiting<'a> {
    handle: &'a ShardHandle,
    ticket: Ticket,
    /// `None` once the answer is with the asker.
    answer: Option<oneshot::Receiver<Answer>>,
}

impl Waiting<'_> {
    async fn answered(&mut self) -> Result<Answer, oneshot::error::RecvError> {
        let answer = self.answer.as_mut().expect("a question is waited for once").await;
        self.answer = None;
        answer
    }
}

impl Drop for Waiting<'_> {
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
