//! What goes out: heartbeats, feedback, reports and refusals, as far as the session has room.

use std::time::Duration;

use protocol::session::frame::BusinessFrame;
use protocol::session::outgoing::SendError;
use tokio::time::Instant;

use super::Link;
use crate::executor::{CANCELLED, Outcome};
use crate::session::attempt::{Note, Number};
use crate::session::desk::{Entry, Errand, Phase};
use crate::session::heartbeat::{self, Pulse};
use crate::session::history::End;

impl Link {
    pub(super) fn on_note(&mut self, note: Note) {
        match note {
            Note::Said(number) => self.schedule(number),
            Note::Read(chunk) => self.on_chunk(*chunk),
            Note::Calls(number, calling) => self.on_call(number, calling),
            Note::Ended(number, outcome) => {
                match self.parts.desk.end(number, outcome) {
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
            self.refuse(&entry.errand, CANCELLED, why);
        }
    }

    fn schedule(&mut self, number: Number) {
        let Some(entry) = self.parts.desk.get(number) else { return };
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
        while !self.parts.machine.is_full()
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
                if self.parts.machine.is_full() || !self.backlog.is_empty() {
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
        let Some(entry) = self.parts.desk.get(number) else {
            self.speaking.remove(&number);
            return;
        };
        if let Some(batch) = entry.feedback.take(now) {
            let frame = self.namer.feedback(&entry.errand, batch);
            self.give(frame);
            return self.schedule(number);
        }
        self.speaking.remove(&number);
        if matches!(entry.phase, Phase::Ended { .. })
            && let Some(Entry { errand, phase: Phase::Ended { outcome, duration }, .. }) =
                self.parts.desk.remove(number)
        {
            self.report(&errand, outcome, duration);
        }
    }

    /// Says how an errand ended: once for each lease.
    pub(super) fn report(&mut self, errand: &Errand, outcome: Outcome, duration: Duration) {
        self.parts.metrics.task_took(&errand.node_type, duration);
        let frame = self.namer.result(errand, outcome, duration);
        self.unconfirmed.insert(frame.id.clone(), errand.lease_id.clone());
        self.parts.desk.history.add(&errand.lease_id, End::Reported);
        self.post(frame);
    }

    /// Says that an errand is not done here. What was refused is not remembered: the server may
    /// offer it again when there is room.
    pub(super) fn refuse(&mut self, errand: &Errand, code: &str, why: &str) {
        tracing::warn!(
            "type" = "biz.exec.error",
            corr = errand.lease_id,
            code,
            seq = errand.seq,
            why,
            "a dispatch is not done here"
        );
        let frame = self.namer.error(errand, code, why);
        self.unconfirmed_refusals.insert(frame.id.clone());
        self.post(frame);
    }

    pub(super) fn post(&mut self, frame: BusinessFrame) {
        if self.backlog.is_empty() && !self.parts.machine.is_full() {
            self.give(frame);
        } else {
            self.backlog.push_back(frame);
        }
    }

    fn give(&mut self, frame: BusinessFrame) {
        let id = frame.id.clone();
        match self.parts.machine.send(self.clock.now(), frame) {
            Ok(()) => {}
            // Room is looked for and sizes are kept to before; the session ends with the process.
            Err(error @ (SendError::Full | SendError::TooLarge { .. } | SendError::NoSession)) => {
                tracing::error!(%error, id, "a frame is not sent");
            }
        }
    }

    /// Says that the worker lives, and how.
    pub(super) fn beat(&mut self) {
        let shares = self.parts.load.measure();
        let pulse = Pulse {
            shares,
            inflight: self.parts.desk.n_running(),
            pending_acks: self.unconfirmed.len(),
            is_draining: self.is_draining(),
        };
        let leases = self.parts.desk.leases().chain(self.unconfirmed.values().map(String::as_str));
        let payload = heartbeat::payload(&pulse, leases, &self.parts.resources);
        self.parts.machine.heartbeat(self.clock.now(), payload);
        self.parts.metrics.heartbeat_sent.inc();
        if pulse.is_draining || shares.is_degraded() {
            self.parts.metrics.heartbeat_degraded.inc();
        }
    }
}
