//! The loop of one socket.
//!
//! Everything that has arrived is acted on before anything leaves, and everything that is ready
//! leaves with one flush. What a frame asks of the coordinator goes out in one command for all
//! frames of a turn; its answers come back as [`Done`].

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use coordinator::{Answer, Command, DrainCause, HeartbeatVerdict, Judgement, NextEnd};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use model::{LeaseId, Report, Timestamp};
use protocol::session::control::ResetCode;
use protocol::session::envelope::{Envelope, Reader, SenderRole};
use protocol::session::event::{CommitToken, ServerEvent};
use protocol::session::kind::Kind;
use protocol::session::payload::control::Drain;
use protocol::session::server_machine::{ServerMachine, ServerOptions};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::desk::{BEAT_EVERY, Desk};
use super::gate::{self, Applicant, OPENING_WITHIN, Opened, REFUSAL_DELAY, Refusal};
use super::log;
use super::next::Response;
use super::wire::{Gone, Received, Wire};
use crate::app::App;
use crate::handle::{AskError, CoordinatorHandle};
use crate::sessions::{Call, Carried, Notice};

mod business;
mod chain;
mod ending;
mod reading;
mod telling;
mod work;

use self::reading::Reads;

/// The name in `sender.id` of everything that this server says.
const SENDER_ID: &str = "scheduler-control";
/// A peer that is silent for so many beats is taken for gone.
const SILENT_BEATS_MAX: u32 = 3;
/// Frames that cannot be read, and sessions that cannot be opened, on one connection.
pub(crate) const NONSENSE_MAX: u32 = 8;
/// How long a session that changes hands waits for what its frames have begun.
const SETTLE_WITHIN: Duration = Duration::from_secs(1);
/// The pause before something is asked again that the coordinator could not answer.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Something that was waited for has come.
pub(super) enum Done {
    /// A session may begin or go on.
    Opened(Result<Box<Opened>, Refusal>),
    /// It is time to say no.
    Refused(Refusal),
    /// A request for leases came to its end.
    Leases { request: Asked, answer: Result<Answer, AskError> },
    /// The next in line behind a middleware came to its end.
    Next { call: Arc<Call>, end: Box<NextEnd> },
    /// Reports are judged, and durable.
    Judged { reports: Vec<Reported>, judgements: Vec<Judgement> },
    /// Leases live on, or do not.
    Beaten { leases: Vec<LeaseId>, verdicts: Vec<HeartbeatVerdict> },
    /// A frame has done all that it does.
    Taken { token: CommitToken },
    /// Nothing that anyone waits for.
    Nothing,
}

/// A request for leases that is out.
pub(super) struct Asked {
    /// For whom: a connection may carry several sessions, one after the other.
    claim: u64,
    handle: CoordinatorHandle,
    /// Which of the desk's requests.
    id: u64,
}

/// A frame whose report is being judged.
pub(super) struct Reported {
    pub(super) token: Option<CommitToken>,
    pub(super) lease: LeaseId,
}

type Pending = Pin<Box<dyn Future<Output = Done> + Send>>;

/// What ended a wait.
enum Woke {
    Received,
    Done(Done),
    Notice(Notice),
    Due,
    Stopping,
    Gone(Gone),
}

