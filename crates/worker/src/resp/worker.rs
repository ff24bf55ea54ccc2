//! A worker from its start to its end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::WorkerId;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::address::Address;
use super::execution::{self, Ended, Surroundings};
use super::fetch::{Fetched, Fetcher};
use super::greeting::Greeting;
use super::heartbeat::{Heart, Wish};
use super::leaving::Leaving;
use super::line::Line;
use super::pace::Pace;
use super::registration::Registration;
use super::tally::Tally;
use super::units::Unit;
use crate::executor::Executor;
use crate::session::capabilities::slots_default;
use crate::worker::Summary;

/// How long a worker finishes what it has, unless it is told otherwise (seed 004 section 8.1).
pub const DRAIN_DEADLINE: Duration = Duration::from_mins(5);
/// Orders that wait; nobody gives more than two.
const ORDERS_MAX: usize = 4;
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
    /// How many jobs it executes at a time.
    pub slots: usize,
    /// The queues that it serves; none means the usual ones.
    pub queues: Vec<String>,
    /// The programs that it has. Of too many the first are told.
    pub tools: Vec<String>,
    /// The agentic units that it has, besides its tools.
    pub units: Vec<Unit>,
    /// Its labels.
    pub tags: BTreeMap<String, String>,
    /// Executes plans.
    pub executor: Arc<dyn Executor>,
    /// How long it finishes what it has when the server tells it to leave.
    pub drain_deadline: Duration,
    pub(super) pace: Pace,
}

impl Options {
    /// A worker of the usual kind, which proves nothing and has no tools.
    pub fn new(address: Address, worker_id: WorkerId, executor: Arc<dyn Executor>) -> Self {
        Self {
            address,
            key: None,
            worker_id,
            version: env!("CARGO_PKG_VERSION").into(),
            slots: slots_default(),
            queues: Vec::new(),
            tools: Vec::new(),
            units: Vec::new(),
            tags: BTreeMap::new(),
            executor,
            drain_deadline: DRAIN_DEADLINE,
            pace: Pace::default(),
        }
    }

    fn registration(&self) -> Registration {
        Registration {
            worker_id: self.worker_id.clone(),
            version: self.version.clone(),
            tools: self.tools.clone(),
            units: self.units.clone(),
            tags: self.tags.clone(),
            slots: self.slots.max(1),
        }
    }

    fn surroundings(&self, main: Line, side: Line) -> Arc<Surroundings> {
        Arc::new(Surroundings {
            worker_id: self.worker_id.clone(),
            executor: Arc::clone(&self.executor),
            main,
            side,
            pace: self.pace.clone(),
            tally: Tally::new(std::env::temp_dir()),
            leave: CancellationToken::new(),
        })
    }

    fn greeting(&self, registers: bool) -> Greeting {
        Greeting {
            address: self.address.clone(),
            key: self.key.clone(),
            registration: self.registration(),
            registers,
        }
    }
}

/// Why a worker ended without being asked to. The texts are the server's own.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The key is not the right one.
    #[error("{address} does not accept the key: {text}")]
    WrongKey {
        /// Who said so.
        address: Address,
        /// What it said.
        text: String,
    },
    /// The server wants a key, and there is none.
    #[error("{address} wants a key: {text}")]
    NoKey {
        /// Who said so.
        address: Address,
        /// What it said.
        text: String,
    },
    /// The server does not want this worker.
    #[error("{address} refuses this worker: {text}")]
    Refused {
        /// Who said so.
        address: Address,
        /// What it said.
        text: String,
    },
    /// The key is right, and does not allow this.
    #[error("the key does not allow this worker at {address}: {text}")]
    NotAllowed {
        /// Who said so.
        address: Address,
        /// What it said.
        text: String,
    },
    /// The worker itself broke.
    #[error("the worker ended in a panic; its log has it")]
    Panicked,
}

/// What a worker can be told.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    /// Finish within this time, then leave.
    Drain(Duration),
    /// Leave at once.
    Stop,
}

