//! How many tasks a second one core carries through both ends of a session: dispatch, its ack,
//! result, its ack, each written as JSON and read back.
//!
//! `cargo run --release -p protocol --example session_bench [seconds]`

use std::time::{Duration, Instant};

use model::Timestamp;
use protocol::session::envelope::{Envelope, Reader};
use protocol::session::event::{ServerEvent, WorkerEvent};
use protocol::session::frame::BusinessFrame;
use protocol::session::server_machine::{ServerMachine, ServerOptions};
use protocol::session::server_session::SessionAccept;
use protocol::session::worker_machine::{
    Connection, HEARTBEAT_INTERVAL, WorkerMachine, WorkerOptions,
};
use serde_json::value::RawValue;

const SECONDS_DEFAULT: u64 = 3;

const DISPATCH: &str = r#"{"run_id":"6f9f5e0e-0d5c-8b1e-a1c3-5d1d7b9f0c11","task_id":"6f9f5e0e-0d5c-8b1e-a1c3-5d1d7b9f0c12","node_id":"task","node_type":"core.echo","package_name":"core","package_version":"1.0.0","parameters":{"text":"hello, world"},"constraints":{"timeout_ms":30000}}"#;

const RESULT: &str = r#"{"run_id":"6f9f5e0e-0d5c-8b1e-a1c3-5d1d7b9f0c11","task_id":"6f9f5e0e-0d5c-8b1e-a1c3-5d1d7b9f0c12","status":"SUCCEEDED","result":{"text":"hello, world"},"duration_ms":3}"#;

fn main() {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let seconds = seconds.unwrap_or(SECONDS_DEFAULT);
    for wants_ack in [true, false] {
        let mut pair = Pair::open(wants_ack);
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(seconds) {
            (0..100).for_each(|_| pair.turn());
        }
        let elapsed = started.elapsed().as_secs_f64();
        let per_second = |count: u32| f64::from(count) / elapsed;
        let asked = if wants_ack { "acks that name each frame" } else { "acks that count frames" };
        println!(
            "{asked}: {:.0} tasks/s, {:.0} frames/s, {:.1} MB/s",
            per_second(pair.tasks),
            per_second(pair.frames),
            pair.megabytes / elapsed,
        );
    }
}

/// Both ends and the text between them.
struct Pair {
    now: Timestamp,
    server: ServerMachine,
    worker: WorkerMachine,
    connection: Connection,
    wire: String,
    reader_of_server: Reader,
    reader_of_worker: Reader,
    dispatch: Box<RawValue>,
    result: Box<RawValue>,
    wants_ack: bool,
    dispatched: u64,
    tasks: u32,
    frames: u32,
    megabytes: f64,
}

impl Pair {
    fn open(wants_ack: bool) -> Self {
        let now = Timestamp::from_millis(1_790_000_000_000);
        let mut worker = WorkerMachine::new(WorkerOptions {
            tenant: "default".to_owned(),
            instance_id: "8c1f3c1e-5a51-4f0e-9a55-0a3d0c3d8f10".to_owned(),
            handshake: raw("{}"),
            register: raw("{}"),
            window: 64,
            heartbeat_every: HEARTBEAT_INTERVAL,
            boot_id: None,
            seed: 1,
        });
        let options =
            ServerOptions { sender_id: "scheduler-control".to_owned(), window: 64, seed: 2 };
        let connection = worker.connected(now);
        let mut pair = Self {
            now,
            server: ServerMachine::new(options),
            worker,
            connection,
            wire: String::new(),
            reader_of_server: Reader::default(),
            reader_of_worker: Reader::default(),
            dispatch: raw(DISPATCH),
            result: raw(RESULT),
            wants_ack,
            dispatched: 0,
            tasks: 0,
            frames: 0,
            megabytes: 0.0,
        };
        while pair.exchange() {}
        pair
    }

    /// A window of tasks, there and back.
    fn turn(&mut self) {
        self.now = self.now.after(Duration::from_millis(1));
        for _ in 0..64 {
            let id = format!("6f9f5e0e-0d5c-8b1e-a1c3-{:012}", self.dispatched);
            self.dispatched += 1;
            let frame = self.business("biz.exec.dispatch", id, None, &self.dispatch);
            self.server.send(self.now, frame).expect("an open session");
        }
        while self.exchange() {}
    }

    fn business(
        &self,
        kind: &'static str,
        id: String,
        corr: Option<String>,
        payload: &RawValue,
    ) -> BusinessFrame {
        let wants_ack = self.wants_ack;
        let payload = payload.to_owned();
        BusinessFrame { kind: kind.into(), id, corr, seq: None, wants_ack, payload }
    }

    fn exchange(&mut self) -> bool {
        let mut is_busy = false;
        while let Some(frame) = self.server.poll_frame() {
            self.write(&frame);
            let frame = self.reader_of_worker.read_text(&self.wire).expect("a good frame");
            self.worker.receive(self.now, self.connection, frame);
            is_busy = true;
        }
        while let Some(event) = self.worker.poll_event() {
            if let WorkerEvent::Delivered { frame } = event {
                let id = format!("biz.exec.result-{}", self.tasks);
                let result = self.business("biz.exec.result", id, Some(frame.id), &self.result);
                self.worker.send(self.now, result).expect("an open session");
            }
        }
        while let Some(frame) = self.worker.poll_frame() {
            self.write(&frame);
            let frame = self.reader_of_server.read_text(&self.wire).expect("a good frame");
            self.server.receive(self.now, frame);
            is_busy = true;
        }
        while let Some(event) = self.server.poll_event() {
            self.on_server_event(event);
        }
        is_busy
    }

    fn write(&mut self, frame: &Envelope) {
        self.wire.clear();
        frame.write_to(&mut self.wire).expect("a small frame");
        self.frames += 1;
        self.megabytes += f64::from(u32::try_from(self.wire.len()).expect("a small frame")) / 1e6;
    }

    fn on_server_event(&mut self, event: ServerEvent) {
        match event {
            ServerEvent::Handshake { .. } => self.server.accept_handshake(self.now),
            ServerEvent::Register { .. } => self.server.accept(self.now, grant()),
            ServerEvent::Delivered { token, .. } => {
                self.tasks += 1;
                self.server.commit(self.now, token, None);
            }
            _ => {}
        }
    }
}

fn grant() -> SessionAccept {
    SessionAccept {
        session_id: "s".to_owned(),
        session_token: "t".to_owned(),
        worker_instance_id: "8c1f3c1e-5a51-4f0e-9a55-0a3d0c3d8f10".to_owned(),
        expires_at: None,
    }
}

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).expect("JSON")
}