/// How a connection ends.
enum Leaving {
    /// The socket is of no more use.
    Gone(Gone),
    /// The server stops.
    Stopping,
    /// Another connection of the same worker takes over.
    HandedOver(oneshot::Sender<Carried>),
    /// The peer did not prove who it is, or was silent for too long.
    Overdue(&'static str),
}

/// One socket, from its beginning to its end.
pub(super) struct Connection {
    app: Arc<App>,
    wire: Wire,
    machine: ServerMachine,
    reader: Reader,
    received: Vec<Received>,
    pending: FuturesUnordered<Pending>,
    /// What delivered frames have begun; they are confirmed when it is done.
    begun: FuturesUnordered<Pending>,
    mailbox: Option<mpsc::Receiver<Notice>>,
    applicant: Option<Applicant>,
    /// Who speaks on this connection, by the frame that began its session.
    sender_id: Option<String>,
    nonsense: u32,
    desk: Option<Desk>,
    reports: (Vec<Reported>, Vec<Report>),
    confirmed: Vec<LeaseId>,
    /// Answers to calls of `next` that the session had no room for yet.
    answers: VecDeque<(Arc<Call>, Response)>,
    /// Parts of resources that the worker was asked for.
    reads: Reads,
    /// When a peer without a session is closed.
    open_by: Instant,
    heard_at: Instant,
    ping_at: Instant,
    /// When the ping left that was not answered yet.
    pinged_at: Option<Instant>,
    leaving: Option<Leaving>,
}

impl Connection {
    pub(super) fn new(app: Arc<App>, wire: Wire) -> Self {
        let now = Instant::now();
        let machine = ServerMachine::new(ServerOptions {
            sender_id: SENDER_ID.to_owned(),
            window: app.session_window,
            seed: crate::dice::Dice::seeded().roll(),
        });
        Self {
            app,
            wire,
            machine,
            reader: Reader::default(),
            received: Vec::new(),
            pending: FuturesUnordered::new(),
            begun: FuturesUnordered::new(),
            mailbox: None,
            applicant: None,
            sender_id: None,
            nonsense: 0,
            desk: None,
            reports: Default::default(),
            confirmed: Vec::new(),
            answers: VecDeque::new(),
            reads: Reads::default(),
            open_by: now + OPENING_WITHIN,
            heard_at: now,
            ping_at: now + BEAT_EVERY,
            pinged_at: None,
            leaving: None,
        }
    }

    /// Serves the socket until it ends.
    pub(super) async fn run(mut self) {
        let leaving = loop {
            match self.wait().await {
                Woke::Received => self.take_frames(),
                Woke::Done(done) => self.take_done(done),
                Woke::Notice(notice) => self.take_notice(notice),
                Woke::Due => self.tick(),
                Woke::Stopping => break Leaving::Stopping,
                Woke::Gone(gone) => break Leaving::Gone(gone),
            }
            self.act();
            if let Err(gone) = self.send().await {
                break Leaving::Gone(gone);
            }
            if let Some(leaving) = self.leaving.take() {
                break leaving;
            }
        };
        self.leave(leaving).await;
    }

    fn now(&self) -> Timestamp {
        self.app.clock.now()
    }

    async fn wait(&mut self) -> Woke {
        let due = self.next_due();
        let Self { app, wire, received, pending, begun, mailbox, .. } = self;
        let notice = async {
            match mailbox {
                Some(mailbox) => mailbox.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = app.shutdown.cancelled() => Woke::Stopping,
            Some(notice) = notice => Woke::Notice(notice),
            Some(done) = begun.next(), if !begun.is_empty() => Woke::Done(done),
            Some(done) = pending.next(), if !pending.is_empty() => Woke::Done(done),
            came = poll_fn(|context| wire.poll_receive(context, received)) => match came {
                Ok(()) => Woke::Received,
                Err(gone) => Woke::Gone(gone),
            },
            () = tokio::time::sleep_until(due) => Woke::Due,
        }
    }

    fn next_due(&self) -> Instant {
        let machine = self.machine.next_deadline().map(|at| self.app.clock.instant_of(at));
        let opening = self.desk.is_none().then_some(self.open_by);
        let deadlines = [machine, opening, self.wire.stall_deadline(), Some(self.ping_at)];
        deadlines.into_iter().flatten().min().expect("the next ping is always due")
    }

    fn take_frames(&mut self) {
        self.heard_at = Instant::now();
        if let Some(desk) = &mut self.desk {
            desk.is_doubted = false;
        }
        let now = self.now();
        let mut received = std::mem::take(&mut self.received);
        for one in received.drain(..) {
            match one {
                Received::Frame(text) => match self.reader.read_bytes(&text) {
                    Ok(frame) => {
                        log::frame("in", &frame);
                        match self.misfit(&frame) {
                            Some(why) => self.reset_for(why),
                            None => self.machine.receive(now, frame),
                        }
                    }
                    Err(error) => self.reset_for(&error.to_string()),
                },
                Received::Pong => {
                    self.note_answer();
                    self.on_sign_of_life();
                }
                Received::Ping => self.on_sign_of_life(),
            }
            self.take_events();
        }
        self.received = received;
    }

    /// Why a frame cannot be its worker's, if so.
    fn misfit(&self, frame: &Envelope) -> Option<&'static str> {
        if frame.sender.role != SenderRole::Worker {
            return Some("frame.sender.role must be worker");
        }
        if self.sender_id.as_deref().is_none_or(|own| *own == *frame.sender.id) {
            return None;
        }
        let begins = matches!(Kind::from_name(&frame.kind), Some(Kind::Handshake | Kind::Resume));
        (!begins).then_some("frame.sender.id must be the one that began the session")
    }