/// A worker that runs. Dropping it makes it leave at once.
#[derive(Debug)]
pub struct RunningWorker {
    orders: mpsc::Sender<Order>,
    running: JoinHandle<Result<Summary, WorkerError>>,
}

impl RunningWorker {
    /// Starts a worker. It connects by itself, again and again if need be.
    pub fn start(options: Options) -> Self {
        let (orders, waiting) = mpsc::channel(ORDERS_MAX);
        let running = tokio::spawn(Floor::new(options, waiting).run());
        Self { orders, running }
    }

    /// Tells it to finish what it has and leave; what is not finished by then is given back.
    pub async fn drain(&self, deadline: Duration) {
        // One that has ended needs no order.
        let _ = self.orders.send(Order::Drain(deadline)).await;
    }

    /// Tells it to leave at once.
    pub async fn stop(&self) {
        let _ = self.orders.send(Order::Stop).await;
    }

    /// Waits until it has left, and tells how it went. May be dropped and called again.
    pub async fn ended(&mut self) -> Result<Summary, WorkerError> {
        (&mut self.running).await.unwrap_or(Err(WorkerError::Panicked))
    }
}

/// Where everything comes together: jobs come in, ends go out, orders are obeyed.
pub(super) struct Floor {
    pub(super) around: Arc<Surroundings>,
    pub(super) orders: mpsc::Receiver<Order>,
    pub(super) refusals: mpsc::Receiver<WorkerError>,
    pub(super) wishes: watch::Receiver<Wish>,
    pub(super) drain_deadline: Duration,
    /// `None` when nothing new is popped any more.
    pub(super) fetched: Option<mpsc::Receiver<Fetched>>,
    pub(super) stop_fetching: CancellationToken,
    pub(super) jobs: JoinSet<Ended>,
    pub(super) summary: Summary,
    pub(super) leaving: Option<Leaving>,
    pub(super) main_keeper: AbortOnDropHandle<()>,
    /// Tasks that live as long as the worker.
    _company: [AbortOnDropHandle<()>; 3],
}

impl Floor {
    fn new(options: Options, orders: mpsc::Receiver<Order>) -> Self {
        let registration = options.registration();
        let (main, main_keeper) = Line::new(options.greeting(true), &options.pace);
        let (side, side_keeper) = Line::new(options.greeting(false), &options.pace);
        let around = options.surroundings(main, side);
        let (refused, refusals) = mpsc::channel(REFUSALS_MAX);
        let (wish, wishes) = watch::channel(Wish::Work);
        let (jobs, fetched) = mpsc::channel(FETCHED_MAX);
        let stop_fetching = CancellationToken::new();
        let popping = Fetcher {
            around: Arc::clone(&around),
            queues: options.queues,
            slots: Arc::new(Semaphore::new(registration.slots)),
            wishes: wishes.clone(),
            stop: stop_fetching.clone(),
            jobs,
            n_slots: registration.slots,
            turn: 0,
            n_missed: 0,
        };
        let heart = Heart { around: Arc::clone(&around), registration, wishes: wish };
        Self {
            around,
            orders,
            refusals,
            wishes,
            drain_deadline: options.drain_deadline,
            fetched: Some(fetched),
            stop_fetching,
            jobs: JoinSet::new(),
            summary: Summary::default(),
            leaving: None,
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
                () = Leaving::deadline(self.leaving) => self.on_deadline(),
                Ok(()) = self.wishes.changed() => self.on_wish(),
                fetched = next(&mut self.fetched) => self.on_fetched(fetched),
                Some(ended) = self.jobs.join_next() => self.on_ended(ended.unwrap_or(Ended::Unheard)),
            }
        }
        Ok(self.part().await)
    }

    fn on_wish(&mut self) {
        if *self.wishes.borrow_and_update() == Wish::Terminate {
            self.on_order(Some(Order::Drain(self.drain_deadline)));
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
