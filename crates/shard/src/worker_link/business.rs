//! What workers say: results, errors, feedback, heartbeats.

use coordinator::{Command, DrainCause};
use model::{LeaseId, Report, Timestamp, WorkerId};
use protocol::session::event::CommitToken;
use protocol::session::frame::BusinessFrame;
use protocol::session::kind::{Kind, Payload, decode_as};
use protocol::session::payload::control::Heartbeat;
use protocol::session::payload::exec::{ExecError, ExecResult, Feedback};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::convert::{self, lease_of};
use super::event::LinkEvent;
use super::in_flight::{Reported, RequestId, Waiting};
use super::{LinkAsk, WorkerLink};

/// A worker refuses a dispatch because the same work runs already: the first one goes on.
const CONCURRENCY_VIOLATION: &str = "E.CMD.CONCURRENCY_VIOLATION";
/// A worker refuses a dispatch because it is about to leave: nothing was begun.
const DRAINING: &str = "E.WORKER.DRAINING";
/// A worker gives work up that it has begun: it leaves before it is done.
const CANCELLED: &str = "E.RUNNER.CANCELLED";

impl WorkerLink {
    pub(super) fn on_business(
        &mut self,
        now: Timestamp,
        token: CommitToken,
        frame: &BusinessFrame,
    ) {
        let Some(kind) = Kind::from_name(&frame.kind) else {
            // Extensions of others are carried, not understood.
            return self.machine.commit(now, token, None);
        };
        let decoded = Payload::decode(kind, &frame.payload);
        let payload = match decoded.or_else(|error| convert::repair(kind, frame).ok_or(error)) {
            Ok(payload) => payload,
            Err(error) => {
                let why = format!("{} {error}", error.code().entry().name);
                self.note_refused_frame(frame, why.clone());
                return self.machine.commit(now, token, Some(why));
            }
        };
        match payload {
            Payload::ExecResult(result) => self.on_result(now, token, frame, result),
            Payload::ExecError(error) => self.on_error(now, token, frame, &error),
            Payload::ExecFeedback(feedback) => self.on_feedback(now, token, frame, feedback),
            Payload::NextRequest(request) => self.on_next(now, token, frame, &request),
            Payload::ResourceReadChunk(chunk) => {
                self.machine.commit(now, token, None);
                self.events.push_back(LinkEvent::Chunk(Box::new(chunk)));
            }
            Payload::PackageEvent(event) => {
                self.machine.commit(now, token, None);
                self.events.push_back(LinkEvent::Package(Box::new(event)));
            }
            _ => {
                let info = format!("E.CMD.UNKNOWN a worker does not say {}", frame.kind);
                self.machine.commit(now, token, Some(info));
            }
        }
    }

    fn note_refused_frame(&mut self, frame: &BusinessFrame, why: String) {
        self.events.push_back(LinkEvent::FrameRefused {
            kind: frame.kind.to_string(),
            id: frame.id.clone(),
            corr: frame.corr.clone(),
            why,
        });
    }

    /// Queues a report, or says at once why it cannot be judged.
    fn report(
        &mut self,
        now: Timestamp,
        token: CommitToken,
        lease: Result<LeaseId, &'static str>,
        make: impl FnOnce(LeaseId, &WorkerId) -> Report,
    ) {
        let Some(session) = &mut self.session else { return };
        let lease = match lease {
            Ok(lease) => lease,
            Err(why) => {
                self.events.push_back(LinkEvent::ReportRefused);
                return self.machine.commit(now, token, Some(format!("REJECTED {why}")));
            }
        };
        session.release(lease);
        self.reports.0.push(Reported { token: Some(token), lease });
        self.reports.1.push(make(lease, &session.owner.worker));
    }

