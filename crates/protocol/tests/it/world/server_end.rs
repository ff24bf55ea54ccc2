//! The layer above the server's machines, and the judge of what it is given.

use std::time::Duration;

use protocol::error_code::ErrorCode;
use protocol::session::event::{CommitToken, ServerEvent};
use protocol::session::frame::BusinessFrame;
use protocol::session::payload::control::Resume;
use protocol::session::server_machine::ServerMachine;
use protocol::session::server_session::{Session, SessionAccept};
use protocol::session::token::Bearer;

use super::{Ledger, World};

impl World {
    /// Durable first, then told.
    pub(super) fn commit(&mut self, tie: u64, token: CommitToken) {
        let id = self.token_ids.remove(&tie).expect("known");
        self.durable.insert(id.clone());
        let session_id = Some(token.session_id().to_owned());
        let carrier =
            self.servers.values_mut().find(|server| server.session_id() == session_id.as_deref());
        let answer = Some(format!("COMMITTED {id}"));
        if let Some(server) = carrier {
            server.commit(self.now, token, answer);
        } else if let Some(session) = &mut self.parked {
            session.commit(&token, answer);
        }
    }

    fn judge_up(&mut self, session: &str, id: &str) {
        let ledger = self.up.get_mut(session).expect("known");
        if std::mem::take(&mut ledger.may_rewind) {
            let position = ledger.sent.iter().position(|sent| sent == id).expect("it was sent");
            assert!(
                position <= ledger.delivered,
                "{id} came after a restart, others were left out"
            );
            let skipped = &ledger.sent[..position];
            assert!(skipped.iter().all(|id| self.durable.contains(id)), "a frame was left out");
            ledger.delivered = position;
        }
        assert_eq!(
            ledger.sent.get(ledger.delivered).map(String::as_str),
            Some(id),
            "in order, once"
        );
        ledger.delivered += 1;
    }

    pub(super) fn hear_servers(&mut self) -> bool {
        let numbers: Vec<usize> = self.servers.keys().copied().collect();
        let n_busy = numbers.into_iter().filter(|number| self.hear_server(*number)).count();
        n_busy > 0
    }

    pub(super) fn hear_server(&mut self, number: usize) -> bool {
        let mut is_busy = false;
        while let Some(event) = self.servers.get_mut(&number).and_then(ServerMachine::poll_event) {
            is_busy = true;
            self.on_server_event(number, event);
        }
        is_busy
    }

    fn on_server_event(&mut self, number: usize, event: ServerEvent) {
        let now = self.now;
        match event {
            ServerEvent::Handshake { .. } => self.server(number).accept_handshake(now),
            ServerEvent::Register { is_first: true, .. } => self.open_session(number),
            ServerEvent::Resume { payload, .. } => self.resume_session(number, &payload),
            ServerEvent::Delivered { token, frame } => {
                self.judge_up(token.session_id(), &frame.id);
                let key = self.after(self.faults.commit_delay_ms_max);
                let key = (key.0, self.roll(u64::MAX));
                self.token_ids.insert(key.1, frame.id);
                self.commits.insert(key, token);
            }
            ServerEvent::Acked { id } => {
                let is_known = self.received.contains(&id) || self.voided.contains(&id);
                assert!(is_known, "{id} is confirmed, but never came");
                let session = self.server(number).session_id().map(str::to_owned);
                if let Some(ledger) = session.and_then(|id| self.down.get_mut(&id)) {
                    ledger.acked.insert(id);
                }
            }
            ServerEvent::GaveUp { .. } => self.counts.gave_up += 1,
            ServerEvent::SessionEnded { session_id, unconfirmed, .. } => {
                self.sessions_known.remove(&session_id);
                self.offer_again(&session_id, unconfirmed);
            }
            ServerEvent::Register { is_first: false, .. } | ServerEvent::Heartbeat { .. } => {}
        }
    }

    /// Whatever was sent and not confirmed comes back, in order.
    fn offer_again(&mut self, session: &str, unconfirmed: Vec<BusinessFrame>) {
        let ledger = &self.down[session];
        let is_open = |id: &&String| !ledger.acked.contains(*id) && !self.voided.contains(*id);
        let sent: Vec<&String> = ledger.sent.iter().filter(is_open).collect();
        let back: Vec<&String> = unconfirmed.iter().map(|frame| &frame.id).collect();
        assert_eq!(back, sent, "what was not confirmed comes back");
        let open = unconfirmed.into_iter().filter(|frame| !self.voided.contains(&frame.id));
        let open: Vec<_> = open.collect();
        open.into_iter().rev().for_each(|frame| self.down_waiting.push_front(frame));
    }

    fn server(&mut self, number: usize) -> &mut ServerMachine {
        self.servers.get_mut(&number).expect("known")
    }

    fn grant(&mut self, session_id: &str) -> SessionAccept {
        let bearer = Bearer { session_id, worker_instance_id: "w", tenant: "t" };
        let expires_at = self.now.after(Duration::from_hours(1));
        SessionAccept {
            session_id: session_id.to_owned(),
            session_token: self.keys.issue(bearer, self.now, expires_at),
            worker_instance_id: "w".to_owned(),
            expires_at: Some(expires_at),
        }
    }

    /// The session leaves every connection but this one; those stay, for frames still on the way.
    fn unbind(&mut self, number: usize) -> Option<Session> {
        let others: Vec<usize> = self.servers.keys().copied().filter(|n| *n != number).collect();
        // What they have to say may open a session too, so it comes before any is taken.
        for other in &others {
            self.hear_server(*other);
        }
        let mut found = self.parked.take();
        for other in others {
            let server = self.server(other);
            // A connection that has no session yet may be the worker's next.
            if let Some(session) = server.take_session() {
                found = Some(session);
                server.close();
            }
        }
        self.server(number).take_session().or(found)
    }

    fn open_session(&mut self, number: usize) {
        if let Some(old) = self.unbind(number) {
            self.sessions_known.remove(old.id());
            let session_id = old.id().to_owned();
            self.offer_again(&session_id, old.into_unconfirmed());
        }
        let session_id = format!("s{:04}", self.counts.sessions);
        self.counts.sessions += 1;
        let grant = self.grant(&session_id);
        self.down.insert(session_id.clone(), Ledger::default());
        self.sessions_known.insert(session_id);
        let now = self.now;
        self.server(number).accept(now, grant);
    }

    fn resume_session(&mut self, number: usize, asked: &Resume) {
        let id = asked.session_id.as_str();
        let bearer = Bearer { session_id: id, worker_instance_id: "w", tenant: "t" };
        self.keys.verify(&asked.session_token, bearer, self.now).expect("a good token");
        let found = self.unbind(number);
        let now = self.now;
        // A worker has one session: one that a later session replaced is as unknown as any other.
        let is_replaced = found.as_ref().is_some_and(|session| session.id() != id);
        if is_replaced || !self.sessions_known.contains(id) {
            self.parked = found;
            return self.server(number).refuse(
                now,
                ErrorCode::SessionUnknown,
                "no session with this id",
                None,
            );
        }
        let session = found.unwrap_or_else(|| {
            let ledger = self.down.get_mut(id).expect("known");
            ledger.sent.truncate(ledger.delivered);
            ledger.acked.extend(ledger.sent.iter().cloned());
            Session::restored(id, self.faults.window)
        });
        assert_eq!(session.id(), id);
        let grant = self.grant(id);
        self.server(number).resume(now, session, grant);
    }
}
