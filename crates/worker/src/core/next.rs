//! Middlewares: a task that is wrapped around others has the next in line executed, and waits for
//! what it gives.
//!
//! Whoever waits needs no slot meanwhile: the next in line may come to this very worker.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use protocol::session::codec::OpenObject;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::core::executor::{CANCELLED, Outcome, TIMEOUT};

/// The next in line was stopped, or the caller was.
const NEXT_CANCELLED: &str = "next_cancelled";
/// The next in line had nothing to do.
const NEXT_SKIPPED: &str = "next_skipped";
/// The caller's time is over.
const NEXT_TIMEOUT: &str = "next_timeout";
/// There is no next in line.
const NEXT_NO_CHAIN: &str = "next_no_chain";
/// The next in line failed, and did not say with which code.
const FAILED: &str = "E.RUNNER.FAILURE";

/// Where a task stands in a chain of middlewares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainPlace {
    /// The node that the chain is wrapped around.
    pub host_node_id: String,
    /// The middlewares, outermost first.
    pub middlewares: Vec<String>,
    /// Which of them this is; `None` for the node itself.
    pub index: Option<u64>,
}

/// What a middleware gives the next in line.
#[derive(Clone, Debug, Default)]
pub struct NextWords {
    /// Is laid over the parameters of the next in line.
    pub payload: Option<OpenObject>,
    /// How long the caller waits.
    pub timeout: Option<Duration>,
}

/// Why the next in line gave nothing, or not what it should.
#[derive(Clone, Debug)]
pub struct NextFailure {
    /// A code, like `next_failed`.
    pub code: String,
    /// The same for people.
    pub message: String,
    /// The code with which the next in line failed, where it said one.
    pub cause: Option<String>,
    /// What it gave all the same.
    pub result: Option<Box<RawValue>>,
}

impl NextFailure {
    pub(crate) fn new(code: &str, message: &str) -> Self {
        Self { code: code.into(), message: message.into(), cause: None, result: None }
    }

    /// Whether the next in line was stopped: nothing is tried again.
    pub fn is_cancelled(&self) -> bool {
        self.code == NEXT_CANCELLED
    }

    /// Whether the next in line had nothing to do.
    pub fn is_skipped(&self) -> bool {
        self.code == NEXT_SKIPPED
    }

    /// The end of a middleware that has nothing to add. The next in line had its attempts, so
    /// another attempt of the middleware would only give it more than it was meant to have.
    pub fn into_outcome(self) -> Outcome {
        match self.code.as_str() {
            NEXT_CANCELLED => Outcome::hopeless(CANCELLED, self.message),
            NEXT_SKIPPED => Outcome::skipped(self.result.unwrap_or_default()),
            NEXT_TIMEOUT => Outcome::hopeless(TIMEOUT, self.message),
            NEXT_NO_CHAIN => Outcome::hopeless(NO_CHAIN, self.message),
            _ => Outcome::Failed {
                code: self.cause.unwrap_or_else(|| FAILED.into()),
                reason: self.message,
                retryable: false,
                details: self.result,
            },
        }
    }
}

/// A middleware that is wrapped around nothing.
const NO_CHAIN: &str = "E.MIDDLEWARE.NO_CHAIN";

/// What the next in line gave.
pub type NextAnswer = Result<Box<RawValue>, NextFailure>;

/// A call on its way to the session.
#[derive(Debug)]
pub(crate) struct Calling {
    pub(crate) words: NextWords,
    pub(crate) reply: oneshot::Sender<NextAnswer>,
}

type Carry = Arc<dyn Fn(Calling) + Send + Sync>;

/// Calls the next in line. Cheap to clone.
#[derive(Clone)]
pub struct Next {
    place: Option<Arc<ChainPlace>>,
    carry: Option<Carry>,
    stop: CancellationToken,
}

impl fmt::Debug for Next {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Next").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Next {
    /// For a task that is in no chain, or whose server knows none.
    pub fn nowhere() -> Self {
        Self { place: None, carry: None, stop: CancellationToken::new() }
    }

    /// For a task in a chain; `carry` takes calls to the session. Whoever waits is woken by `stop`.
    pub(crate) fn new(
        place: Arc<ChainPlace>,
        stop: CancellationToken,
        carry: impl Fn(Calling) + Send + Sync + 'static,
    ) -> Self {
        Self { place: Some(place), carry: Some(Arc::new(carry)), stop }
    }

    /// Where the task stands in its chain.
    pub fn place(&self) -> Option<&ChainPlace> {
        self.place.as_deref()
    }

    /// Has the next in line executed, and waits for what it gives. Each call is a new execution.
    pub async fn call(&self, words: NextWords) -> NextAnswer {
        let is_middleware = self.place().is_some_and(|place| place.index.is_some());
        let Some(carry) = self.carry.as_ref().filter(|_| is_middleware) else {
            let message = "this task is no middleware: nothing comes after it";
            return Err(NextFailure::new(NEXT_NO_CHAIN, message));
        };
        let (reply, answer) = oneshot::channel();
        carry(Calling { words, reply });
        let stopped = || NextFailure::new(NEXT_CANCELLED, "the work was stopped");
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(stopped()),
            answer = answer => answer.unwrap_or_else(|_| Err(stopped())),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A next in line that answers as a test wants.
    pub(crate) fn answering(
        answer: impl Fn(NextWords) -> NextAnswer + Send + Sync + 'static,
    ) -> Next {
        let place =
            ChainPlace { host_node_id: "h".into(), middlewares: vec!["m".into()], index: Some(0) };
        Next::new(Arc::new(place), CancellationToken::new(), move |calling| {
            let _ = calling.reply.send(answer(calling.words));
        })
    }

    #[tokio::test]
    async fn who_is_no_middleware_has_no_next() {
        let failure = Next::nowhere().call(NextWords::default()).await.expect_err("no chain");
        assert_eq!(failure.code, NEXT_NO_CHAIN);
        let host = ChainPlace { host_node_id: "h".into(), middlewares: vec![], index: None };
        let next = Next::new(Arc::new(host), CancellationToken::new(), |_| panic!("not called"));
        assert_eq!(
            next.call(NextWords::default()).await.expect_err("the host").code,
            NEXT_NO_CHAIN
        );
    }

    #[tokio::test]
    async fn a_wait_ends_at_once_when_the_work_is_stopped() {
        let place =
            ChainPlace { host_node_id: "h".into(), middlewares: vec!["m".into()], index: Some(0) };
        let stop = CancellationToken::new();
        let (kept, keeper) = std::sync::mpsc::channel();
        let next = Next::new(Arc::new(place), stop.clone(), move |calling| {
            kept.send(calling).expect("kept");
        });
        let waiting = tokio::spawn(async move { next.call(NextWords::default()).await });
        tokio::task::yield_now().await;
        stop.cancel();
        assert!(waiting.await.expect("no panic").expect_err("stopped").is_cancelled());
        drop(keeper);
    }
}
