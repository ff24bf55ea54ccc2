//! Both ends side by side; the test is the wire.

use std::sync::Arc;
use std::time::Duration;

use model::Timestamp;
use protocol::session::envelope::Envelope;
use protocol::session::event::{CommitToken, ServerEvent, WorkerEvent};
use protocol::session::frame::BusinessFrame;
use protocol::session::server_machine::{ServerMachine, ServerOptions};
use protocol::session::server_session::SessionAccept;
use protocol::session::state::State;
use protocol::session::worker_machine::{Connection, WorkerMachine, WorkerOptions};
use serde_json::value::RawValue;

pub(crate) type Frames = Vec<Arc<Envelope>>;

pub(crate) fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).expect("JSON")
}

pub(crate) fn business(id: &str) -> BusinessFrame {
    BusinessFrame {
        kind: "biz.test".into(),
        id: id.to_owned(),
        corr: None,
        seq: None,
        wants_ack: true,
        payload: raw("{}"),
    }
}

pub(crate) fn server_machine(window: u64) -> ServerMachine {
    ServerMachine::new(ServerOptions { sender_id: "scheduler-control".to_owned(), window, seed: 2 })
}

pub(crate) fn worker_machine(window: u64) -> WorkerMachine {
    WorkerMachine::new(WorkerOptions {
        tenant: "t".to_owned(),
        instance_id: "w".to_owned(),
        handshake: raw("{}"),
        register: raw("{}"),
        window,
        heartbeat_every: Duration::from_secs(10),
        boot_id: Some("b-7".to_owned()),
        seed: 1,
    })
}

pub(crate) fn grant(session_id: &str) -> SessionAccept {
    SessionAccept {
        session_id: session_id.to_owned(),
        session_token: "token".to_owned(),
        worker_instance_id: "w".to_owned(),
        expires_at: None,
    }
}

/// What the layer above the server was given.
#[derive(Default)]
pub(crate) struct Given {
    pub(crate) ids: Vec<String>,
    pub(crate) tokens: Vec<CommitToken>,
    pub(crate) acked: Vec<String>,
    pub(crate) others: Vec<ServerEvent>,
}

/// A worker and a server with an open session.
pub(crate) struct Both {
    pub(crate) now: Timestamp,
    pub(crate) server: ServerMachine,
    pub(crate) worker: WorkerMachine,
    pub(crate) connection: Connection,
}

impl Both {
    pub(crate) fn open(window: u64) -> Self {
        let now = Timestamp::from_millis(1_000_000);
        let mut worker = worker_machine(window);
        let connection = worker.connected(now);
        let mut both = Self { now, server: server_machine(window), worker, connection };
        both.handshake();
        both
    }

    /// Lets the worker in over the connection that it has, whether anew or by a resume.
    pub(crate) fn handshake(&mut self) {
        for _ in 0..3 {
            let frames = self.drain_worker();
            self.give_server(frames);
            while let Some(event) = self.server.poll_event() {
                match event {
                    ServerEvent::Handshake { .. } => self.server.accept_handshake(self.now),
                    ServerEvent::Register { .. } => self.server.accept(self.now, grant("s")),
                    other => panic!("{other:?}"),
                }
            }
            let frames = self.drain_server();
            self.give_worker(frames);
        }
        assert_eq!((self.server.state(), self.worker.state()), (State::Ready, State::Ready));
        self.worker_ids();
    }

    pub(crate) fn later(&mut self, duration: Duration) {
        self.now = self.now.after(duration);
        self.server.tick(self.now);
        self.worker.tick(self.now);
    }

    pub(crate) fn drain_server(&mut self) -> Frames {
        std::iter::from_fn(|| self.server.poll_frame()).collect()
    }

    pub(crate) fn drain_worker(&mut self) -> Frames {
        std::iter::from_fn(|| self.worker.poll_frame()).collect()
    }

    pub(crate) fn give_server(&mut self, frames: impl IntoIterator<Item = Arc<Envelope>>) {
        for frame in frames {
            self.server.receive(self.now, Envelope::clone(&frame));
            self.server.check_invariants();
        }
    }

    pub(crate) fn give_worker(&mut self, frames: impl IntoIterator<Item = Arc<Envelope>>) {
        for frame in frames {
            self.worker.receive(self.now, self.connection, Envelope::clone(&frame));
            self.worker.check_invariants();
        }
    }

    /// The worker sends frames with these ids; they are given as they leave.
    pub(crate) fn worker_sends(&mut self, ids: &[&str]) -> Frames {
        for id in ids {
            self.worker.send(self.now, business(id)).expect("room");
        }
        business_of(self.drain_worker())
    }

    pub(crate) fn server_sends(&mut self, ids: &[&str]) -> Frames {
        for id in ids {
            self.server.send(self.now, business(id)).expect("room");
        }
        business_of(self.drain_server())
    }

    /// What the worker was given, by id.
    pub(crate) fn worker_ids(&mut self) -> Vec<String> {
        let events = std::iter::from_fn(|| self.worker.poll_event());
        events
            .filter_map(|event| match event {
                WorkerEvent::Delivered { frame } => Some(frame.id),
                _ => None,
            })
            .collect()
    }

    /// What the worker knows to be done with, by id.
    pub(crate) fn worker_acked(&mut self) -> Vec<String> {
        let events = std::iter::from_fn(|| self.worker.poll_event());
        events
            .filter_map(|event| match event {
                WorkerEvent::Acked { id } => Some(id),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn given(&mut self) -> Given {
        given(&mut self.server)
    }

    pub(crate) fn commit(&mut self, tokens: Vec<CommitToken>) {
        for token in tokens {
            self.server.commit(self.now, token, None);
        }
    }
}

pub(crate) fn given(server: &mut ServerMachine) -> Given {
    let mut given = Given::default();
    while let Some(event) = server.poll_event() {
        match event {
            ServerEvent::Delivered { token, frame } => {
                given.ids.push(frame.id);
                given.tokens.push(token);
            }
            ServerEvent::Acked { id } => given.acked.push(id),
            other => given.others.push(other),
        }
    }
    given
}

pub(crate) fn business_of(frames: Frames) -> Frames {
    frames.into_iter().filter(|frame| !frame.kind.starts_with("control.")).collect()
}

/// The payloads of the acks among these frames.
pub(crate) fn acks_of(frames: &Frames) -> Vec<serde_json::Value> {
    let acks = frames.iter().filter(|frame| frame.kind == "control.ack" || frame.kind == "ack");
    acks.map(|frame| serde_json::from_str(frame.payload.get()).expect("JSON")).collect()
}
