//! The one task that owns a worker's session: the socket, the machine, and what is under way.
//!
//! It wakes for whatever comes first, takes everything else that is ready too, acts, and flushes
//! once.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use protocol::session::frame::BusinessFrame;
use protocol::session::payload::resource::ResourceChunk;
use protocol::session::state::State as Stage;
use protocol::session::worker_machine::{WorkerMachine, WorkerOptions};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::chain::Calls;
use super::frames::Namer;
use super::metrics::Metrics;
use super::socket::{self, Arrival, ConnectError, Socket, Stream};
use super::worker::{Options, State};
use crate::core::capabilities::Offer;
use crate::core::clock::Clock;
use crate::core::drain::{Drain, Order, STOP_LIMIT};
use crate::core::handle::WorkerError;
use crate::core::in_flight::{AttemptEvent, DRAINING, InFlight, Limits, Number};
use crate::core::load::Load;
use crate::core::verdict::Summary;
use crate::resources::Registry;

/// Frames that are taken in one turn, so that what they cause is flushed now and then.
const FRAMES_PER_TURN_MAX: usize = 256;
/// A connection is dropped that is silent for so many heartbeats although it was asked for a sign.
const SILENT_HEARTBEATS_MAX: u32 = 3;

type Connecting = Pin<Box<dyn Future<Output = Result<Stream, ConnectError>> + Send>>;

/// A worker's session, over any number of connections.
pub(crate) struct Link {
    /// Its identity among them: with it goes the lock of the data folder.
    pub(super) options: Options,
    pub(super) machine: WorkerMachine,
    pub(super) in_flight: InFlight,
    pub(super) resources: Arc<Registry>,
    pub(super) load: Load,
    pub(super) metrics: Arc<Metrics>,
    pub(super) orders: mpsc::Receiver<Order>,
    pub(super) state: watch::Sender<State>,
    pub(super) clock: Clock,
    pub(super) socket: Option<Socket>,
    pub(super) connecting: Option<Connecting>,
    pub(super) notes: mpsc::UnboundedReceiver<AttemptEvent>,
    pub(super) events_sender: mpsc::UnboundedSender<AttemptEvent>,
    pub(super) tasks: JoinSet<()>,
    /// The types that are offered; the executor is asked once.
    pub(super) types: Vec<String>,
    /// Frames that the machine has no room for yet, or that an earlier session did not confirm.
    pub(super) backlog: VecDeque<BusinessFrame>,
    /// Attempts that have something to say, and when it leaves.
    pub(super) speaking: BTreeMap<Number, Instant>,
    /// Reports that the server has not confirmed: the frame's name and the lease.
    pub(super) unconfirmed: HashMap<String, String>,
    /// Reports that the server has confirmed, and whose verdict is still to come.
    pub(super) unjudged: HashMap<String, String>,
    /// Refusals that the server has not confirmed.
    pub(super) unconfirmed_refusals: HashSet<String>,
    /// What middlewares wait for.
    pub(super) calls: Calls,
    /// Parts of resources that were read for the server; everything else goes first.
    pub(super) chunks: VecDeque<ResourceChunk>,
    /// Parts that were sent and are not confirmed: their frames' names.
    pub(super) chunks_out: HashSet<String>,
    /// Reads that are under way.
    pub(super) n_reads: usize,
    pub(super) namer: Namer,
    pub(super) drain: Drain,
    /// Until when the server wants nothing new to be taken.
    pub(super) drained_until: Option<Instant>,
    pub(super) has_been_ready: bool,
    pub(super) refused: Option<WorkerError>,
    pub(super) summary: Summary,
}

/// What woke the link.
enum Wake {
    Arrival(Arrival),
    Connected(Result<Stream, ConnectError>),
    AttemptEvent(Option<AttemptEvent>),
    Order(Option<Order>),
    Time,
}

impl Link {
    pub(super) fn new(
        options: Options,
        resources: Arc<Registry>,
        metrics: Arc<Metrics>,
        (orders, state): (mpsc::Receiver<Order>, watch::Sender<State>),
    ) -> Self {
        let (events_sender, notes) = mpsc::unbounded_channel();
        let types = options.executor.types();
        let machine = WorkerMachine::new(WorkerOptions {
            tenant: options.tenant.clone(),
            instance_id: options.identity.instance_id().to_owned(),
            handshake: options.handshake(),
            register: options.offer.register(&types),
            window: options.window,
            heartbeat_every: options.heartbeat_every,
            boot_id: Some(options.identity.boot_id().to_owned()),
            seed: Uuid::new_v4().as_u64_pair().0,
        });
        let Offer { slots, per_type_limits, .. } = &options.offer;
        let limits = Limits { slots: (*slots).max(1), per_type: per_type_limits.clone() };
        Self {
            load: Load::new(options.identity.folder().to_owned()),
            options,
            machine,
            in_flight: InFlight::new(limits),
            resources,
            metrics,
            orders,
            state,
            clock: Clock::start(),
            socket: None,
            connecting: None,
            notes,
            events_sender,
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
            drain: Drain::Working,
            drained_until: None,
            has_been_ready: false,
            refused: None,
            summary: Summary::default(),
        }
    }

