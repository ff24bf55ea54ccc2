//! What comes in: the machine's events, and the frames in them.
//!
//! The server reads resources of this worker part by part. It asks for each part when it has room for
//! it, so a slow reader holds nothing up here. Whatever else the worker has to say goes first.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use protocol::error_code::ErrorCode;
use protocol::rest::leases::VerdictWord;
use protocol::session::event::WorkerEvent;
use protocol::session::frame::BusinessFrame;
use protocol::session::kind::{Kind, Payload};
use protocol::session::payload::exec::{Cancel, CodedError, Dispatch, Rebind, RebindMode, Verdict};
use protocol::session::payload::resource::{
    CHUNK_BYTES_MAX, ReadRequest, Release, ResourceChunk, ResourceRef,
};
use protocol::session::worker_machine::Connection;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::session::Link;
use crate::core::executor::{Assignment, Outcome, RESOURCE_MISSING};
use crate::core::feedback::FeedbackSink;
use crate::core::handle::WorkerError;
use crate::core::in_flight::{Attempt, AttemptEvent, DRAINING, End, LeasedTask, Refusal, UNKNOWN};
use crate::core::next::ChainPlace;
use crate::core::verdict::Judgement;
use crate::resources::{Lent, Registry};

/// Confirmed reports whose verdicts are remembered to be missing; one ack confirms many frames,
/// and their verdicts follow. A verdict that is lost with its ack is missed by nobody.
const UNJUDGED_MAX: usize = 4096;
/// A frame whose payload cannot be read.
const MALFORMED: &str = "E.REQUEST.INVALID";

impl Link {
    pub(super) fn on_events(&mut self) {
        while let Some(event) = self.machine.poll_event() {
            self.on_event(event);
        }
    }

    fn on_event(&mut self, event: WorkerEvent) {
        match event {
            WorkerEvent::ConnectDue => {
                self.metrics.reconnects.inc();
                self.connect();
            }
            WorkerEvent::Disconnect { connection, reason } => self.disconnect(connection, &reason),
            WorkerEvent::Ready { is_resumed } => self.on_ready(is_resumed),
            WorkerEvent::HeartbeatDue => self.beat(),
            WorkerEvent::Delivered { frame } => self.on_frame(&frame),
            WorkerEvent::Acked { id } => self.on_confirmed(&id),
            WorkerEvent::Answered { id, info } => self.on_answered(&id, info.as_deref()),
            WorkerEvent::Drain { reason, deadline } => self.on_drain(reason.as_deref(), deadline),
            WorkerEvent::GaveUp { id } => tracing::warn!(id, "a frame was never confirmed"),
            WorkerEvent::SessionLost { code, reason, unconfirmed } => {
                self.on_session_lost(code, reason, unconfirmed);
            }
        }
    }

    fn on_confirmed(&mut self, id: &str) {
        if let Some((id, lease_id)) = self.unconfirmed.remove_entry(id)
            && self.unjudged.len() < UNJUDGED_MAX
        {
            self.unjudged.insert(id, lease_id);
        }
        self.unconfirmed_refusals.remove(id);
        self.chunks_out.remove(id);
    }

    fn disconnect(&mut self, connection: Connection, reason: &str) {
        if self.socket.as_ref().is_some_and(|socket| socket.connection() == connection)
            && let Some(socket) = self.socket.take()
        {
            tracing::info!(reason, "closing the connection");
            // Not waited for: the session goes on without it.
            tokio::spawn(socket.close());
        }
        self.say_state();
    }

    fn on_ready(&mut self, is_resumed: bool) {
        self.has_been_ready = true;
        tracing::info!(
            session_id = self.machine.session_id(),
            is_resumed,
            address = %self.options.address,
            "ready"
        );
        self.call_again();
        self.say_state();
    }

    fn on_session_lost(&mut self, code: String, reason: String, frames: Vec<BusinessFrame>) {
        tracing::warn!(code, reason, n_unconfirmed = frames.len(), "the session is lost");
        for frame in frames.into_iter().rev() {
            let lease_id = frame.corr.as_deref().unwrap_or_default();
            let is_report = frame.kind == Kind::ExecResult.name();
            if is_report && self.in_flight.history.is_settled(lease_id) {
                // It was judged and has done its work; only the ack of its frame was lost.
                self.on_confirmed(&frame.id);
            } else {
                // They were first, so they stay first.
                self.backlog.push_front(frame);
            }
        }
        self.drop_chunks();
        let is_final =
            code.starts_with("E.AUTH.") || code == ErrorCode::SessionTenantMismatch.name();
        if is_final && !self.has_been_ready {
            self.refused = Some(WorkerError::NoSession { code, reason });
        }
        self.say_state();
    }

