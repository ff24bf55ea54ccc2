//! What comes in: the machine's events, and the frames in them.

use std::sync::Arc;
use std::time::Duration;

use protocol::rest::leases::VerdictWord;
use protocol::session::control::ResetCode;
use protocol::session::event::WorkerEvent;
use protocol::session::frame::BusinessFrame;
use protocol::session::kind::Kind;
use protocol::session::payload::Payload;
use protocol::session::payload::exec::{Cancel, Dispatch, Verdict};
use protocol::session::payload::resource::ResourceRef;
use protocol::session::payload::resource_release::Release;
use protocol::session::payload::run_rebind::{Rebind, RebindMode};
use protocol::session::worker_machine::Connection;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Link;
use crate::attempt::Judgement;
use crate::executor::{Assignment, Outcome, RESOURCE_MISSING};
use crate::feedback::FeedbackSink;
use crate::next::ChainPlace;
use crate::resources::Lent;
use crate::session::attempt::{Attempt, Note};
use crate::session::desk::{DRAINING, Errand, Refusal, UNKNOWN};
use crate::session::history::End;
use crate::session::worker::WorkerError;

/// Confirmed reports whose verdicts are remembered to be missing; one ack confirms many frames,
/// and their verdicts follow. A verdict that is lost with its ack is missed by nobody.
const UNJUDGED_MAX: usize = 4096;
/// A frame whose payload cannot be read.
const MALFORMED: &str = "E.REQUEST.INVALID";

impl Link {
    pub(super) fn on_events(&mut self) {
        while let Some(event) = self.parts.machine.poll_event() {
            self.on_event(event);
        }
    }

    fn on_event(&mut self, event: WorkerEvent) {
        match event {
            WorkerEvent::ConnectDue => {
                self.parts.metrics.reconnects.inc();
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
            session_id = self.parts.machine.session_id(),
            is_resumed,
            address = %self.parts.address,
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
            if is_report && self.parts.desk.history.is_settled(lease_id) {
                // It was judged and has done its work; only the ack of its frame was lost.
                self.on_confirmed(&frame.id);
            } else {
                // They were first, so they stay first.
                self.backlog.push_front(frame);
            }
        }
        self.drop_chunks();
        let is_final = code.starts_with("E.AUTH.") || code == ResetCode::TenantMismatch.name();
        if is_final && !self.has_been_ready {
            self.refused = Some(WorkerError::Refused { code, reason });
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
                let errand = errand_of_unreadable(frame, task_id);
                self.refuse(&errand, MALFORMED, &error.to_string());
            }
            Some(Err(error)) => tracing::warn!(kind = &*frame.kind, %error, "unreadable frame"),
            // What a worker has no use for is acknowledged, and that is all.
            Some(Ok(_)) | None => tracing::debug!(kind = &*frame.kind, "frame passed over"),
        }
    }

    /// A run has ended: what it left here has served its time.
    fn on_release(&self, release: &Release) {
        self.parts.resources.release_scope(&release.run_id);
    }

    fn on_dispatch(&mut self, frame: &BusinessFrame, mut dispatch: Dispatch) {
        let place = place_of(&mut dispatch);
        let refs = dispatch.resource_refs.take().unwrap_or_default();
        let time = dispatch.constraints.timeout_ms.map(Duration::from_millis);
        let (errand, assignment) = split(frame, dispatch);
        match self.check(&errand) {
            Ok(()) => {}
            Err(Refusal::Known) => {
                return tracing::info!(lease_id = errand.lease_id, "known already; not started");
            }
            Err(Refusal::Because(code, why)) => return self.refuse(&errand, code, &why),
        }
        let began = Instant::now();
        let lent = match self.lend(&refs) {
            Ok(lent) => lent,
            Err(outcome) => return self.report(&errand, outcome, began.elapsed()),
        };
        // Who stands in a chain looks around itself first.
        let at_once = match place {
            None => self.parts.executor.execute_at_once(assignment),
            Some(_) => Err(assignment),
        };
        match at_once {
            Ok(outcome) => self.report(&errand, outcome, began.elapsed()),
            Err(assignment) => self.start(errand, Plan { assignment, time, place, lent }),
        }
    }

    fn check(&self, errand: &Errand) -> Result<(), Refusal> {
        let is_known = self.parts.desk.check(errand);
        if is_known == Err(Refusal::Known) {
            return is_known;
        }
        if self.is_draining() {
            let why = "this worker finishes and takes nothing new".into();
            return Err(Refusal::Because(DRAINING, why));
        }
        if !self.types.contains(&errand.node_type) {
            let why = format!("{} is not offered here", errand.node_type);
            return Err(Refusal::Because(UNKNOWN, why));
        }
        is_known
    }