    /// A frame that cannot be read ends the session openly: nobody knows what it said.
    fn reset_for(&mut self, why: &str) {
        tracing::debug!(worker = self.worker_name(), why, "a frame cannot be read");
        self.nonsense += 1;
        if self.nonsense > NONSENSE_MAX {
            self.leaving = Some(Leaving::Overdue("too many frames that cannot be read"));
            return;
        }
        self.machine.tick(self.now());
        self.machine.reset(ResetCode::Malformed, why, None);
    }

    fn worker_name(&self) -> &str {
        self.desk.as_ref().map_or("?", |desk| desk.worker.as_str())
    }

    fn take_events(&mut self) {
        while let Some(event) = self.machine.poll_event() {
            self.take_event(event);
        }
    }

    fn take_event(&mut self, event: ServerEvent) {
        match event {
            ServerEvent::Handshake { tenant, sender_id, boot_id, payload } => {
                match gate::admit(&self.app, &tenant, &sender_id, boot_id, &payload) {
                    Ok(applicant) => {
                        self.sender_id = Some(sender_id);
                        self.wire.trust();
                        self.applicant = Some(applicant);
                        self.machine.accept_handshake(self.now());
                    }
                    Err(refusal) => self.refuse_later(refusal),
                }
            }
            ServerEvent::Register { is_first: true, payload } => {
                let Some(applicant) = self.applicant.clone() else { return };
                let opening = gate::open(Arc::clone(&self.app), applicant, payload, self.former());
                self.later(async { Done::Opened(opening.await.map(Box::new)) });
            }
            ServerEvent::Register { is_first: false, payload } => self.on_refresh(&payload),
            ServerEvent::Resume { tenant, sender_id, payload, .. } => {
                self.sender_id = Some(sender_id.clone());
                let (app, former) = (Arc::clone(&self.app), self.former());
                let opening = gate::resume(app, tenant, sender_id, payload, former);
                self.later(async { Done::Opened(opening.await.map(Box::new)) });
            }
            ServerEvent::Heartbeat { payload } => self.on_heartbeat(&payload),
            ServerEvent::Delivered { token, frame } => self.on_business(token, &frame),
            ServerEvent::Acked { id } => {
                if let Ok(lease) = id.parse() {
                    self.confirmed.push(lease);
                }
            }
            // Its lease ends unconfirmed, by its own deadline.
            ServerEvent::GaveUp { id } => tracing::warn!(id, "a frame was never confirmed"),
            ServerEvent::SessionEnded { session_id, code, .. } => {
                tracing::info!(session_id, code = code.name(), "session ended");
                self.end_session(&session_id);
                self.open_by = Instant::now() + OPENING_WITHIN;
            }
        }
    }

    fn later(&self, work: impl Future<Output = Done> + Send + 'static) {
        self.pending.push(Box::pin(work));
    }

    /// Refusals are slow, so that guessing is.
    fn refuse_later(&mut self, refusal: Refusal) {
        self.nonsense += 1;
        if self.nonsense > NONSENSE_MAX {
            self.leaving = Some(Leaving::Overdue("too many attempts to open a session"));
            return;
        }
        self.open_by = Instant::now() + OPENING_WITHIN;
        self.later(async {
            tokio::time::sleep(REFUSAL_DELAY).await;
            Done::Refused(refusal)
        });
    }

