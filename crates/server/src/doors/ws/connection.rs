//! The loop of one socket.
//!
//! Everything that has arrived is acted on before anything leaves, and everything that is ready
//! leaves with one flush. What a frame asks of the coordinator goes out in one command for all
//! frames of a turn; its answers come back as [`Done`].

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use coordinator::{Answer, Command, DrainCause, HeartbeatVerdict, Judgement};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use model::{LeaseId, Report, Timestamp};
use protocol::session::control::ResetCode;
use protocol::session::envelope::{Envelope, Reader, SenderRole};
use protocol::session::event::{CommitToken, ServerEvent};
use protocol::session::kind::Kind;
use protocol::session::payload::control::Drain;
use protocol::session::server_machine::{ServerMachine, ServerOptions};
use protocol::session::window::WINDOW_FRAMES;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_websockets::CloseCode;

use super::answers;
use super::desk::{BEAT_EVERY, Desk};
use super::gate::{self, Applicant, Former, OPENING_WITHIN, Opened, REFUSAL_DELAY, Refusal};
use super::log;
use super::wire::{Gone, Received, Wire};
use crate::app::App;
use crate::handle::{AskError, CoordinatorHandle};
use crate::sessions::{Carried, Notice, Parting};

mod business;

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
    slots: u32,
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
    /// When a peer without a session is closed.
    open_by: Instant,
    heard_at: Instant,
    ping_at: Instant,
    leaving: Option<Leaving>,
}

