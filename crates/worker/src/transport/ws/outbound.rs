//! What goes out: heartbeats, feedback, reports and refusals, as far as the session has room.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::session::frame::BusinessFrame;
use protocol::session::kind::Payload;
use protocol::session::outgoing::SendError;
use protocol::session::payload::control::{Heartbeat, Metrics, ResourceMetrics, ToldResource};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio::time::Instant;

use super::session::Link;
use crate::core::executor::{CANCELLED, Outcome};
use crate::core::in_flight::{AttemptEvent, End, Entry, LeasedTask, Number, Phase};
use crate::core::load::Shares;
use crate::resources::{Registry, Totals};

impl Link {
    pub(super) fn on_attempt_event(&mut self, note: AttemptEvent) {
        match note {
            AttemptEvent::Said(number) => self.schedule(number),
            AttemptEvent::Read(chunk) => self.on_chunk(*chunk),
            AttemptEvent::Calls(number, calling) => self.on_call(number, calling),
            AttemptEvent::Ended(number, outcome) => {
                match self.in_flight.end(number, outcome) {
                    Some(entry) => self.on_stopped(&entry),
                    None => self.schedule(number),
                }
                self.end_calls(number);
            }
        }
    }

    /// Work that was told to stop has stopped.
    fn on_stopped(&mut self, entry: &Entry) {
        if let Phase::Stopping { is_given_back: true } = entry.phase {
            let why = "the worker leaves and stopped the work";
            self.refuse(&entry.leased, CANCELLED, why);
        }
    }

    fn schedule(&mut self, number: Number) {
        let Some(entry) = self.in_flight.get(number) else { return };
        let now = Instant::now();
        match (entry.feedback.due_at(now), &entry.phase) {
            (Some(due), _) => {
                self.speaking.insert(number, due);
            }
            // There is nothing left to say but how it ended.
            (None, Phase::Ended { .. }) => {
                self.speaking.insert(number, now);
            }
            (
                None,
                Phase::Queued(_)
                | Phase::Running
                | Phase::Calling { .. }
                | Phase::Returning
                | Phase::Stopping { .. },
            ) => {
                self.speaking.remove(&number);
            }
        }
    }

    pub(super) fn next_speech(&self) -> Option<Instant> {
        self.speaking.values().min().copied()
    }

    /// Gives the machine what it has room for. What it has not waits here or with its attempt.
    pub(super) fn speak(&mut self) {
        while !self.machine.is_full()
            && let Some(frame) = self.backlog.pop_front()
        {
            self.give(frame);
        }
        let now = Instant::now();
        loop {
            let is_due = |(_, due): &(&Number, &Instant)| **due <= now;
            let due: Vec<Number> = self.speaking.iter().filter(is_due).map(|(n, _)| *n).collect();
            // A batch each, so that one who talks much does not drown the others.
            for number in &due {
                if self.machine.is_full() || !self.backlog.is_empty() {
                    return;
                }
                self.speak_for(*number, now);
            }
            if due.is_empty() {
                return self.speak_of_resources();
            }
        }
    }

    fn speak_for(&mut self, number: Number, now: Instant) {
        let Some(entry) = self.in_flight.get(number) else {
            self.speaking.remove(&number);
            return;
        };
        if let Some(batch) = entry.feedback.take(now) {
            let frame = self.namer.feedback(&entry.leased, batch);
            self.give(frame);
            return self.schedule(number);
        }
        self.speaking.remove(&number);
        if matches!(entry.phase, Phase::Ended { .. })
            && let Some(Entry { leased, phase: Phase::Ended { outcome, duration }, .. }) =
                self.in_flight.remove(number)
        {
            self.report(&leased, outcome, duration);
        }
    }

    /// Says how a task ended: once for each lease.
    pub(super) fn report(&mut self, leased: &LeasedTask, outcome: Outcome, duration: Duration) {
        self.metrics.task_took(&leased.node_type, duration);
        let frame = self.namer.result(leased, outcome, duration);
        self.unconfirmed.insert(frame.id.clone(), leased.lease_id.clone());
        self.in_flight.history.add(&leased.lease_id, End::Reported);
        self.post(frame);
    }

