//! The wire between both ends, and the blows that it takes.

use std::sync::Arc;
use std::time::Duration;

use protocol::session::envelope::Envelope;
use protocol::session::kind::Kind;
use protocol::session::payload::control::Drain;
use protocol::session::server_machine::ServerMachine;
use protocol::session::state::State;

use super::faults::Blow;
use super::{World, business, new_worker};

/// How long the worker hears of a connection that the server's side has left.
const LINGER: Duration = Duration::from_millis(20);

/// A frame on its way.
pub(super) struct InFlight {
    pub(super) connection: usize,
    pub(super) to_server: bool,
    pub(super) frame: Arc<Envelope>,
}

impl World {
    pub(super) fn transmit(&mut self) -> bool {
        let mut out: Vec<InFlight> = Vec::new();
        while let Some(frame) = self.worker.poll_frame() {
            if let Some((_, connection)) = self.link {
                out.push(InFlight { connection, to_server: true, frame });
            }
        }
        for (&connection, server) in &mut self.servers {
            while let Some(frame) = server.poll_frame() {
                out.push(InFlight { connection, to_server: false, frame });
            }
        }
        let is_busy = !out.is_empty();
        for flight in out {
            self.launch(flight);
        }
        is_busy
    }

    pub(super) fn arrive(&mut self, flight: InFlight) {
        let InFlight { connection, to_server, frame } = flight;
        let frame = Envelope::clone(&frame);
        self.note_ack(connection, to_server, &frame);
        if to_server {
            if let Some(server) = self.servers.get_mut(&connection) {
                server.receive(self.now, frame);
            }
        } else {
            // A process that came back does not own the connections of the one before.
            let Some(connection) = self.links[connection] else { return };
            self.worker.receive(self.now, connection, frame);
        }
    }

    /// Notes what an ack tells an end that is open; others do not listen.
    fn note_ack(&mut self, connection: usize, to_server: bool, frame: &Envelope) {
        let state = if to_server {
            self.servers.get(&connection).map(ServerMachine::state)
        } else {
            let is_own = self.link.is_some_and(|(_, number)| number == connection);
            is_own.then(|| self.worker.state())
        };
        let is_open = matches!(state, Some(State::Ready | State::Draining));
        if is_open && Kind::from_name(&frame.kind) == Some(Kind::Ack) {
            self.counts.held += self.cost.on_ack((connection, !to_server), self.now, frame);
        }
    }

    fn launch(&mut self, flight: InFlight) {
        self.counts.frames += 1;
        self.cost.on_sent((flight.connection, flight.to_server), self.now, &flight.frame);
        let heals_at = self.faults.heals_at_ms.saturating_add(1_000_000);
        let is_healed = self.now.as_millis() >= heals_at;
        let chance = |percent: u64| if is_healed { 0 } else { percent };
        let (loss, duplicate) =
            (chance(self.faults.loss_percent), chance(self.faults.duplicate_percent));
        if self.roll(100) < duplicate {
            let key = self.after(self.faults.delay_ms_max);
            let frame = Arc::clone(&flight.frame);
            self.wire.insert(key, InFlight { frame, ..flight });
        }
        if self.roll(100) >= loss {
            let key = self.after(self.faults.delay_ms_max);
            self.wire.insert(key, flight);
        }
        if let Some(blow) = self.faults.blows.remove(&self.counts.frames) {
            self.strike(blow);
        }
    }

    fn strike(&mut self, blow: Blow) {
        if blow == Blow::Drain {
            return self.drain();
        }
        let Some((connection, number)) = self.link.take() else { return };
        match blow {
            Blow::Cut => self.cut(number),
            Blow::Takeover | Blow::Drain => {}
            Blow::ServerCut => {
                self.cut_server(number);
                self.leaving = Some((self.now.after(LINGER), connection));
                return;
            }
            Blow::ServerRestart => self.restart_server(),
            Blow::WorkerRestart => return self.restart_worker(),
        }
        self.worker.disconnected(self.now, connection);
    }

    fn drain(&mut self) {
        let drain = Drain { reason: None, deadline_ms: None };
        for server in self.servers.values_mut() {
            server.drain(self.now, &drain);
        }
        self.undrain_at = Some(self.now.after(LINGER));
    }

    pub(super) fn undrain(&mut self) {
        if self.undrain_at.take_if(|at| *at <= self.now).is_some() {
            self.servers.values_mut().for_each(ServerMachine::undrain);
        }
    }

    /// The worker notices that the server's side has left.
    pub(super) fn leave(&mut self) {
        if let Some((_, connection)) = self.leaving.take_if(|(at, _)| *at <= self.now) {
            self.worker.disconnected(self.now, connection);
        }
    }

    pub(super) fn cut(&mut self, number: usize) {
        self.wire.retain(|_, flight| flight.connection != number);
        self.cut_server(number);
    }

    fn cut_server(&mut self, number: usize) {
        self.wire.retain(|_, flight| flight.connection != number || !flight.to_server);
        self.hear_server(number);
        if let Some(mut server) = self.servers.remove(&number)
            && let Some(session) = server.take_session()
        {
            self.parked = Some(session);
        }
    }

    fn restart_server(&mut self) {
        self.wire.clear();
        self.servers.clear();
        self.parked = None;
        self.commits.clear();
        self.token_ids.clear();
        for ledger in self.up.values_mut() {
            ledger.may_rewind = true;
        }
        // What the coordinator knows to be undelivered it offers again.
        let ids = (0..self.faults.frames).map(|n| format!("down-{n}"));
        let open = ids.filter(|id| !self.received.contains(id) && !self.voided.contains(id));
        self.down_waiting = open.map(business).collect();
    }

    fn restart_worker(&mut self) {
        self.wire.retain(|_, flight| flight.to_server);
        self.links.iter_mut().for_each(|link| *link = None);
        self.leaving = None;
        self.worker = new_worker(self.roll(u64::MAX), self.faults.window);
        self.up_pending.clear();
        self.up_acked.clear();
        // What was not durable is done again, by whoever gets the task.
        let ids = (0..self.faults.frames).map(|n| format!("up-{n}"));
        self.up_waiting = ids.filter(|id| !self.durable.contains(id)).map(business).collect();
        self.connect();
    }
}
