//! One dispatch while it runs: a task of its own, with a deadline.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use protocol::session::payload::resource_read::Chunk;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::attempt::PANICKED;
use crate::executor::{Assignment, Context, Executor, Outcome, TIMEOUT};
use crate::feedback::FeedbackSink;
use crate::next::{Calling, ChainPlace, Next};
use crate::resources::{Lent, Registry};

/// How much longer an executor that watches its deadline itself may take; it ends more orderly.
const DEADLINE_SLACK: Duration = Duration::from_millis(100);
/// How long work that was told to stop may take to do so in order; then it is dropped. Longer
/// than the grace of a program.
pub(crate) const STOP_LIMIT: Duration = Duration::from_secs(15);

/// Which attempt of this process.
pub(crate) type Number = u64;

/// What attempts tell the session. Each has a few on its way at most, so that nothing piles up.
#[derive(Debug)]
pub(crate) enum Note {
    /// It has something to say.
    Said(Number),
    /// It calls the next in line.
    Calls(Number, Calling),
    /// It is over.
    Ended(Number, Outcome),
    /// A part of a resource was read for the server.
    Read(Box<Chunk>),
}

/// What the task of an attempt needs.
pub(crate) struct Attempt {
    pub(crate) number: Number,
    /// The run that it belongs to.
    pub(crate) run_id: String,
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) assignment: Assignment,
    pub(crate) feedback: FeedbackSink,
    pub(crate) stop: CancellationToken,
    pub(crate) time: Option<Duration>,
    pub(crate) place: Option<Arc<ChainPlace>>,
    pub(crate) resources: Arc<Registry>,
    /// The resources that it was given by name.
    pub(crate) lent: Vec<Lent>,
    pub(crate) notes: mpsc::UnboundedSender<Note>,
}

impl fmt::Debug for Attempt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Attempt").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Attempt {
    /// Executes it and says how it ended.
    pub(crate) async fn run(self) {
        let (number, notes) = (self.number, self.notes.clone());
        // A panic is one failed attempt, not the end of the worker.
        let outcome = AssertUnwindSafe(self.execute()).catch_unwind().await;
        let outcome = outcome.unwrap_or_else(|_| {
            Outcome::passing(PANICKED, "the work ended in a panic; the worker's log has it")
        });
        // Nobody listens when the session has ended, and then nobody needs to know.
        let _ = notes.send(Note::Ended(number, outcome));
    }

    async fn execute(self) -> Outcome {
        let deadline = self.time.map(|time| Instant::now() + time);
        let inner_stop = self.stop.child_token();
        let (number, notes) = (self.number, self.notes);
        let next = self.place.map_or_else(Next::nowhere, |place| {
            Next::new(place, inner_stop.clone(), move |calling| {
                // Nobody listens when the session has ended; then the work is stopped too.
                let _ = notes.send(Note::Calls(number, calling));
            })
        });
        let context = Context {
            run_id: Some(self.run_id),
            feedback: self.feedback,
            stop: inner_stop.clone(),
            deadline,
            next,
            resources: Some(self.resources),
        };
        // What it works with stays until it is done.
        let _lent = self.lent;
        let mut work = self.executor.execute(self.assignment, context);
        let time_is_up = async {
            match deadline {
                Some(deadline) => sleep_until(deadline + DEADLINE_SLACK).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            outcome = &mut work => outcome,
            () = self.stop.cancelled() => {
                let ended = timeout(STOP_LIMIT, work).await;
                ended.unwrap_or_else(|_| Outcome::stopped())
            }
            () = time_is_up => {
                inner_stop.cancel();
                // However it ends now, it took too long.
                let _ = timeout(STOP_LIMIT, work).await;
                let ms = self.time.unwrap_or_default().as_millis();
                Outcome::passing(TIMEOUT, format!("the task took longer than {ms} ms"))
            }
        }
    }
}
