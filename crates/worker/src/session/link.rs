//! The one task that owns a worker's session: the socket, the machine, and what is under way.
//!
//! It wakes for whatever comes first, takes everything else that is ready too, acts, and flushes
//! once. `arrivals` is what comes in, `speech` what goes out, `chain` what middlewares call
//! for, `reading` what the server reads of resources, `leaving` how it ends.

mod arrivals;
mod chain;
mod leaving;
mod reading;
mod speech;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use protocol::session::frame::BusinessFrame;
use protocol::session::payload::resource_read::Chunk;
use protocol::session::state::State as Stage;
use protocol::session::worker_machine::WorkerMachine;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use self::leaving::Leaving;
use super::attempt::{Note, Number};
use super::calls::Calls;
use super::clock::Clock;
use super::desk::Desk;
use super::frames::Namer;
use super::identity::Identity;
use super::load::Load;
use super::metrics::Metrics;
use super::socket::{self, Arrival, ConnectError, Socket, Stream};
use super::worker::{Order, State, WorkerError};
use super::{address::Address, log};
use crate::attempt::Listener;
use crate::executor::Executor;
use crate::resources::Registry;
use crate::worker::Summary;

/// Frames that are taken in one turn, so that what they cause is flushed now and then.
const FRAMES_PER_TURN_MAX: usize = 256;
/// A connection is dropped that is silent for so many heartbeats although it was asked for a sign.
const SILENT_HEARTBEATS_MAX: u32 = 3;

type Connecting = Pin<Box<dyn Future<Output = Result<Stream, ConnectError>> + Send>>;

/// What a session is made of.
pub(crate) struct Parts {
    pub(crate) address: Address,
    pub(crate) machine: WorkerMachine,
    pub(crate) desk: Desk,
    pub(crate) resources: Arc<Registry>,
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) heartbeat_every: Duration,
    pub(crate) accept_timeout: Option<Duration>,
    pub(crate) load: Load,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) listener: Listener,
    pub(crate) orders: mpsc::Receiver<Order>,
    pub(crate) state: watch::Sender<State>,
    /// Kept, for with it goes the lock of the data folder.
    pub(crate) _identity: Identity,
}

/// A worker's session, over any number of connections.
pub(crate) struct Link {
    parts: Parts,
    clock: Clock,
    socket: Option<Socket>,
    connecting: Option<Connecting>,
    notes: mpsc::UnboundedReceiver<Note>,
    notes_sender: mpsc::UnboundedSender<Note>,
    tasks: JoinSet<()>,
    /// The types that are offered; the executor is asked once.
    types: Vec<String>,
    /// Frames that the machine has no room for yet, or that an earlier session did not confirm.
    backlog: VecDeque<BusinessFrame>,
    /// Attempts that have something to say, and when it leaves.
    speaking: BTreeMap<Number, Instant>,
    /// Reports that the server has not confirmed: the frame's name and the lease.
    unconfirmed: HashMap<String, String>,
    /// Reports that the server has confirmed, and whose verdict is still to come.
    unjudged: HashMap<String, String>,
    /// Refusals that the server has not confirmed.
    unconfirmed_refusals: HashSet<String>,
    /// What middlewares wait for.
    calls: Calls,
    /// Parts of resources that were read for the server; everything else goes first.
    chunks: VecDeque<Chunk>,
    /// Parts that were sent and are not confirmed: their frames' names.
    chunks_out: HashSet<String>,
    /// Reads that are under way.
    n_reads: usize,
    namer: Namer,
    leaving: Option<Leaving>,
    /// Until when the server wants nothing new to be taken.
    drained_until: Option<Instant>,
    has_been_ready: bool,
    refused: Option<WorkerError>,
    summary: Summary,
}

/// What woke the link.
enum Wake {
    Arrival(Arrival),
    Connected(Result<Stream, ConnectError>),
    Note(Option<Note>),
    Order(Option<Order>),
    Time,
}

impl Link {
    pub(crate) fn new(parts: Parts) -> Self {
        let (notes_sender, notes) = mpsc::unbounded_channel();
        let types = parts.executor.types();
        Self {
            parts,
            clock: Clock::start(),
            socket: None,
            connecting: None,
            notes,
            notes_sender,
            tasks: JoinSet::new(),
            types,
            backlog: VecDeque::new(),
            speaking: BTreeMap::new(),
            unconfirmed: HashMap::new(),
            unjudged: HashMap::new(),
            unconfirmed_refusals: HashSet::new(),
            calls: Calls::default(),
            chunks: VecDeque::new(),
            chunks_out: HashSet::new(),
            n_reads: 0,
            namer: Namer::default(),
            leaving: None,
            drained_until: None,
            has_been_ready: false,
            refused: None,
            summary: Summary::default(),
        }
    }

    /// Works until it is told to leave, or refused for good.
    pub(crate) async fn run(mut self) -> Result<Summary, WorkerError> {
        self.tasks.spawn(tidy(Arc::clone(&self.parts.resources)));
        self.connect();
        loop {
            let wake = self.wake().await;
            self.on_wake(wake);
            self.take_what_is_ready();
            self.act();
            self.write().await;
            if self.is_over() {
                return self.leave().await;
            }
        }
    }

    async fn wake(&mut self) -> Wake {
        let deadline = self.next_deadline();
        let Self { parts, socket, connecting, notes, .. } = self;
        tokio::select! {
            arrival = read(socket) => Wake::Arrival(arrival),
            connected = finish(connecting) => Wake::Connected(connected),
            note = notes.recv() => Wake::Note(note),
            order = parts.orders.recv() => Wake::Order(order),
            () = sleep_until(deadline) => Wake::Time,
        }
    }

