//! What workers say: results, errors, feedback, heartbeats.

use std::sync::Arc;

use coordinator::{Command, DrainCause};
use model::LeaseId;
use protocol::session::event::CommitToken;
use protocol::session::frame::BusinessFrame;
use protocol::session::kind::Kind;
use protocol::session::payload::Payload;
use protocol::session::payload::exec::{ExecError, ExecResult};
use protocol::session::payload::feedback::Feedback;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::convert::{self, lease_of};
use super::super::gate;
use super::work::beat;
use super::{Connection, Done, Reported};
use crate::sessions::HeartbeatFacts;

/// A worker refuses a dispatch because the same work runs already: the first one goes on.
const CONCURRENCY_VIOLATION: &str = "E.CMD.CONCURRENCY_VIOLATION";
/// A worker refuses a dispatch because it is about to leave: nothing was begun.
const DRAINING: &str = "E.WORKER.DRAINING";

/// A worker gives work up that it has begun: it leaves before it is done.
const CANCELLED: &str = "E.RUNNER.CANCELLED";

impl Connection {
    pub(super) fn on_business(&mut self, token: CommitToken, frame: &BusinessFrame) {
        let Some(kind) = Kind::from_name(&frame.kind) else {
            // Extensions of others are carried, not understood.
            return self.machine.commit(self.now(), token, None);
        };
        let decoded = Payload::decode(kind, &frame.payload);
        let payload = match decoded.or_else(|error| convert::mended(kind, frame).ok_or(error)) {
            Ok(payload) => payload,
            Err(error) => {
                let info = format!("{} {error}", error.code().entry().name);
                tracing::info!(
                    worker = self.worker_name(), r#type = %frame.kind, id = frame.id,
                    corr = frame.corr, code = error.code().entry().name, %error, "frame refused"
                );
                return self.machine.commit(self.now(), token, Some(info));
            }
        };
        match payload {
            Payload::ExecResult(result) => self.on_result(token, frame, result),
            Payload::ExecError(error) => self.on_error(token, frame, &error),
            Payload::ExecFeedback(feedback) => self.on_feedback(token, frame, feedback),
            Payload::ResourceReadChunk(chunk) => self.on_chunk(token, chunk),
            Payload::NextRequest(request) => self.on_next(token, frame, &request),
            Payload::PackageEvent(event) => {
                tracing::info!(worker = self.worker_name(), ?event, "package event");
                self.tell_package(&event);
                self.machine.commit(self.now(), token, None);
            }
            _ => {
                let info = format!("E.CMD.UNKNOWN a worker does not say {}", frame.kind);
                self.machine.commit(self.now(), token, Some(info));
            }
        }
    }

    /// Queues a report, or says at once why it cannot be judged.
    fn report(
        &mut self,
        token: CommitToken,
        lease: Result<LeaseId, &'static str>,
        make: impl FnOnce(LeaseId, &model::WorkerId) -> model::Report,
    ) {
        let now = self.now();
        let Some(desk) = &mut self.desk else { return };
        let lease = match lease {
            Ok(lease) => lease,
            Err(why) => {
                let tenant = desk.tenant.clone();
                self.app.metrics.observe_refused_reports(&tenant, 1);
                return self.machine.commit(now, token, Some(format!("REJECTED {why}")));
            }
        };
        desk.release(lease);
        self.reports.0.push(Reported { token: Some(token), lease });
        self.reports.1.push(make(lease, &desk.worker));
    }