    fn on_frame(&mut self, frame: &BusinessFrame) {
        match Kind::from_name(&frame.kind).map(|kind| Payload::decode(kind, &frame.payload)) {
            Some(Ok(Payload::ExecDispatch(dispatch))) => self.on_dispatch(frame, *dispatch),
            Some(Ok(Payload::ExecCancel(cancel))) => self.on_cancel(&cancel),
            Some(Ok(Payload::ExecVerdict(verdict))) => self.on_verdict(verdict),
            Some(Ok(Payload::ResourceReadRequest(request))) => self.on_read_request(request),
            Some(Ok(Payload::ResourceRelease(release))) => self.on_release(&release),
            Some(Ok(Payload::RunRebind(rebind))) => on_rebind(&rebind),
            Some(Ok(Payload::NextResponse(response))) => self.on_next_response(response),
            Some(Err(error)) if frame.kind == Kind::ExecDispatch.name() => {
                let task_id = frame.corr.clone().unwrap_or_default();
                let leased = leased_of_unreadable(frame, task_id);
                self.refuse(&leased, MALFORMED, &error.to_string());
            }
            Some(Err(error)) => tracing::warn!(kind = &*frame.kind, %error, "unreadable frame"),
            // What a worker has no use for is acknowledged, and that is all.
            Some(Ok(_)) | None => tracing::debug!(kind = &*frame.kind, "frame passed over"),
        }
    }

    /// A run has ended: what it left here has served its time.
    fn on_release(&self, release: &Release) {
        self.resources.release_scope(&release.run_id);
    }

    fn on_dispatch(&mut self, frame: &BusinessFrame, mut dispatch: Dispatch) {
        let place = place_of(&mut dispatch);
        let refs = dispatch.resource_refs.take().unwrap_or_default();
        let time = dispatch.constraints.timeout_ms.map(Duration::from_millis);
        let (leased, assignment) = split(frame, dispatch);
        match self.check(&leased) {
            Ok(()) => {}
            Err(Refusal::Known) => {
                return tracing::info!(lease_id = leased.lease_id, "known already; not started");
            }
            Err(Refusal::Because(code, why)) => return self.refuse(&leased, code, &why),
        }
        let began = Instant::now();
        let lent = match self.lend(&refs) {
            Ok(lent) => lent,
            Err(outcome) => return self.report(&leased, outcome, began.elapsed()),
        };
        // Who stands in a chain looks around itself first.
        let at_once = match place {
            None => self.options.executor.execute_at_once(assignment),
            Some(_) => Err(assignment),
        };
        match at_once {
            Ok(outcome) => self.report(&leased, outcome, began.elapsed()),
            Err(assignment) => self.start(leased, Plan { assignment, time, place, lent }),
        }
    }

    fn check(&self, leased: &LeasedTask) -> Result<(), Refusal> {
        let is_known = self.in_flight.check(leased);
        if is_known == Err(Refusal::Known) {
            return is_known;
        }
        if self.is_draining() {
            let why = "this worker finishes and takes nothing new".into();
            return Err(Refusal::Because(DRAINING, why));
        }
        if !self.types.contains(&leased.node_type) {
            let why = format!("{} is not offered here", leased.node_type);
            return Err(Refusal::Because(UNKNOWN, why));
        }
        is_known
    }

    /// What a task is to work with must be here, or it fails at once (seed 001 section 5).
    fn lend(&self, refs: &[ResourceRef]) -> Result<Vec<Lent>, Outcome> {
        let lend = |one: &ResourceRef| {
            self.resources.lease(&one.resource_id).ok_or_else(|| {
                let why = format!("resource {} is not on this worker", one.resource_id);
                Outcome::hopeless(RESOURCE_MISSING, why)
            })
        };
        refs.iter().map(lend).collect()
    }

