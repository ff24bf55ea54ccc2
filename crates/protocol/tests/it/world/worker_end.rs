//! The layer above the worker's machine, and the judge of what it is given.

use protocol::session::event::WorkerEvent;
use protocol::session::frame::BusinessFrame;
use serde_json::value::RawValue;

use super::{Ledger, World};

impl World {
    pub(super) fn hear_worker(&mut self) -> bool {
        let mut is_busy = false;
        while let Some(event) = self.worker.poll_event() {
            is_busy = true;
            self.on_worker_event(event);
        }
        is_busy
    }

    fn on_worker_event(&mut self, event: WorkerEvent) {
        match event {
            WorkerEvent::ConnectDue => self.connect(),
            WorkerEvent::Disconnect { connection, .. } => {
                if let Some((_, number)) = self.link.take_if(|(link, _)| *link == connection) {
                    self.cut(number);
                }
            }
            WorkerEvent::Ready { is_resumed } => {
                let session = self.worker.session_id().expect("a session").to_owned();
                if is_resumed {
                    self.counts.resumes += 1;
                } else {
                    let sent = self.up_pending.clone();
                    self.up.insert(session, Ledger { sent, ..Ledger::default() });
                }
            }
            WorkerEvent::HeartbeatDue => {
                let payload = RawValue::from_string("{}".to_owned()).expect("JSON");
                self.worker.heartbeat(self.now, payload);
            }
            WorkerEvent::Delivered { frame } => self.judge_down(frame.id),
            WorkerEvent::Acked { id } => {
                assert!(self.durable.contains(&id), "{id} is confirmed, but not durable");
                assert!(self.up_acked.insert(id), "confirmed once");
            }
            WorkerEvent::Answered { id, info } => {
                assert!(self.durable.contains(&id), "{id} is answered, but not durable");
                assert_eq!(info, Some(format!("COMMITTED {id}")), "the answer is kept");
            }
            WorkerEvent::GaveUp { .. } => self.counts.gave_up += 1,
            WorkerEvent::SessionLost { unconfirmed, .. } => {
                self.counts.resets += 1;
                self.take_back(unconfirmed);
            }
            WorkerEvent::Drain { .. } => self.counts.drains += 1,
        }
    }

    fn judge_down(&mut self, id: String) {
        let ledger =
            self.down.get_mut(self.worker.session_id().expect("a session")).expect("known");
        while ledger.sent[ledger.delivered] != id {
            let skipped = &ledger.sent[ledger.delivered];
            assert!(self.voided.contains(skipped), "{id} came, {skipped} was left out");
            ledger.delivered += 1;
        }
        ledger.delivered += 1;
        self.received.insert(id);
    }

    /// Whatever was sent and not confirmed comes back, in order.
    fn take_back(&mut self, unconfirmed: Vec<BusinessFrame>) {
        let sent = std::mem::take(&mut self.up_pending);
        let acked = std::mem::take(&mut self.up_acked);
        let open: Vec<String> = sent.into_iter().filter(|id| !acked.contains(id)).collect();
        let back: Vec<String> = unconfirmed.iter().map(|frame| frame.id.clone()).collect();
        assert_eq!(back, open, "what was not confirmed comes back");
        unconfirmed.into_iter().rev().for_each(|frame| self.up_waiting.push_front(frame));
    }
}