    /// What a task is to work with must be here, or it fails at once (seed 001 section 5).
    fn lend(&self, refs: &[ResourceRef]) -> Result<Vec<Lent>, Outcome> {
        let lend = |one: &ResourceRef| {
            self.parts.resources.lease(&one.resource_id).ok_or_else(|| {
                let why = format!("resource {} is not on this worker", one.resource_id);
                Outcome::hopeless(RESOURCE_MISSING, why)
            })
        };
        refs.iter().map(lend).collect()
    }

    fn start(&mut self, errand: Errand, plan: Plan) {
        let Plan { assignment, time, place, lent } = plan;
        let number = self.parts.desk.next_number();
        let (stop, notes) = (CancellationToken::new(), self.notes_sender.clone());
        let wake = notes.clone();
        let feedback = FeedbackSink::new(move || {
            // Nobody listens when the session has ended.
            let _ = wake.send(Note::Said(number));
        });
        let attempt = Attempt {
            number,
            run_id: errand.run_id.clone(),
            executor: self.parts.executor.clone(),
            assignment,
            feedback: feedback.clone(),
            stop: stop.clone(),
            time,
            place: place.clone(),
            resources: Arc::clone(&self.parts.resources),
            lent,
            notes,
        };
        // It starts in the same turn, if there is a slot.
        self.parts.desk.add(errand, place, Box::new(attempt));
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
        if self.parts.desk.history.settle(lease_id) {
            self.tell(&Judgement { lease_id: lease_id.into(), verdict, reason });
        } else if verdict != VerdictWord::Committed {
            self.lose_lease(lease_id, verdict, reason);
        }
    }

    /// Seed 002 section 4: after a lost lease the work stops before anything else happens.
    fn lose_lease(&mut self, lease_id: &str, verdict: VerdictWord, reason: Option<String>) {
        if self.parts.desk.cancel(lease_id) {
            self.parts.desk.history.add(lease_id, End::Settled);
            self.backlog.retain(|frame| frame.corr.as_deref() != Some(lease_id));
            self.tell(&Judgement { lease_id: lease_id.into(), verdict, reason });
        }
    }

    fn tell(&mut self, judgement: &Judgement) {
        crate::attempt::log(judgement);
        self.parts.metrics.judged(judgement.verdict);
        self.summary.add(Some(judgement));
        (self.parts.listener)(judgement);
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
        return tracing::info!(run_id, "nothing more of this run comes here");
    }
    for one in bindings {
        let worker_name = one.worker_name.as_deref().unwrap_or("whoever asks first");
        tracing::info!(run_id, package = one.package, worker_name, "work of this run goes there");
    }
}

fn place_of(dispatch: &mut Dispatch) -> Option<Arc<ChainPlace>> {
    let middlewares = dispatch.middleware_chain.take()?;
    let host_node_id = dispatch.host_node_id.take()?;
    Some(Arc::new(ChainPlace { host_node_id, middlewares, index: dispatch.chain_index }))
}

/// What is reported about, and what is executed.
fn split(frame: &BusinessFrame, dispatch: Dispatch) -> (Errand, Assignment) {
    let errand = Errand {
        lease_id: frame.id.clone(),
        run_id: dispatch.run_id,
        task_id: dispatch.task_id,
        node_id: dispatch.node_id,
        node_type: dispatch.node_type,
        concurrency_key: dispatch.concurrency_key,
        seq: frame.seq,
    };
    let assignment = Assignment {
        lease_id: errand.lease_id.clone(),
        task_id: errand.task_id.clone(),
        attempt: attempt_of(&errand.lease_id),
        task_type: errand.node_type.clone(),
        parameters: dispatch.parameters.into_raw(),
    };
    (errand, assignment)
}

/// A lease of ours ends in the number of its attempt; others count from the first.
fn attempt_of(lease_id: &str) -> u32 {
    let number = lease_id.rsplit_once('-').and_then(|(_, number)| number.parse().ok());
    number.unwrap_or(1)
}

fn errand_of_unreadable(frame: &BusinessFrame, task_id: String) -> Errand {
    Errand {
        lease_id: frame.id.clone(),
        run_id: String::new(),
        task_id,
        node_id: String::new(),
        node_type: String::new(),
        concurrency_key: None,
        seq: frame.seq,
    }
}