    fn take_done(&mut self, done: Done) {
        match done {
            Done::Opened(Ok(opened)) => self.begin(*opened),
            Done::Opened(Err(refusal)) => self.refuse_later(refusal),
            Done::Refused(refusal) => {
                let retry_after_ms = refusal.retry_after.map(|pause| pause.as_millis());
                let retry_after_ms = retry_after_ms.and_then(|ms| u64::try_from(ms).ok());
                tracing::info!(code = refusal.code.name(), refusal.reason, "worker refused");
                let now = self.now();
                self.machine.refuse(now, refusal.code, &refusal.reason, retry_after_ms);
            }
            Done::Leases { request, answer } => self.take_leases(request, answer),
            Done::Next { call, end } => self.take_next(&call, &end),
            Done::Judged { reports, judgements } => self.take_judgements(reports, &judgements),
            Done::Beaten { leases, verdicts } => self.take_verdicts(&leases, &verdicts),
            Done::Taken { token } => self.machine.commit(self.now(), token, None),
            Done::Nothing => {}
        }
        self.take_events();
    }

    fn begin(&mut self, opened: Opened) {
        let Opened { grant, desk, mailbox, session, calls } = opened;
        let now = self.now();
        tracing::info!(
            tenant = %desk.tenant, worker = %desk.worker, sender.id = desk.instance_id,
            session_id = grant.session_id, resumed = session.is_some(), "session opened"
        );
        self.wire.trust();
        self.mailbox = Some(mailbox);
        desk.metrics.connected();
        if let Some(former) = self.desk.replace(desk) {
            former.metrics.disconnected();
        }
        match session {
            Some(session) => self.machine.resume(now, session, grant),
            None => self.machine.accept(now, grant),
        }
        self.answers.clear();
        self.reads = Reads::default();
        for call in &calls {
            self.open_call(call);
        }
        self.ping_at = Instant::now();
    }

    fn take_notice(&mut self, notice: Notice) {
        let now = self.now();
        match notice {
            Notice::HandOver(reply) => self.leaving = Some(Leaving::HandedOver(reply)),
            Notice::Revoked(revoked) => {
                for one in revoked {
                    self.cancel(one.lease, one.why);
                }
            }
            Notice::Drain { reason, deadline_ms } => {
                self.machine.drain(now, &Drain { reason, deadline_ms });
            }
            Notice::Undrain => self.machine.undrain(),
            Notice::Read(wanted) => self.read(*wanted),
            Notice::RunEnded(run) => self.release(run),
            Notice::Rebound(rebind) => self.rebind(*rebind),
            Notice::CredentialGone => {
                self.machine.reset(ResetCode::InvalidToken, "the worker's token was revoked", None);
            }
        }
        self.take_events();
    }

    fn tick(&mut self) {
        let now = Instant::now();
        self.machine.tick(self.now());
        self.take_events();
        if self.desk.is_none() && self.open_by <= now {
            self.leaving = Some(Leaving::Overdue("no session was opened in time"));
        }
        if self.ping_at <= now {
            let every = self.desk.as_ref().map_or(BEAT_EVERY, |desk| desk.beat_every);
            if now.duration_since(self.heard_at) >= every.max(BEAT_EVERY) * SILENT_BEATS_MAX {
                self.leaving = Some(Leaving::Overdue("the worker is silent"));
            }
            if let Some(desk) = &self.desk
                && now.duration_since(self.heard_at) >= every + every / 2
            {
                desk.metrics.missed_heartbeat(desk.worker.as_str());
            }
            self.ping_at = now + every;
            self.pinged_at.get_or_insert(now);
            if let Err(gone) = self.wire.ping() {
                self.leaving = Some(Leaving::Gone(gone));
            }
        }
    }

    async fn send(&mut self) -> Result<(), Gone> {
        let Self { wire, machine, .. } = self;
        let sent = poll_fn(|context| {
            let next = || {
                let frame = machine.poll_frame()?;
                log::frame("out", &frame);
                frame.to_text().ok()
            };
            Poll::Ready(wire.poll_send(context, next))
        });
        sent.await?;
        if let Some(desk) = &self.desk {
            desk.metrics.count_bytes(&mut self.wire.bytes_in, &mut self.wire.bytes_out);
        }
        Ok(())
    }

    fn set_drain(&self, cause: DrainCause, on: bool) {
        let Some(desk) = &self.desk else { return };
        let (handle, worker) = (desk.handle.clone(), desk.worker.clone());
        self.later(async move {
            let command = |ticket| Command::SetDrain { ticket, worker, cause, on };
            // Lost in an overload, it is said again with the next change.
            let _ = handle.ask(command).await;
            Done::Nothing
        });
    }
}