    fn next_deadline(&self) -> Instant {
        let machine = self.parts.machine.next_deadline().map(|due| self.clock.instant(due));
        let socket = self.socket.as_ref().map(Socket::ping_at);
        let speech = if self.parts.machine.is_full() { None } else { self.next_speech() };
        let drain = self.leaving.as_ref().map(Leaving::next_deadline);
        let accept = self.accept_by();
        let deadlines = [machine, socket, accept, speech, drain, self.drained_until];
        let far_away = Instant::now() + Duration::from_hours(1);
        deadlines.into_iter().flatten().min().unwrap_or(far_away)
    }

    fn accept_by(&self) -> Option<Instant> {
        let opened = self.socket.as_ref()?.opened_at();
        self.parts.accept_timeout.filter(|_| !self.is_ready()).map(|limit| opened + limit)
    }

    fn on_wake(&mut self, wake: Wake) {
        match wake {
            Wake::Arrival(arrival) => self.on_arrival(arrival),
            Wake::Connected(connected) => self.on_connected(connected),
            Wake::Note(Some(note)) => self.on_note(note),
            Wake::Order(order) => self.on_order(order),
            // The link itself holds a sender of notes, so they do not end.
            Wake::Note(None) | Wake::Time => {}
        }
    }

    fn take_what_is_ready(&mut self) {
        for _ in 0..FRAMES_PER_TURN_MAX {
            let Some(arrival) = self.socket.as_mut().and_then(Socket::read_ready) else { break };
            self.on_arrival(arrival);
        }
        while let Ok(note) = self.notes.try_recv() {
            self.on_note(note);
        }
        while self.tasks.try_join_next().is_some() {}
    }

    /// Lets the machine act on the time, and acts on what it says.
    fn act(&mut self) {
        self.parts.machine.tick(self.clock.now());
        self.watch_silence();
        self.on_events();
        self.admit();
        self.speak();
        // What was said may have made the machine speak.
        self.on_events();
        // Last, for what has just ended may have been all that was waited for.
        self.watch_drain();
        let n_running = i64::try_from(self.parts.desk.n_running()).unwrap_or(i64::MAX);
        self.parts.metrics.inflight_tasks.set(n_running);
    }

    async fn write(&mut self) {
        let Some(socket) = &mut self.socket else { return };
        match socket.write(&mut self.parts.machine).await {
            Ok(n_frames) => {
                self.parts.metrics.frames_out.inc_by(n_frames);
            }
            Err(reason) => self.lose_socket(&reason),
        }
    }

    fn connect(&mut self) {
        self.say_state();
        self.connecting = Some(Box::pin(socket::connect(self.parts.address.clone())));
    }

    fn on_connected(&mut self, connected: Result<Stream, ConnectError>) {
        self.connecting = None;
        match connected {
            Ok(stream) => {
                let connection = self.parts.machine.connected(self.clock.now());
                let every = self.parts.heartbeat_every;
                self.socket = Some(Socket::new(stream, connection, every));
            }
            Err(error) => {
                tracing::warn!(%error, "no connection; trying again");
                self.parts.machine.connect_failed(self.clock.now());
            }
        }
    }

    fn on_arrival(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Frame(frame) => {
                let Some(socket) = &self.socket else { return };
                log::frame("in", &frame);
                self.parts.metrics.frames_in.inc();
                let connection = socket.connection();
                self.parts.machine.receive(self.clock.now(), connection, *frame);
            }
            Arrival::Noise(why) => tracing::warn!(why, "something came that is no frame"),
            Arrival::Gone(reason) => self.lose_socket(&reason),
            Arrival::Sign | Arrival::Written => {}
        }
    }

    fn lose_socket(&mut self, reason: &str) {
        if let Some(socket) = self.socket.take() {
            tracing::warn!(reason, "the connection is gone");
            self.unjudged.clear();
            self.parts.machine.disconnected(self.clock.now(), socket.connection());
            self.say_state();
        }
    }

    /// Drops a connection that is open and dead, which no error ever tells of.
    fn watch_silence(&mut self) {
        let every = self.parts.heartbeat_every;
        let is_ready = self.is_ready();
        let Some(socket) = &mut self.socket else { return };
        let is_late = |limit: Duration| !is_ready && socket.opened_at().elapsed() >= limit;
        if socket.last_heard().elapsed() >= every * SILENT_HEARTBEATS_MAX {
            self.lose_socket("the server is silent");
        } else if self.parts.accept_timeout.is_some_and(is_late) {
            self.lose_socket("the server does not open a session");
        } else if socket.ping_at() <= Instant::now() {
            socket.ping(every);
        }
    }

    fn is_ready(&self) -> bool {
        let is_open = matches!(self.parts.machine.state(), Stage::Ready | Stage::Draining);
        is_open && self.socket.is_some()
    }

    fn say_state(&self) {
        let state = match (self.is_draining(), self.is_ready()) {
            (true, _) => State::Draining,
            (false, true) => State::Ready,
            (false, false) => State::Connecting,
        };
        self.parts.state.send_if_modified(|old| std::mem::replace(old, state) != state);
    }
}

/// Throws away what nobody needs, as long as the worker runs.
async fn tidy(resources: Arc<Registry>) {
    loop {
        tokio::time::sleep(resources.gc_every()).await;
        let resources = Arc::clone(&resources);
        // It waits for the disk.
        let _ = tokio::task::spawn_blocking(move || resources.gc()).await;
    }
}

async fn read(socket: &mut Option<Socket>) -> Arrival {
    match socket {
        Some(socket) => socket.read().await,
        None => pending().await,
    }
}

async fn finish(connecting: &mut Option<Connecting>) -> Result<Stream, ConnectError> {
    match connecting {
        Some(connecting) => connecting.await,
        None => pending().await,
    }
}