    fn start(&mut self, leased: LeasedTask, plan: Plan) {
        let Plan { assignment, time, place, lent } = plan;
        let number = self.in_flight.next_number();
        let (stop, notes) = (CancellationToken::new(), self.events_sender.clone());
        let wake = notes.clone();
        let feedback = FeedbackSink::new(move || {
            // Nobody listens when the session has ended.
            let _ = wake.send(AttemptEvent::Said(number));
        });
        let attempt = Attempt {
            number,
            run_id: leased.run_id.clone(),
            executor: self.options.executor.clone(),
            assignment,
            feedback: feedback.clone(),
            stop: stop.clone(),
            time,
            place: place.clone(),
            resources: Arc::clone(&self.resources),
            lent,
            notes,
        };
        // It starts in the same turn, if there is a slot.
        self.in_flight.add(leased, place, Box::new(attempt));
        self.admit();
    }

    fn on_cancel(&mut self, cancel: &Cancel) {
        let Cancel { lease_id, reason, .. } = cancel;
        self.lose_lease(lease_id, VerdictWord::Cancelled, Some(reason.clone()));
    }

    fn on_verdict(&mut self, verdict: Verdict) {
        let Verdict { lease_id, verdict, reason, .. } = verdict;
        self.judge(&lease_id, verdict, reason);
    }

    /// Some servers say the verdict in the ack of the report.
    fn on_answered(&mut self, id: &str, info: Option<&str>) {
        let Some(info) = info else { return };
        let (word, reason) = info.split_once([' ', ':']).unwrap_or((info, ""));
        let verdict = match word {
            "COMMITTED" => VerdictWord::Committed,
            "CANCELLED" => VerdictWord::Cancelled,
            "REJECTED" => VerdictWord::Rejected,
            _ => return,
        };
        let reason = (!reason.is_empty()).then(|| reason.trim().to_owned());
        let reported = self.unjudged.remove(id).or_else(|| self.unconfirmed.get(id).cloned());
        if let Some(lease_id) = reported {
            self.judge(&lease_id, verdict, reason);
        }
    }

    fn judge(&mut self, lease_id: &str, verdict: VerdictWord, reason: Option<String>) {
        if self.in_flight.history.settle(lease_id) {
            self.tell(&Judgement { lease_id: lease_id.into(), verdict, reason });
        } else if verdict != VerdictWord::Committed {
            self.lose_lease(lease_id, verdict, reason);
        }
    }

    /// Seed 002 section 4: after a lost lease the work stops before anything else happens.
    fn lose_lease(&mut self, lease_id: &str, verdict: VerdictWord, reason: Option<String>) {
        if self.in_flight.cancel(lease_id) {
            self.in_flight.history.add(lease_id, End::Settled);
            self.backlog.retain(|frame| frame.corr.as_deref() != Some(lease_id));
            self.tell(&Judgement { lease_id: lease_id.into(), verdict, reason });
        }
    }

    fn tell(&mut self, judgement: &Judgement) {
        self.metrics.judged(judgement.verdict);
        self.summary.add(Some(judgement));
        (self.options.listener)(judgement);
    }
}

/// What is executed, for how long, and what it is wrapped around.
struct Plan {
    assignment: Assignment,
    time: Option<Duration>,
    place: Option<Arc<ChainPlace>>,
    lent: Vec<Lent>,
}

/// What comes next is the server's to decide: this is for those who read the log.
fn on_rebind(rebind: &Rebind) {
    let Rebind { run_id, mode, bindings } = rebind;
    if *mode == RebindMode::Drain {
        return tracing::info!(run_id, "run drained from this worker");
    }
    for one in bindings {
        let worker_name = one.worker_name.as_deref().unwrap_or("any");
        tracing::info!(run_id, package = one.package, to = worker_name, "run rebound");
    }
}

fn place_of(dispatch: &mut Dispatch) -> Option<Arc<ChainPlace>> {
    let middlewares = dispatch.middleware_chain.take()?;
    let host_node_id = dispatch.host_node_id.take()?;
    Some(Arc::new(ChainPlace { host_node_id, middlewares, index: dispatch.chain_index }))
}