impl Connection {
    pub(super) fn new(app: Arc<App>, wire: Wire) -> Self {
        let now = Instant::now();
        let machine = ServerMachine::new(ServerOptions {
            sender_id: SENDER_ID.to_owned(),
            window: WINDOW_FRAMES,
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
            open_by: now + OPENING_WITHIN,
            heard_at: now,
            ping_at: now + BEAT_EVERY,
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
                Received::Pong => self.on_pong(),
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

    /// What this connection carried so far.
    fn former(&self) -> Option<Former> {
        let desk = self.desk.as_ref()?;
        Some(Former {
            claim: desk.connection,
            held: desk.leases(),
            unconfirmed: desk.unconfirmed(),
        })
    }

    /// A session is over, but the connection stays: the worker may begin anew on it.
    fn end_session(&mut self, session_id: &str) {
        let desk = self.desk.take_if(|desk| desk.session_id == session_id);
        let Some(desk) = desk else { return };
        self.mailbox = None;
        desk.metrics.disconnected();
        let (app, tenant) = (Arc::clone(&self.app), desk.tenant.clone());
        let (instance_id, session_id) = (desk.instance_id.clone(), session_id.to_owned());
        self.later(async move {
            app.sessions.end(&tenant, &instance_id, &session_id).await;
            Done::Nothing
        });
        let parting = Parting {
            tenant: &desk.tenant,
            instance_id: &desk.instance_id,
            connection: desk.connection,
            carried: Carried {
                session: None,
                held: desk.leases(),
                unconfirmed: desk.unconfirmed(),
            },
        };
        // Whoever took over meanwhile has what it needs.
        let _ = self.app.sessions.park(parting, self.app.clock.now());
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
            Done::Judged { reports, judgements } => self.take_judgements(reports, &judgements),
            Done::Beaten { leases, verdicts } => self.take_verdicts(&leases, &verdicts),
            Done::Taken { token } => self.machine.commit(self.now(), token, None),
            Done::Nothing => {}
        }
        self.take_events();
    }

    fn begin(&mut self, opened: Opened) {
        let Opened { grant, desk, mailbox, session } = opened;
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
            if let Err(gone) = self.wire.ping() {
                self.leaving = Some(Leaving::Gone(gone));
            }
        }
    }

    /// Sends what this turn gathered to the coordinator: reports first, then the question for
    /// more, so that one turn of the coordinator can answer both.
    fn act(&mut self) {
        self.take_events();
        let now = self.now();
        let Some(desk) = &mut self.desk else {
            self.reports = Default::default();
            self.confirmed.clear();
            return;
        };
        let (reported, reports) = std::mem::take(&mut self.reports);
        let confirmed = std::mem::take(&mut self.confirmed);
        let confirmed: Vec<_> =
            confirmed.into_iter().filter(|lease| desk.confirm(*lease)).collect();
        // A worker that does not keep up is given nothing more until it does.
        let request = if self.machine.is_full() { None } else { desk.next_request(now) };
        let (handle, worker, claim) = (desk.handle.clone(), desk.worker.clone(), desk.connection);
        if !reports.is_empty() {
            self.begun.push(Box::pin(judge(handle.clone(), reported, reports)));
        }
        if !confirmed.is_empty() {
            self.begun.push(Box::pin(beat(handle.clone(), worker, confirmed)));
        }
        if let Some((slots, request)) = request {
            let asked = Asked { claim, handle: handle.clone(), slots };
            self.later(async move {
                let command = |ticket| Command::RequestLeases { ticket, request };
                Done::Leases { request: asked, answer: handle.ask(command).await }
            });
        }
    }

    fn take_leases(&mut self, request: Asked, answer: Result<Answer, AskError>) {
        let (now, vocabulary) = (self.now(), self.machine.vocabulary());
        let Ok(Answer::Leases(grants)) = answer else {
            // The slots stay asked for until the pause is over.
            return self.later(async move {
                tokio::time::sleep(ASK_AGAIN_AFTER).await;
                Done::Leases { request, answer: Ok(Answer::Leases(Vec::new())) }
            });
        };
        let desk = self.desk.as_mut().filter(|desk| desk.connection == request.claim);
        let Some(desk) = desk else {
            // The session that asked is over.
            let leases = grants.iter().map(|grant| grant.lease).collect();
            return request.handle.tell(Command::ReturnLeases { leases });
        };
        desk.answered(request.slots);
        if desk.is_doubted && !grants.is_empty() {
            let leases = grants.iter().map(|grant| grant.lease).collect();
            return desk.handle.tell(Command::ReturnLeases { leases });
        }
        let mut n_delivered = 0;
        let mut undelivered = Vec::new();
        for grant in &grants {
            let (seq, wants_ack) = (desk.next_seq(), desk.registered.wants_named_acks);
            let frame = answers::dispatch(grant, seq, vocabulary, wants_ack);
            let bytes = frame.payload.get().len();
            match self.machine.send(now, frame) {
                Ok(()) => {
                    desk.take(grant);
                    // A lease that is shorter than the pause must be heard of within its own time.
                    self.ping_at = self.ping_at.min(Instant::now() + desk.beat_every);
                    n_delivered += 1;
                }
                Err(error) if error.is_too_large() => {
                    let report = super::convert::undeliverable(grant.lease, &desk.worker, bytes);
                    self.reports.0.push(Reported { token: None, lease: grant.lease });
                    self.reports.1.push(report);
                }
                Err(_) => undelivered.push(grant.lease),
            }
        }
        desk.note_delivered(n_delivered, undelivered.is_empty());
        if !undelivered.is_empty() {
            desk.handle.tell(Command::ReturnLeases { leases: undelivered });
        }
    }

    fn take_judgements(&mut self, reports: Vec<Reported>, judgements: &[Judgement]) {
        let (now, vocabulary) = (self.now(), self.machine.vocabulary());
        let wants_verdicts = self.desk.as_ref().is_some_and(|desk| desk.registered.wants_verdicts);
        for (reported, judgement) in reports.into_iter().zip(judgements) {
            let answer = crate::doors::http::answers::verdict_answer(*judgement);
            let Some(token) = reported.token else { continue };
            self.machine.commit(now, token, Some(answers::info(&answer)));
            if wants_verdicts {
                let frame = answers::verdict(reported.lease, &answer, vocabulary);
                // A session that is full learns the verdict from the ack alone.
                let _ = self.machine.send(now, frame);
            }
        }
    }

    fn take_verdicts(&mut self, leases: &[LeaseId], verdicts: &[HeartbeatVerdict]) {
        for (lease, verdict) in leases.iter().zip(verdicts) {
            match verdict {
                HeartbeatVerdict::Extended { .. } => {}
                HeartbeatVerdict::Cancelled(why) => self.cancel(*lease, *why),
                HeartbeatVerdict::Rejected(wrong) => {
                    // A bug, or a lie, on the worker's side; it has no effect.
                    tracing::warn!(worker = self.worker_name(), %lease, ?wrong, "heartbeat refused");
                    if let Some(desk) = &mut self.desk {
                        desk.release(*lease);
                    }
                }
            }
        }
    }

    /// A lease is over: its worker is to stop.
    fn cancel(&mut self, lease: LeaseId, why: coordinator::LostAuthority) {
        let (now, vocabulary) = (self.now(), self.machine.vocabulary());
        let Some(desk) = &mut self.desk else { return };
        if why == coordinator::LostAuthority::Expired && desk.is_unconfirmed(lease) {
            desk.is_doubted = true;
            // A worker that lives answers at once.
            self.ping_at = Instant::now();
        }
        let was_held = desk.release(lease);
        if why == coordinator::LostAuthority::Reported || !was_held {
            return;
        }
        let wants_cancels = desk.registered.wants_cancels;
        self.machine.void(now, &lease.to_string());
        if wants_cancels {
            // Should the session be full, the next heartbeat of the worker says the same.
            let _ = self.machine.send(now, answers::cancel(lease, why, vocabulary));
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

    async fn leave(mut self, leaving: Leaving) {
        let (code, reason) = match &leaving {
            Leaving::Gone(Gone::Closed) => (CloseCode::NORMAL_CLOSURE, ""),
            Leaving::Gone(Gone::TooLarge) => (CloseCode::MESSAGE_TOO_BIG, "frame too large"),
            Leaving::Gone(Gone::Stalled) => (CloseCode::POLICY_VIOLATION, "the peer does not read"),
            Leaving::Stopping => (CloseCode::GOING_AWAY, "the server stops"),
            Leaving::HandedOver(_) => (CloseCode::INTERNAL_SERVER_ERROR, "superseded session"),
            Leaving::Overdue(why) => (CloseCode::POLICY_VIOLATION, *why),
        };
        // Without its windows the session goes on as after a restart: the worker repeats what was
        // not confirmed. With them it would be taken for delivered, and never confirmed.
        let is_settled = tokio::time::timeout(SETTLE_WITHIN, self.settle()).await.is_ok();
        if matches!(leaving, Leaving::Gone(Gone::TooLarge) | Leaving::Overdue(_)) {
            self.wire.close_patiently(code, reason).await;
        } else {
            self.wire.close(code, reason).await;
        }
        let session = self.machine.take_session().filter(|_| is_settled);
        let Some(desk) = self.desk.take() else { return };
        desk.metrics.disconnected();
        let carried = Carried { session, held: desk.leases(), unconfirmed: desk.unconfirmed() };
        if let Leaving::HandedOver(reply) = leaving {
            // Whoever takes over may have gone meanwhile; then the session waits for the next.
            let _ = reply.send(carried);
            return;
        }
        tracing::info!(tenant = %desk.tenant, worker = %desk.worker, reason, "worker disconnected");
        let parting = Parting {
            tenant: &desk.tenant,
            instance_id: &desk.instance_id,
            connection: desk.connection,
            carried,
        };
        let parked = self.app.sessions.park(parting, self.app.clock.now());
        if let (Err(carried), Some(mailbox)) = (parked, self.mailbox) {
            hand_over(*carried, mailbox).await;
        }
    }

    /// Finishes what delivered frames have begun: they are not delivered again.
    async fn settle(&mut self) {
        while let Some(done) = self.begun.next().await {
            self.take_done(done);
        }
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

/// The worker is back before its session was put down: whoever has it now asks for it.
async fn hand_over(carried: Carried, mut mailbox: mpsc::Receiver<Notice>) {
    while let Some(notice) = mailbox.recv().await {
        if let Notice::HandOver(reply) = notice {
            // One who does not wait any more goes on without.
            let _ = reply.send(carried);
            return;
        }
    }
}

/// Has reports judged, however long the store is in trouble: the frames are acked only then.
async fn judge(handle: CoordinatorHandle, reported: Vec<Reported>, reports: Vec<Report>) -> Done {
    loop {
        let again = reports.clone();
        match handle.ask(|ticket| Command::Report { ticket, reports: again }).await {
            Ok(Answer::Judgements(judgements)) => {
                return Done::Judged { reports: reported, judgements };
            }
            Err(AskError::Stopping) => return Done::Nothing,
            Ok(_) | Err(AskError::Overloaded | AskError::Unavailable) => {
                tokio::time::sleep(ASK_AGAIN_AFTER).await;
            }
        }
    }
}

async fn beat(handle: CoordinatorHandle, worker: model::WorkerId, leases: Vec<LeaseId>) -> Done {
    let listed = Some(leases.clone());
    let command = |ticket| Command::Heartbeat { ticket, worker, leases: listed };
    match handle.ask(command).await {
        Ok(Answer::Heartbeats(verdicts)) => Done::Beaten { leases, verdicts },
        Ok(_) | Err(_) => Done::Nothing, // The next sign of life says it again.
    }
}
