//! A connection that comes back: whoever asks is answered, or told that the answer is lost.

use std::time::Duration;

use bytes::Bytes;
use model::Rng;
use protocol::resp::reply::Reply;
use tokio::sync::{mpsc, oneshot, watch};
use uuid::Uuid;

use super::connection::{Connection, ConnectionError, Request};
use super::registration::{GreetError, Greeting, Terms};
use super::worker::Timing;
use crate::core::handle::WorkerError;

/// What waits to be asked; beyond it whoever asks waits too.
const PENDING_MAX: usize = 256;
/// Errands that are sent together.
const BATCH_REQUESTS_MAX: usize = 64;
/// A batch of so many bytes is not made longer.
const BATCH_BYTES: usize = 256 * 1024;

/// Why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// The connection was lost; the server may have heard it or not.
    Lost,
    /// The line is over.
    Closed,
}

/// Requests that go out together, and who waits for their replies.
struct PendingRequests {
    requests: Vec<Request>,
    /// How long the server may take beyond the usual.
    wait: Duration,
    answer: oneshot::Sender<Result<Vec<Reply>, Unanswered>>,
}

impl PendingRequests {
    fn n_bytes(&self) -> usize {
        self.requests.iter().flatten().map(Bytes::len).sum()
    }
}

/// Asks over one connection. Cheap to clone.
#[derive(Clone)]
pub(super) struct Reconnecting {
    pending: mpsc::Sender<PendingRequests>,
    terms: watch::Receiver<Option<Terms>>,
}

impl Reconnecting {
    /// A line, and what keeps it alive until it is refused or nobody can ask any more. It connects
    /// when it is asked for the first time.
    pub(super) fn new(
        greeting: Greeting,
    ) -> (Self, impl Future<Output = Option<WorkerError>> + Send + use<>) {
        let (pending, waiting) = mpsc::channel(PENDING_MAX);
        let (terms_sender, terms) = watch::channel(None);
        let keeper = ConnectionTask {
            backoff: Backoff::new(&greeting.options.timing),
            greeting,
            waiting,
            terms: terms_sender,
            connection: None,
        };
        (Self { pending, terms }, keeper.keep())
    }

    /// Asks one thing.
    pub(super) async fn ask(&self, request: Request) -> Result<Reply, Unanswered> {
        self.ask_waiting(request, Duration::ZERO).await
    }

    /// Asks one thing that waits at the server for a while.
    pub(super) async fn ask_waiting(
        &self,
        request: Request,
        wait: Duration,
    ) -> Result<Reply, Unanswered> {
        let mut replies = self.hand_in(vec![request], wait).await?;
        Ok(replies.pop().expect("one reply for one request"))
    }

    /// Asks several things at once; the replies are in the same order.
    pub(super) async fn ask_all(&self, requests: Vec<Request>) -> Result<Vec<Reply>, Unanswered> {
        self.hand_in(requests, Duration::ZERO).await
    }

    /// Waits for a connection, and tells what was agreed on.
    pub(super) async fn reach(&self) -> Result<Terms, Unanswered> {
        self.hand_in(Vec::new(), Duration::ZERO).await?;
        let terms = *self.terms.borrow();
        Ok(terms.expect("what was answered was agreed on"))
    }

    /// What was agreed on last; `None` before the first connection.
    pub(super) fn terms(&self) -> watch::Receiver<Option<Terms>> {
        self.terms.clone()
    }

    async fn hand_in(
        &self,
        requests: Vec<Request>,
        wait: Duration,
    ) -> Result<Vec<Reply>, Unanswered> {
        let (answer, answered) = oneshot::channel();
        let pending = PendingRequests { requests, wait, answer };
        self.pending.send(pending).await.map_err(|_| Unanswered::Closed)?;
        answered.await.unwrap_or(Err(Unanswered::Closed))
    }
}

struct ConnectionTask {
    greeting: Greeting,
    waiting: mpsc::Receiver<PendingRequests>,
    terms: watch::Sender<Option<Terms>>,
    backoff: Backoff,
    connection: Option<Connection>,
}

impl ConnectionTask {
    async fn keep(mut self) -> Option<WorkerError> {
        while let Some(first) = self.waiting.recv().await {
            let mut connection = match self.connect().await {
                Ok(connection) => connection,
                Err(refused) => return Some(refused),
            };
            let batch = self.gather(first);
            let is_use = batch.iter().any(|pending| !pending.requests.is_empty());
            match exchange(&mut connection, batch).await {
                Ok(()) => {
                    // A server that greets and then hangs up is not asked again at once.
                    if is_use {
                        self.backoff.succeeded();
                    }
                    self.connection = Some(connection);
                }
                Err(error) => {
                    tracing::warn!(%error, "the connection is lost");
                    self.backoff.failed();
                }
            }
        }
        None
    }