/// What is reported about, and what is executed.
fn split(frame: &BusinessFrame, dispatch: Dispatch) -> (LeasedTask, Assignment) {
    let leased = LeasedTask {
        lease_id: frame.id.clone(),
        run_id: dispatch.run_id,
        task_id: dispatch.task_id,
        node_id: dispatch.node_id,
        node_type: dispatch.node_type,
        concurrency_key: dispatch.concurrency_key,
        seq: frame.seq,
    };
    let assignment = Assignment {
        lease_id: leased.lease_id.clone(),
        task_id: leased.task_id.clone(),
        attempt: attempt_of(&leased.lease_id),
        task_type: leased.node_type.clone(),
        parameters: dispatch.parameters.into_raw(),
    };
    (leased, assignment)
}

/// A lease of ours ends in the number of its attempt; others count from the first.
fn attempt_of(lease_id: &str) -> u32 {
    let number = lease_id.rsplit_once('-').and_then(|(_, number)| number.parse().ok());
    number.unwrap_or(1)
}

fn leased_of_unreadable(frame: &BusinessFrame, task_id: String) -> LeasedTask {
    LeasedTask {
        lease_id: frame.id.clone(),
        run_id: String::new(),
        task_id,
        node_id: String::new(),
        node_type: String::new(),
        concurrency_key: None,
        seq: frame.seq,
    }
}

/// Parts that are read or wait to be sent at the same time.
const READS_MAX: usize = 64;
/// Parts that are on their way at the same time. Whatever is said meanwhile waits for no more than
/// these, and they never fill a session.
const CHUNKS_OUT_MAX: usize = 4;
/// More reads than the worker does at the same time.
const BUSY: &str = "E.LIMIT.OVERLOADED";
/// The disk does not do what it should.
const DISK: &str = "E.RESOURCE.UNREADABLE";

impl Link {
    pub(super) fn on_read_request(&mut self, request: ReadRequest) {
        self.n_reads += 1;
        if self.n_reads > READS_MAX {
            let why = "the worker reads as much as it can already";
            return self.on_chunk(failed(&request, BUSY, why.into()));
        }
        let (resources, notes) = (Arc::clone(&self.resources), self.events_sender.clone());
        tokio::task::spawn_blocking(move || {
            let chunk = read(&resources, &request);
            // Nobody listens when the session has ended.
            let _ = notes.send(AttemptEvent::Read(Box::new(chunk)));
        });
    }

    pub(super) fn on_chunk(&mut self, chunk: ResourceChunk) {
        self.chunks.push_back(chunk);
    }

    /// A few parts at a time, when there is nothing else to say.
    pub(super) fn speak_of_resources(&mut self) {
        while self.backlog.is_empty()
            && !self.machine.is_full()
            && self.chunks_out.len() < CHUNKS_OUT_MAX
            && let Some(chunk) = self.chunks.pop_front()
        {
            self.n_reads = self.n_reads.saturating_sub(1);
            let frame = self.namer.chunk(chunk);
            self.chunks_out.insert(frame.id.clone());
            self.post(frame);
        }
    }

    /// The session is lost, and whoever waited for parts with it.
    pub(super) fn drop_chunks(&mut self) {
        self.n_reads = self.n_reads.saturating_sub(self.chunks.len());
        self.chunks.clear();
        self.chunks_out.clear();
        self.backlog.retain(|frame| frame.kind != Kind::ResourceReadChunk.name());
    }
}

fn read(resources: &Arc<Registry>, request: &ReadRequest) -> ResourceChunk {
    let Some(lent) = resources.lease(&request.resource_id) else {
        let why = format!("resource {} is not on this worker", request.resource_id);
        return failed(request, RESOURCE_MISSING, why);
    };
    match read_part(&lent.resource().path, request) {
        Ok(bytes) => {
            let end = request.offset.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
            ResourceChunk {
                request_id: request.request_id.clone(),
                offset: request.offset,
                data: STANDARD.encode(&bytes),
                eof: end >= lent.resource().bytes,
                error: None,
            }
        }
        Err(error) => failed(request, DISK, error.to_string()),
    }
}

fn read_part(path: &Path, request: &ReadRequest) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(request.offset))?;
    let length = request.length.min(CHUNK_BYTES_MAX);
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn failed(request: &ReadRequest, code: &str, message: String) -> ResourceChunk {
    ResourceChunk {
        request_id: request.request_id.clone(),
        offset: request.offset,
        data: String::new(),
        eof: true,
        error: Some(CodedError { code: code.into(), message }),
    }
}