    /// Says that a task is not done here. What was refused is not remembered: the server may
    /// offer it again when there is room.
    pub(super) fn refuse(&mut self, leased: &LeasedTask, code: &str, why: &str) {
        tracing::warn!(
            "type" = "biz.exec.error",
            corr = leased.lease_id,
            code,
            seq = leased.seq,
            why,
            "a dispatch is not done here"
        );
        let frame = self.namer.error(leased, code, why);
        self.unconfirmed_refusals.insert(frame.id.clone());
        self.post(frame);
    }

    pub(super) fn post(&mut self, frame: BusinessFrame) {
        if self.backlog.is_empty() && !self.machine.is_full() {
            self.give(frame);
        } else {
            self.backlog.push_back(frame);
        }
    }

    fn give(&mut self, frame: BusinessFrame) {
        let id = frame.id.clone();
        match self.machine.send(self.clock.now(), frame) {
            Ok(()) => {}
            // Room is looked for and sizes are kept to before; the session ends with the process.
            Err(error @ (SendError::Full | SendError::TooLarge { .. } | SendError::NoSession)) => {
                tracing::error!(%error, id, "a frame is not sent");
            }
        }
    }

    /// Says that the worker lives, and how.
    pub(super) fn beat(&mut self) {
        let shares = self.load.measure();
        let health = WorkerHealth {
            shares,
            inflight: self.in_flight.n_running(),
            pending_acks: self.unconfirmed.len(),
            is_draining: self.is_draining(),
        };
        let leases = self.in_flight.leases().chain(self.unconfirmed.values().map(String::as_str));
        let payload = payload(&health, leases, &self.resources);
        self.machine.heartbeat(self.clock.now(), payload);
        self.metrics.heartbeat_sent.inc();
        if health.is_draining || shares.is_degraded() {
            self.metrics.heartbeat_degraded.inc();
        }
    }
}

/// The most leases that one heartbeat names.
const LEASES_MAX: usize = 4096;
/// The most resources that one heartbeat names.
const RESOURCES_TOLD_MAX: usize = 256;
/// What is known about a resource travels with heartbeats, if it is no larger than this.
const METADATA_TOLD_BYTES_MAX: usize = 1024;

/// How the worker fares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkerHealth {
    pub(crate) shares: Shares,
    pub(crate) inflight: usize,
    pub(crate) pending_acks: usize,
    pub(crate) is_draining: bool,
}

/// The payload of a heartbeat.
pub(crate) fn payload<'a>(
    health: &WorkerHealth,
    leases: impl Iterator<Item = &'a str>,
    resources: &Registry,
) -> Box<RawValue> {
    let leases: Vec<&str> = leases.take(LEASES_MAX).collect();
    let others = BTreeMap::from([
        ("draining".to_owned(), raw(&health.is_draining)),
        ("leases".to_owned(), raw(&leases)),
        ("pending_acks".to_owned(), raw(&health.pending_acks)),
        ("resources".to_owned(), raw(&kept(resources))),
    ]);
    let metrics = Metrics {
        inflight: health.inflight as u64,
        cpu_pct: health.shares.cpu,
        mem_pct: health.shares.mem,
        disk_pct: health.shares.disk,
        latency_ms: None,
        others,
    };
    // A machine that is short of something tells so in its measures; what follows from that is
    // the server's to decide.
    let healthy = !health.is_draining;
    Payload::Heartbeat(Heartbeat { healthy, metrics, packages: None }).encode().1
}

fn kept(registry: &Registry) -> ResourceMetrics {
    let Totals { count, disk_bytes, in_use } = registry.totals();
    let mut latest = registry.list();
    latest.sort_by(|a, b| b.used_at.cmp(&a.used_at).then_with(|| a.id.cmp(&b.id)));
    let told = latest.into_iter().take(RESOURCES_TOLD_MAX).map(|one| ToldResource {
        size_bytes: one.bytes,
        resource_id: one.id,
        resource_type: one.resource_type,
        scope: one.scope,
        created_at: Some(one.created_at.to_string()),
        expires_at: Some(one.expires_at.to_string()),
        metadata: one.metadata.filter(|text| text.get().len() <= METADATA_TOLD_BYTES_MAX),
    });
    ResourceMetrics {
        count: count as u64,
        bytes: disk_bytes,
        disk_bytes,
        mem_bytes: 0,
        in_use: in_use as u64,
        list: told.collect(),
    }
}

fn raw<T: Serialize>(value: &T) -> Box<RawValue> {
    to_raw_value(value).expect("plain values become JSON")
}
