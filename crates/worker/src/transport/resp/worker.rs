//! A worker from its start to its end.

use std::sync::Arc;
use std::time::Duration;

use model::WorkerId;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::connection::{Address, request};
use super::execution::{self, Ended, Surroundings};
use super::fetch::{Fetched, Fetcher};
use super::heartbeat::{HeartbeatLoop, JobStats, Signal};
use super::reconnecting::Reconnecting;
use super::registration::{Dialect, Greeting, Unit};
use crate::core::capabilities::{Offer, slots_default};
use crate::core::drain::{Drain, Order, STOP_LIMIT};
use crate::core::executor::Executor;
use crate::core::handle::{WorkerError, WorkerHandle};
use crate::core::verdict::Summary;

/// How long a worker finishes what it has, unless it is told otherwise (seed 004 section 8.1).
pub const DRAIN_DEADLINE: Duration = Duration::from_mins(5);
/// Jobs between the task that pops and the one that starts them.
const FETCHED_MAX: usize = 1;
/// Each of the two lines can be refused once.
const REFUSALS_MAX: usize = 2;

/// What a worker is made of.
pub struct Options {
    /// Where its server is.
    pub address: Address,
    /// What it shows to be let in.
    pub key: Option<String>,
    /// Its name.
    pub worker_id: WorkerId,
    /// Its version.
    pub version: String,
    /// What it can do: slots, queues, tools and labels count. Without queues it serves the usual
    /// ones, and of too many tools the first are told.
    pub offer: Offer,
    /// The agentic units that it has, besides its tools.
    pub units: Vec<Unit>,
    /// Executes plans.
    pub executor: Arc<dyn Executor>,
    /// How long it finishes what it has when the server tells it to leave.
    pub drain_deadline: Duration,
    pub(super) timing: Timing,
}

impl Options {
    /// A worker of the usual kind, which proves nothing and has no tools.
    pub fn new(address: Address, worker_id: WorkerId, executor: Arc<dyn Executor>) -> Self {
        Self {
            address,
            key: None,
            worker_id,
            version: env!("CARGO_PKG_VERSION").into(),
            offer: Offer { slots: slots_default(), ..Offer::default() },
            units: Vec::new(),
            executor,
            drain_deadline: DRAIN_DEADLINE,
            timing: Timing::default(),
        }
    }
}

/// Starts a worker. It connects by itself, again and again if need be.
pub fn start(options: Options) -> WorkerHandle {
    WorkerHandle::start(|orders| WorkerLoop::new(options, orders).run())
}

/// Where everything comes together: jobs come in, ends go out, orders are obeyed.
pub(super) struct WorkerLoop {
    pub(super) around: Arc<Surroundings>,
    pub(super) orders: mpsc::Receiver<Order>,
    pub(super) refusals: mpsc::Receiver<WorkerError>,
    pub(super) signals: watch::Receiver<Signal>,
    /// `None` when nothing new is popped any more.
    pub(super) fetched: Option<mpsc::Receiver<Fetched>>,
    pub(super) stop_fetching: CancellationToken,
    pub(super) jobs: JoinSet<Ended>,
    pub(super) summary: Summary,
    pub(super) drain: Drain,
    pub(super) main_keeper: AbortOnDropHandle<()>,
    /// Tasks that live as long as the worker.
    _company: [AbortOnDropHandle<()>; 3],
}