    /// Works until it is told to leave, or refused for good.
    pub(crate) async fn run(mut self) -> Result<Summary, WorkerError> {
        self.tasks.spawn(tidy(Arc::clone(&self.resources)));
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
        let Self { orders, socket, connecting, notes, .. } = self;
        tokio::select! {
            arrival = read(socket) => Wake::Arrival(arrival),
            connected = finish(connecting) => Wake::Connected(connected),
            note = notes.recv() => Wake::AttemptEvent(note),
            order = orders.recv() => Wake::Order(order),
            () = sleep_until(deadline) => Wake::Time,
        }
    }

    fn next_deadline(&self) -> Instant {
        let machine = self.machine.next_deadline().map(|due| self.clock.instant(due));
        let socket = self.socket.as_ref().map(Socket::ping_at);
        let speech = if self.machine.is_full() { None } else { self.next_speech() };
        let drain = self.drain.next_deadline();
        let accept = self.accept_by();
        let deadlines = [machine, socket, accept, speech, drain, self.drained_until];
        let far_away = Instant::now() + Duration::from_hours(1);
        deadlines.into_iter().flatten().min().unwrap_or(far_away)
    }

    fn accept_by(&self) -> Option<Instant> {
        let opened = self.socket.as_ref()?.opened_at();
        self.options.accept_timeout.filter(|_| !self.is_ready()).map(|limit| opened + limit)
    }

    fn on_wake(&mut self, wake: Wake) {
        match wake {
            Wake::Arrival(arrival) => self.on_arrival(arrival),
            Wake::Connected(connected) => self.on_connected(connected),
            Wake::AttemptEvent(Some(note)) => self.on_attempt_event(note),
            Wake::Order(order) => self.on_order(order),
            // The link itself holds a sender of notes, so they do not end.
            Wake::AttemptEvent(None) | Wake::Time => {}
        }
    }

    fn take_what_is_ready(&mut self) {
        for _ in 0..FRAMES_PER_TURN_MAX {
            let Some(arrival) = self.socket.as_mut().and_then(Socket::read_ready) else { break };
            self.on_arrival(arrival);
        }
        while let Ok(note) = self.notes.try_recv() {
            self.on_attempt_event(note);
        }
        while self.tasks.try_join_next().is_some() {}
    }

    /// Lets the machine act on the time, and acts on what it says.
    fn act(&mut self) {
        self.machine.tick(self.clock.now());
        self.watch_silence();
        self.on_events();
        self.admit();
        self.speak();
        // What was said may have made the machine speak.
        self.on_events();
        // Last, for what has just ended may have been all that was waited for.
        self.watch_drain();
        let n_running = i64::try_from(self.in_flight.n_running()).unwrap_or(i64::MAX);
        self.metrics.inflight_tasks.set(n_running);
    }

    async fn write(&mut self) {
        let Some(socket) = &mut self.socket else { return };
        match socket.write(&mut self.machine).await {
            Ok(n_frames) => {
                self.metrics.frames_out.inc_by(n_frames);
            }
            Err(reason) => self.lose_socket(&reason),
        }
    }

    pub(super) fn connect(&mut self) {
        self.say_state();
        self.connecting = Some(Box::pin(socket::connect(self.options.address.clone())));
    }

    fn on_connected(&mut self, connected: Result<Stream, ConnectError>) {
        self.connecting = None;
        match connected {
            Ok(stream) => {
                let connection = self.machine.connected(self.clock.now());
                let every = self.options.heartbeat_every;
                self.socket = Some(Socket::new(stream, connection, every));
            }
            Err(error) => {
                tracing::warn!(%error, "no connection; trying again");
                self.machine.connect_failed(self.clock.now());
            }
        }
    }