    pub(super) fn find_lease(
        &self,
        frame: &BusinessFrame,
        task_id: Option<&str>,
    ) -> Result<LeaseId, &'static str> {
        let Some(desk) = &self.desk else { return Err("unknown_lease") };
        let held = |task| desk.lease_of(task);
        lease_of(frame.corr.as_deref(), task_id, desk.handle.shard(), held)
    }

    fn on_result(&mut self, token: CommitToken, frame: &BusinessFrame, result: ExecResult) {
        let lease = self.find_lease(frame, Some(&result.task_id));
        if let (Some(artifacts), Some(desk)) = (&result.artifacts, &self.desk) {
            let now = self.now();
            self.app.resources.note_artifacts(&desk.tenant, &desk.worker, artifacts, now);
        }
        self.report(token, lease, |lease, worker| convert::result_report(lease, worker, result));
    }

    fn on_error(&mut self, token: CommitToken, frame: &BusinessFrame, error: &ExecError) {
        #[derive(Deserialize)]
        struct Details {
            task_id: String,
        }
        let details = error.context.as_ref().and_then(|context| context.details.as_ref());
        let details = details.and_then(|text| serde_json::from_str::<Details>(text.get()).ok());
        let lease =
            self.find_lease(frame, details.as_ref().map(|details| details.task_id.as_str()));
        let now = self.now();
        match error.code.as_str() {
            CONCURRENCY_VIOLATION => self.machine.commit(now, token, None),
            DRAINING => {
                self.machine.commit(now, token, None);
                if let (Ok(lease), Some(desk)) = (lease, &mut self.desk) {
                    desk.release(lease);
                    desk.handle.tell(Command::ReturnLeases { leases: vec![lease] });
                }
            }
            CANCELLED => {
                self.machine.commit(now, token, None);
                if let (Ok(lease), Some(desk)) = (lease, &mut self.desk) {
                    desk.release(lease);
                    let worker = desk.worker.clone();
                    desk.handle.tell(Command::GiveBack { worker, leases: vec![lease] });
                }
            }
            _ => {
                self.report(token, lease, |lease, worker| {
                    convert::error_report(lease, worker, error)
                });
            }
        }
    }

    fn on_feedback(&mut self, token: CommitToken, frame: &BusinessFrame, feedback: Feedback) {
        let Ok(lease) = self.find_lease(frame, Some(&feedback.task_id)) else {
            // It is about nothing that this worker does; it decides nothing, so it may be lost.
            return self.machine.commit(self.now(), token, None);
        };
        // Who speaks of a dispatch has it, whatever became of the ack.
        self.confirmed.push(lease);
        let hub = Arc::clone(&self.app.feedback);
        self.begun.push(Box::pin(async move {
            // A disk in trouble costs lines of a log, never the task.
            let _ = hub.take(lease, feedback).await;
            Done::Taken { token }
        }));
    }

    pub(super) fn on_heartbeat(&mut self, payload: &RawValue) {
        let heartbeat = match Payload::decode(Kind::Heartbeat, payload) {
            Ok(Payload::Heartbeat(heartbeat)) => heartbeat,
            Ok(_) => return,
            Err(error) => {
                tracing::info!(worker = self.worker_name(), %error, "heartbeat refused");
                return;
            }
        };
        let now = self.now();
        self.tell_heartbeat(&heartbeat);
        let Some(desk) = &mut self.desk else { return };
        let metrics = &heartbeat.metrics;
        let listed = convert::listed_leases(metrics, desk.handle.shard());
        if let Some(listed) = &listed {
            desk.note_listed(listed);
        }
        let leases = listed.unwrap_or_else(|| desk.confirmed());
        let told = convert::told_resources(metrics);
        let facts = HeartbeatFacts {
            at: now,
            healthy: heartbeat.healthy,
            cpu_pct: metrics.cpu_pct,
            mem_pct: metrics.mem_pct,
            disk_pct: metrics.disk_pct,
            inflight: metrics.inflight,
            resources: told.as_ref().map(convert::kept_resources),
        };
        self.app.sessions.note_heartbeat(&desk.tenant, &desk.instance_id, facts);
        if let Some(told) = told {
            self.app.resources.note_heartbeat(&desk.tenant, &desk.worker, told, now);
        }
        let pressure = desk.pressure_changed(metrics);
        let is_leaving = convert::is_leaving(metrics);
        let leaving = (is_leaving != desk.is_leaving).then_some(is_leaving);
        desk.is_leaving = is_leaving;
        let beating = beat(desk.handle.clone(), desk.worker.clone(), leases);
        self.later(beating);
        if let Some(on) = pressure {
            tracing::warn!(worker = self.worker_name(), on, "memory or disk almost full: drained");
            self.set_drain(DrainCause::Pressure, on);
        }
        if let Some(on) = leaving {
            self.set_drain(DrainCause::Leaving, on);
        }
    }

    /// How long the way to the worker and back takes.
    pub(super) fn note_answer(&mut self) {
        let Some(pinged_at) = self.pinged_at.take() else { return };
        if let Some(desk) = &self.desk {
            desk.metrics.answered_after(pinged_at.elapsed());
        }
    }

    /// It shows that the process lives, which is all that a lease wants to know between two
    /// heartbeats.
    pub(super) fn on_sign_of_life(&mut self) {
        let Some(desk) = &self.desk else { return };
        let beating = beat(desk.handle.clone(), desk.worker.clone(), desk.confirmed());
        self.later(beating);
    }

    pub(super) fn on_refresh(&mut self, payload: &RawValue) {
        match gate::read_register(payload) {
            Ok(registered) => {
                if let Some(desk) = &mut self.desk {
                    desk.refresh(registered);
                }
            }
            Err(refusal) => {
                tracing::info!(worker = self.worker_name(), refusal.reason, "register refused");
            }
        }
    }
}