    /// What has gathered meanwhile goes out together. Who waits no more is not asked for.
    fn gather(&mut self, first: PendingRequests) -> Vec<PendingRequests> {
        let mut n_bytes = first.n_bytes();
        let mut batch = vec![first];
        while batch.len() < BATCH_REQUESTS_MAX
            && n_bytes < BATCH_BYTES
            && let Ok(next) = self.waiting.try_recv()
        {
            n_bytes += next.n_bytes();
            batch.push(next);
        }
        batch.retain(|pending| !pending.answer.is_closed());
        batch
    }

    async fn connect(&mut self) -> Result<Connection, WorkerError> {
        if let Some(connection) = self.connection.take() {
            return Ok(connection);
        }
        loop {
            tokio::time::sleep(self.backoff.delay()).await;
            match self.open().await {
                Ok((connection, terms)) => {
                    tracing::info!(address = %self.greeting.options.address, "connected");
                    self.terms.send_replace(Some(terms));
                    return Ok(connection);
                }
                Err(GreetError::Refused(refused)) => return Err(refused),
                Err(error @ (GreetError::Connection(_) | GreetError::Passing { .. })) => {
                    self.backoff.failed();
                    tracing::warn!(%error, "no connection; it is tried again");
                }
            }
        }
    }

    async fn open(&self) -> Result<(Connection, Terms), GreetError> {
        let options = &self.greeting.options;
        let mut connection =
            Connection::open(&options.address, options.timing.reply_within).await?;
        let terms = self.greeting.greet(&mut connection).await?;
        Ok((connection, terms))
    }
}

/// Sends a batch and hands out the replies as they come.
async fn exchange(
    connection: &mut Connection,
    batch: Vec<PendingRequests>,
) -> Result<(), ConnectionError> {
    let requests: Vec<Request> =
        batch.iter().flat_map(|pending| pending.requests.iter().cloned()).collect();
    let mut so_far = if requests.is_empty() { Ok(()) } else { connection.send(&requests).await };
    for pending in batch {
        let answer = if so_far.is_err() {
            Err(Unanswered::Lost)
        } else {
            let received = receive_all(connection, pending.requests.len(), pending.wait).await;
            received.map_err(|error| {
                so_far = Err(error);
                Unanswered::Lost
            })
        };
        // Whoever has gone meanwhile does not want to know.
        let _ = pending.answer.send(answer);
    }
    so_far
}

async fn receive_all(
    connection: &mut Connection,
    n: usize,
    wait: Duration,
) -> Result<Vec<Reply>, ConnectionError> {
    let mut replies = Vec::with_capacity(n);
    for _ in 0..n {
        replies.push(connection.receive(wait).await?);
    }
    Ok(replies)
}

/// Counts failures in a row: 1 s, 2 s, 4 s and so on up to a minute.
#[derive(Clone, Debug)]
pub(super) struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
    rng: Rng,
}

impl Backoff {
    pub(super) fn new(timing: &Timing) -> Self {
        // The clock and the process are in it, so that workers that lost the same server do not
        // come back in step.
        let rng = Rng::new(Uuid::new_v4().as_u64_pair().0);
        Self { first: timing.reconnect_first, longest: timing.reconnect_max, failures: 0, rng }
    }

    /// A connection failed, or ended before it was of use.
    pub(super) fn failed(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    /// An answer came.
    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// The wait before the next try, from half of the whole one to all of it; nothing before the
    /// first.
    pub(super) fn delay(&mut self) -> Duration {
        let half = self.limit() / 2;
        half + self.rng.up_to(half)
    }

    fn limit(&self) -> Duration {
        let Some(doublings) = self.failures.checked_sub(1) else { return Duration::ZERO };
        let factor = 1_u32 << doublings.min(16);
        self.first.saturating_mul(factor).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_minute_and_are_spread() {
        let mut backoff = Backoff::new(&Timing::default());
        assert_eq!(backoff.delay(), Duration::ZERO, "the first try does not wait");
        let mut limits = Vec::new();
        for _ in 0..9 {
            backoff.failed();
            let limit = backoff.limit();
            assert!((limit / 2..=limit).contains(&backoff.delay()));
            limits.push(limit.as_secs());
        }
        assert_eq!(limits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_ne!(backoff.delay(), backoff.delay());
        backoff.succeeded();
        assert_eq!(backoff.delay(), Duration::ZERO);
    }
}