    fn on_arrival(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Frame(frame) => {
                let Some(socket) = &self.socket else { return };
                socket::log_frame("in", &frame);
                self.metrics.frames_in.inc();
                let connection = socket.connection();
                self.machine.receive(self.clock.now(), connection, *frame);
            }
            Arrival::Noise(why) => tracing::warn!(why, "message that is not a frame dropped"),
            Arrival::Gone(reason) => self.lose_socket(&reason),
            Arrival::Sign | Arrival::Written => {}
        }
    }

    pub(super) fn lose_socket(&mut self, reason: &str) {
        if let Some(socket) = self.socket.take() {
            tracing::warn!(reason, "the connection is gone");
            self.unjudged.clear();
            self.machine.disconnected(self.clock.now(), socket.connection());
            self.say_state();
        }
    }

    /// Drops a connection that is open and dead, which no error ever tells of.
    fn watch_silence(&mut self) {
        let every = self.options.heartbeat_every;
        let is_ready = self.is_ready();
        let Some(socket) = &mut self.socket else { return };
        let is_late = |limit: Duration| !is_ready && socket.opened_at().elapsed() >= limit;
        if socket.last_heard().elapsed() >= every * SILENT_HEARTBEATS_MAX {
            self.lose_socket("the server is silent");
        } else if self.options.accept_timeout.is_some_and(is_late) {
            self.lose_socket("the server does not open a session");
        } else if socket.ping_at() <= Instant::now() {
            socket.ping(every);
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        let is_open = matches!(self.machine.state(), Stage::Ready | Stage::Draining);
        is_open && self.socket.is_some()
    }

    pub(super) fn say_state(&self) {
        let state = match (self.is_draining(), self.is_ready()) {
            (true, _) => State::Draining,
            (false, true) => State::Ready,
            (false, false) => State::Connecting,
        };
        self.state.send_if_modified(|old| std::mem::replace(old, state) != state);
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

/// How long verdicts are waited for that follow their confirmed reports.
const VERDICT_PATIENCE: Duration = Duration::from_millis(300);
/// How long the last words may take after the work was stopped.
const LAST_WORDS: Duration = Duration::from_secs(1);

impl Link {
    pub(super) fn on_order(&mut self, order: Option<Order>) {
        if let Some(deadline) = self.drain.on_order(order) {
            tracing::info!(?deadline, n_running = self.in_flight.n_running(), "finishing");
            self.say_state();
            self.beat();
        }
    }

    /// The server wants this worker to finish. It sees to it itself that nothing new comes, and
    /// may think better of it; here only what runs beyond the deadline is given back.
    pub(super) fn on_drain(&mut self, reason: Option<&str>, deadline: Option<Duration>) {
        tracing::info!(reason, ?deadline, "the server asks to finish");
        self.drained_until = deadline.map(|deadline| Instant::now() + deadline);
    }

    pub(super) fn is_draining(&self) -> bool {
        !matches!(self.drain, Drain::Working)
    }

    /// Acts on deadlines that have passed.
    pub(super) fn watch_drain(&mut self) {
        let now = Instant::now();
        if self.drained_until.is_some_and(|until| until <= now) {
            self.give_back_all();
            self.drained_until = None;
        }
        let is_clear = self.in_flight.is_clear() && self.backlog.is_empty();
        let is_confirmed = self.is_confirmed();
        let patience = if is_confirmed { VERDICT_PATIENCE } else { LAST_WORDS };
        self.drain = match self.drain {
            Drain::Finishing { until } if is_clear && is_confirmed => {
                Drain::Parting { until: until.min(now + patience) }
            }
            Drain::Finishing { until } if until <= now => {
                tracing::warn!(n_running = self.in_flight.n_running(), "the time is up");
                self.give_back_all();
                Drain::Stopping { until: now + STOP_LIMIT }
            }
            Drain::Stopping { until } if is_clear || until <= now => {
                Drain::Parting { until: now + patience }
            }
            other => other,
        };
    }

    /// Stops what runs; what has not begun is given back on the spot.
    fn give_back_all(&mut self) {
        for leased in self.in_flight.give_back_all() {
            self.refuse(&leased, DRAINING, "this worker finishes and takes nothing new");
        }
    }

    fn is_confirmed(&self) -> bool {
        self.unconfirmed.is_empty() && self.unconfirmed_refusals.is_empty()
    }

    pub(super) fn is_over(&self) -> bool {
        let is_heard = self.is_confirmed() && self.in_flight.history.n_unjudged() == 0;
        match self.drain {
            Drain::AtOnce => true,
            Drain::Parting { until } => is_heard || until <= Instant::now(),
            Drain::Finishing { .. } | Drain::Stopping { .. } => false,
            Drain::Working => self.refused.is_some(),
        }
    }

    /// Ends what is left, says goodbye and tells how it went.
    pub(super) async fn leave(mut self) -> Result<Summary, WorkerError> {
        // Programs die with the tasks that watch them.
        self.tasks.shutdown().await;
        self.machine.close();
        if let Some(socket) = self.socket.take() {
            socket.close().await;
        }
        self.summary.unheard = u64::try_from(self.unconfirmed.len()).unwrap_or(u64::MAX);
        self.state.send_replace(State::Stopped);
        match self.refused {
            Some(error) => Err(error),
            None => Ok(self.summary),
        }
    }
}