impl WorkerLoop {
    fn new(mut options: Options, orders: mpsc::Receiver<Order>) -> Self {
        let n_slots = options.offer.slots.max(1);
        options.offer.slots = n_slots;
        let options = Arc::new(options);
        let greeting = |registers| Greeting { options: Arc::clone(&options), registers };
        let (main, main_keeper) = Reconnecting::new(greeting(true));
        let (side, side_keeper) = Reconnecting::new(greeting(false));
        let (stats, leave) = (JobStats::new(std::env::temp_dir()), CancellationToken::new());
        let around = Arc::new(Surroundings { options, main, side, stats, leave });
        let (refused, refusals) = mpsc::channel(REFUSALS_MAX);
        let (signal, signals) = watch::channel(Signal::Work);
        let (jobs, fetched) = mpsc::channel(FETCHED_MAX);
        let stop_fetching = CancellationToken::new();
        let popping = Fetcher {
            around: Arc::clone(&around),
            slots: Arc::new(Semaphore::new(n_slots)),
            signals: signals.clone(),
            stop: stop_fetching.clone(),
            jobs,
            n_slots,
            turn: 0,
            n_missed: 0,
        };
        let heart = HeartbeatLoop { around: Arc::clone(&around), signals: signal };
        Self {
            around,
            orders,
            refusals,
            signals,
            fetched: Some(fetched),
            stop_fetching,
            jobs: JoinSet::new(),
            summary: Summary::default(),
            drain: Drain::Working,
            main_keeper: spawn(watch_over(main_keeper, refused.clone())),
            _company: [
                spawn(watch_over(side_keeper, refused)),
                spawn(popping.run()),
                spawn(heart.beat()),
            ],
        }
    }

    async fn run(mut self) -> Result<Summary, WorkerError> {
        while !self.is_over() {
            tokio::select! {
                biased;
                order = self.orders.recv() => self.on_order(order),
                Some(refused) = self.refusals.recv() => return self.refused(refused).await,
                () = self.drain.deadline() => self.on_deadline(),
                Ok(()) = self.signals.changed() => self.on_signal(),
                fetched = next(&mut self.fetched) => self.on_fetched(fetched),
                Some(ended) = self.jobs.join_next() => self.on_ended(ended.unwrap_or(Ended::Unheard)),
            }
        }
        Ok(self.part().await)
    }

    fn on_signal(&mut self) {
        if *self.signals.borrow_and_update() == Signal::Terminate {
            self.on_order(Some(Order::Drain(self.around.options.drain_deadline)));
        }
    }

    fn on_fetched(&mut self, fetched: Option<Fetched>) {
        match fetched {
            Some(Fetched::Job(job, slot)) => {
                let running = execution::run(Arc::clone(&self.around), *job);
                self.jobs.spawn(async move {
                    let ended = running.await;
                    drop(slot);
                    ended
                });
            }
            Some(Fetched::Judged(judgement)) => self.summary.add(Some(&judgement)),
            None => self.on_fetch_over(),
        }
    }

    fn on_ended(&mut self, ended: Ended) {
        match ended {
            Ended::Judged(judgement) => self.summary.add(Some(&judgement)),
            Ended::Unheard => self.summary.add(None),
            Ended::GivenBack => {}
        }
    }

    /// Without the right to be here nothing can be reported, so nothing is worth going on with.
    async fn refused(mut self, error: WorkerError) -> Result<Summary, WorkerError> {
        self.jobs.shutdown().await;
        Err(error)
    }
}

/// The next one that was popped; never, when none will come.
async fn next(fetched: &mut Option<mpsc::Receiver<Fetched>>) -> Option<Fetched> {
    match fetched {
        Some(fetched) => fetched.recv().await,
        None => std::future::pending().await,
    }
}

/// Says when a line was refused.
async fn watch_over(
    keeper: impl Future<Output = Option<WorkerError>>,
    refused: mpsc::Sender<WorkerError>,
) {
    if let Some(error) = keeper.await {
        // Whoever is refused a second time knows it already.
        let _ = refused.send(error).await;
    }
}

fn spawn(task: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(task))
}

/// How long the last word may take.
const LAST_WORD: Duration = Duration::from_secs(2);

impl WorkerLoop {
    pub(super) fn on_order(&mut self, order: Option<Order>) {
        if let Some(deadline) = self.drain.on_order(order) {
            tracing::info!(?deadline, n_running = self.jobs.len(), "finishing");
        }
        self.stop_fetching.cancel();
    }