    pub(super) fn find_lease(
        &self,
        frame: &BusinessFrame,
        task_id: Option<&str>,
    ) -> Result<LeaseId, &'static str> {
        let Some(session) = &self.session else { return Err("unknown_lease") };
        let held = |task| session.lease_of(task);
        lease_of(frame.corr.as_deref(), task_id, session.owner.shard, held)
    }

    fn on_result(
        &mut self,
        now: Timestamp,
        token: CommitToken,
        frame: &BusinessFrame,
        result: ExecResult,
    ) {
        let lease = self.find_lease(frame, Some(&result.task_id));
        if let Some(artifacts) = result.artifacts.as_ref().filter(|list| !list.is_empty()) {
            self.events.push_back(LinkEvent::Artifacts(artifacts.clone()));
        }
        self.report(now, token, lease, |lease, worker| {
            convert::result_report(lease, worker, result)
        });
    }

    fn on_error(
        &mut self,
        now: Timestamp,
        token: CommitToken,
        frame: &BusinessFrame,
        error: &ExecError,
    ) {
        #[derive(Deserialize)]
        struct Details {
            task_id: String,
        }
        let details = error.context.as_ref().and_then(|context| context.details.as_ref());
        let details = details.and_then(|text| serde_json::from_str::<Details>(text.get()).ok());
        let task_id = details.as_ref().map(|details| details.task_id.as_str());
        let lease = self.find_lease(frame, task_id);
        let is_given_back = match error.code.as_str() {
            CONCURRENCY_VIOLATION => return self.machine.commit(now, token, None),
            DRAINING => false,
            CANCELLED => true,
            _ => {
                return self.report(now, token, lease, |lease, worker| {
                    convert::error_report(lease, worker, error)
                });
            }
        };
        self.machine.commit(now, token, None);
        if let (Ok(lease), Some(session)) = (lease, &mut self.session) {
            session.release(lease);
            let (worker, leases) = (session.owner.worker.clone(), vec![lease]);
            self.asks.push_back(LinkAsk::Tell(if is_given_back {
                Command::GiveBack { worker, leases }
            } else {
                Command::ReturnLeases { leases }
            }));
        }
    }

    fn on_feedback(
        &mut self,
        now: Timestamp,
        token: CommitToken,
        frame: &BusinessFrame,
        feedback: Feedback,
    ) {
        let Ok(lease) = self.find_lease(frame, Some(&feedback.task_id)) else {
            // It is about nothing that this worker does; it decides nothing, so it may be lost.
            return self.machine.commit(now, token, None);
        };
        // Who speaks of a dispatch has it, whatever became of the ack.
        self.confirmed.push(lease);
        let request = self.in_flight.new_id();
        self.in_flight.add(request, Waiting::Feedback { token });
        let feedback = Box::new(feedback);
        self.events.push_back(LinkEvent::Feedback { request, lease, feedback });
    }

    /// Progress or output is stored, or cannot be: a disk in trouble costs lines of a log, never
    /// the task.
    pub fn on_stored(&mut self, now: Timestamp, request: RequestId) {
        if let Some(Waiting::Feedback { token }) = self.in_flight.remove(request) {
            self.machine.commit(now, token, None);
        }
    }

    pub(super) fn on_heartbeat(&mut self, payload: &RawValue) {
        match decode_as(payload) {
            Ok(heartbeat) => self.observe_heartbeat(heartbeat),
            Err(error) => {
                let why = error.to_string();
                self.events.push_back(LinkEvent::Misread { what: "heartbeat", why });
            }
        }
    }

    fn observe_heartbeat(&mut self, heartbeat: Heartbeat) {
        let Some(session) = &mut self.session else { return };
        let metrics = &heartbeat.metrics;
        let listed = convert::listed_leases(metrics, session.owner.shard);
        if let Some(listed) = &listed {
            session.note_listed(listed);
        }
        let leases = listed.unwrap_or_else(|| session.confirmed());
        let pressure = session.pressure_changed(metrics);
        let is_leaving = convert::is_leaving(metrics);
        let leaving = (is_leaving != session.is_leaving).then_some(is_leaving);
        session.is_leaving = is_leaving;
        let worker = session.owner.worker.clone();
        self.events.push_back(LinkEvent::Heartbeat(Box::new(heartbeat)));
        self.beat(worker.clone(), leases, false);
        if let Some(on) = pressure {
            self.events.push_back(LinkEvent::Pressure { on });
            self.set_drain(&worker, DrainCause::Pressure, on);
        }
        if let Some(on) = leaving {
            self.set_drain(&worker, DrainCause::Leaving, on);
        }
    }
}