    /// Nothing new comes. A connection that only popped is closed, so that the server takes back
    /// what nobody read.
    pub(super) fn on_fetch_over(&mut self) {
        self.fetched = None;
        if self.dialect() == Some(Dialect::Registered) {
            self.main_keeper.abort();
        }
    }

    pub(super) fn on_deadline(&mut self) {
        match self.drain {
            Drain::Finishing { .. } => {
                let jobs = self.around.stats.active().join(", ");
                tracing::warn!(jobs, "the time is up for jobs that are not finished");
                self.around.leave.cancel();
                self.drain = Drain::Stopping { until: Instant::now() + STOP_LIMIT };
            }
            Drain::Stopping { .. } => self.drain = Drain::AtOnce,
            Drain::Working | Drain::Parting { .. } | Drain::AtOnce => {}
        }
    }

    pub(super) fn is_over(&self) -> bool {
        let is_clear = self.fetched.is_none() && self.jobs.is_empty();
        match self.drain {
            Drain::AtOnce => true,
            Drain::Finishing { .. } | Drain::Stopping { .. } | Drain::Parting { .. } => is_clear,
            Drain::Working => false,
        }
    }

    /// Ends what is left, says goodbye and tells how it went.
    pub(super) async fn part(mut self) -> Summary {
        // Programs die with the tasks that watch them.
        self.jobs.shutdown().await;
        // A server that knows no workers knows no goodbye.
        if self.dialect() == Some(Dialect::Registered) {
            let words = request(&["WORKER.UNREGISTER", self.around.options.worker_id.as_str()]);
            let said = timeout(LAST_WORD, self.around.side.ask(words)).await;
            if !matches!(said, Ok(Ok(_))) {
                tracing::warn!("nobody heard the goodbye; what was held comes back by itself");
            }
        }
        self.summary
    }

    fn dialect(&self) -> Option<Dialect> {
        self.around.main.terms().borrow().map(|terms| terms.dialect)
    }
}

/// The time between two heartbeats, unless the server says another (seed 004 section 3.2).
pub(super) const HEARTBEAT_EVERY: Duration = Duration::from_secs(30);

/// The longest that a server may ask for; it gives a worker up after three.
const HEARTBEAT_EVERY_MAX: Duration = Duration::from_mins(5);

/// Times that tests shorten.
#[derive(Clone, Debug)]
pub(super) struct Timing {
    /// How long a pop waits at the server.
    pub(super) pop_wait: Duration,
    /// How long it waits where only one of several queues can be asked at a time.
    pub(super) pop_wait_shared: Duration,
    /// The pause between two rounds of pops that do not wait.
    pub(super) poll_every: Duration,
    /// How long a reply may take beyond the wait that was asked for.
    pub(super) reply_within: Duration,
    /// The pause before the first reconnection; it doubles.
    pub(super) reconnect_first: Duration,
    /// The longest pause.
    pub(super) reconnect_max: Duration,
    /// The longest time between two heartbeats; a server may ask for a shorter one.
    pub(super) heartbeat_every_max: Duration,
    /// How often a running job is heard of, and asked whether it is still wanted.
    pub(super) job_beat_every: Duration,
    /// How often a worker with one connection for all is heard of. Servers that know no other kind
    /// hang up after 30 s of silence.
    pub(super) ping_every: Duration,
    /// How long a report is sent again while nobody answers it.
    pub(super) report_patience: Duration,
    /// The pause after an error that may pass; it doubles.
    pub(super) retry_pause: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            pop_wait: Duration::from_secs(5),
            pop_wait_shared: Duration::from_secs(1),
            poll_every: Duration::from_millis(200),
            reply_within: Duration::from_secs(30),
            reconnect_first: Duration::from_secs(1),
            reconnect_max: Duration::from_mins(1),
            heartbeat_every_max: HEARTBEAT_EVERY_MAX,
            job_beat_every: Duration::from_secs(5),
            ping_every: Duration::from_secs(15),
            report_patience: Duration::from_mins(10),
            retry_pause: Duration::from_secs(1),
        }
    }
}
