//! A server of one worker: the protocol's own machine behind a real socket, doing what a test
//! tells it to.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use protocol::error_code::ErrorCode;
use protocol::session::envelope::Envelope;
use protocol::session::event::{CommitToken, ServerEvent};
use protocol::session::frame::BusinessFrame;
use protocol::session::payload::control::Drain;
use protocol::session::server_machine::{ServerMachine, ServerOptions};
use protocol::session::server_session::{Session, SessionAccept};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{sleep_until, timeout};
use tokio_websockets::{Message, ServerBuilder, WebSocketStream};

use crate::core::clock::Clock;
use crate::core::executor::{Executor, Toolbox};
use crate::core::identity::Identity;
use crate::runner::command::{self, CommandRunner};
use crate::transport::ws::worker::{Options, RunningWorker};

/// Nothing in these tests takes so long.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// What a worker did.
#[derive(Debug)]
pub(super) enum Seen {
    /// It opened a session, or went on with one.
    Session { is_resumed: bool },
    /// It says what it can do.
    Register(Value),
    /// It lives.
    Heartbeat(Value),
    /// It sent a business frame.
    Frame(Sent),
    /// Its connection is gone.
    Gone,
}

/// A business frame.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) kind: String,
    pub(super) corr: String,
    pub(super) seq: Option<u64>,
    pub(super) payload: Value,
}

/// What a test wants of the server.
#[derive(Debug)]
pub(super) enum Wish {
    /// Sends a business frame.
    Send(BusinessFrame),
    /// Cuts the connection, without a word.
    Cut,
    /// Cuts the connection and forgets the session.
    Forget,
    /// Asks the worker to finish.
    Drain(Drain),
    /// Confirms nothing any more, or everything again.
    Hold(bool),
    /// Neither reads nor writes any more.
    Freeze,
}

/// The server, and the worker that it serves.
pub(super) struct Scene {
    pub(super) worker: RunningWorker,
    pub(super) seen: mpsc::UnboundedReceiver<Seen>,
    wishes: mpsc::UnboundedSender<Wish>,
    /// What the worker keeps; dropped after it.
    _data: TempDir,
}

impl Scene {
    /// A worker with builtin types and commands, and a session.
    pub(super) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(super) async fn start_with(change: impl FnOnce(&mut Options)) -> Self {
        let commands =
            command::Options { grace: Duration::from_millis(300), ..command::Options::default() };
        let toolbox = Toolbox::usual(CommandRunner::new(commands));
        let mut scene = Self::unconnected(Arc::new(toolbox), change).await;
        scene.until_session().await;
        scene
    }

    pub(super) async fn unconnected(
        executor: Arc<dyn Executor>,
        change: impl FnOnce(&mut Options),
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("bound");
        let (seen_sender, seen) = mpsc::unbounded_channel();
        let (wishes, wishes_receiver) = mpsc::unbounded_channel();
        tokio::spawn(serve(listener, seen_sender, wishes_receiver));
        let address = format!("ws://{address}").parse().expect("an address");
        let data = tempfile::tempdir().expect("folder");
        let identity = Identity::open(data.path()).expect("free");
        let mut options = Options::new(address, "tester", identity, executor);
        options.offer.slots = 8;
        change(&mut options);
        let worker = RunningWorker::start(options).await.expect("starts");
        Self { worker, seen, wishes, _data: data }
    }

    pub(super) fn wish(&self, wish: Wish) {
        self.wishes.send(wish).expect("the server serves");
    }

    pub(super) fn dispatch(&self, lease_id: &str, node_type: &str, parameters: &Value) {
        self.dispatch_more(lease_id, node_type, parameters, &json!({}));
    }

    /// A dispatch with more keys than usual.
    pub(super) fn dispatch_more(
        &self,
        lease_id: &str,
        node_type: &str,
        parameters: &Value,
        more: &Value,
    ) {
        let mut payload = json!({
            "run_id": "r", "task_id": format!("task-of-{lease_id}"), "node_id": "n",
            "node_type": node_type, "package_name": "core", "package_version": "1",
            "parameters": parameters, "constraints": {},
        });
        let keys = payload.as_object_mut().expect("an object");
        keys.extend(more.as_object().expect("an object").clone());
        self.send("biz.exec.dispatch", lease_id, &payload);
    }

    pub(super) fn send(&self, kind: &'static str, id: &str, payload: &Value) {
        self.wish(Wish::Send(BusinessFrame {
            kind: kind.into(),
            id: id.into(),
            corr: Some(format!("task-of-{id}")),
            seq: Some(7),
            wants_ack: true,
            payload: to_raw_value(payload).expect("JSON"),
        }));
    }

    pub(super) fn cancel(&self, lease_id: &str) {
        let payload = json!({ "task_id": "t", "reason": "superseded", "lease_id": lease_id });
        self.send("biz.exec.cancel", &format!("cancel-{lease_id}"), &payload);
    }

    pub(super) async fn next(&mut self) -> Seen {
        timeout(PATIENCE, self.seen.recv()).await.expect("in time").expect("the server serves")
    }

    pub(super) async fn until_session(&mut self) -> bool {
        loop {
            if let Seen::Session { is_resumed } = self.next().await {
                return is_resumed;
            }
        }
    }

    pub(super) async fn heartbeat(&mut self) -> Value {
        loop {
            if let Seen::Heartbeat(payload) = self.next().await {
                return payload;
            }
        }
    }

    /// The next business frame that is no feedback.
    pub(super) async fn answer(&mut self) -> Sent {
        loop {
            match self.frame().await {
                frame if frame.kind == "biz.exec.feedback" => {}
                frame => return frame,
            }
        }
    }

    /// The next business frame. Heartbeats go on meanwhile, so the time is taken over all.
    pub(super) async fn frame(&mut self) -> Sent {
        let coming = async {
            loop {
                if let Seen::Frame(frame) = self.next().await {
                    return frame;
                }
            }
        };
        timeout(PATIENCE, coming).await.expect("a frame in time")
    }

    /// Nothing but heartbeats comes for a while.
    pub(super) async fn check_silence(&mut self, span: Duration) {
        let silent = async {
            loop {
                match self.seen.recv().await {
                    Some(Seen::Frame(frame)) => panic!("{frame:?}"),
                    Some(_) => {}
                    None => std::future::pending().await,
                }
            }
        };
        let _ = timeout(span, silent).await;
    }
}

struct Server {
    seen: mpsc::UnboundedSender<Seen>,
    wishes: mpsc::UnboundedReceiver<Wish>,
    clock: Clock,
    session: Option<Session>,
    held: Option<Vec<CommitToken>>,
    n_sessions: u32,
}

async fn serve(
    listener: TcpListener,
    seen: mpsc::UnboundedSender<Seen>,
    wishes: mpsc::UnboundedReceiver<Wish>,
) {
    let (clock, session, held) = (Clock::start(), None, None);
    let mut server = Server { seen, wishes, clock, session, held, n_sessions: 0 };
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        let Ok((_, stream)) = ServerBuilder::new().accept(stream).await else { continue };
        let options = ServerOptions { sender_id: "s".into(), window: 64, seed: 1 };
        let mut machine = ServerMachine::new(options);
        let is_remembered = server.connection(stream, &mut machine).await;
        let session = machine.take_session();
        server.session = if is_remembered { session } else { None };
        if server.seen.send(Seen::Gone).is_err() {
            return;
        }
    }
}

impl Server {
    /// Serves a connection to its end; `false` if its session is to be forgotten.
    async fn connection(
        &mut self,
        mut stream: WebSocketStream<TcpStream>,
        machine: &mut ServerMachine,
    ) -> bool {
        loop {
            while let Some(event) = machine.poll_event() {
                self.on_event(machine, event);
            }
            while let Some(frame) = machine.poll_frame() {
                let text = frame.to_text().expect("within limits");
                if stream.feed(Message::text(text)).await.is_err() {
                    return true;
                }
            }
            if stream.flush().await.is_err() {
                return true;
            }
            let hour = Duration::from_hours(1);
            let due = machine.next_deadline().map(|due| self.clock.instant(due));
            let due = due.unwrap_or(tokio::time::Instant::now() + hour);
            tokio::select! {
                message = stream.next() => match message {
                    Some(Ok(message)) if message.is_text() => {
                        let text = message.as_text().expect("text");
                        let frame = Envelope::from_text(text).expect("the worker sends frames");
                        machine.receive(self.clock.now(), frame);
                    }
                    Some(Ok(message)) if !message.is_close() => {}
                    Some(_) | None => return true,
                },
                wish = self.wishes.recv() => match wish {
                    Some(Wish::Send(frame)) => {
                        machine.send(self.clock.now(), frame).expect("a session with room");
                    }
                    Some(Wish::Cut) => return true,
                    Some(Wish::Forget) | None => return false,
                    Some(Wish::Drain(drain)) => machine.drain(self.clock.now(), &drain),
                    Some(Wish::Hold(true)) => self.held = Some(Vec::new()),
                    Some(Wish::Hold(false)) => {
                        for token in self.held.take().into_iter().flatten() {
                            machine.commit(self.clock.now(), token, None);
                        }
                    }
                    Some(Wish::Freeze) => std::future::pending().await,
                },
                () = sleep_until(due) => machine.tick(self.clock.now()),
            }
        }
    }

    fn on_event(&mut self, machine: &mut ServerMachine, event: ServerEvent) {
        let now = self.clock.now();
        match event {
            ServerEvent::Handshake { payload, .. } if payload.get().contains("\"wrong\"") => {
                machine.refuse(now, ErrorCode::AuthInvalidToken, "who is that?", None);
            }
            ServerEvent::Handshake { .. } => machine.accept_handshake(now),
            ServerEvent::Register { is_first, payload } => {
                self.see(Seen::Register(read(payload.get())));
                if is_first {
                    self.n_sessions += 1;
                    machine.accept(now, self.grant());
                    self.see(Seen::Session { is_resumed: false });
                }
            }
            ServerEvent::Resume { .. } => match self.session.take() {
                Some(session) => {
                    machine.resume(now, session, self.grant());
                    self.see(Seen::Session { is_resumed: true });
                }
                None => machine.refuse(now, ErrorCode::SessionUnknown, "unknown", None),
            },
            ServerEvent::Heartbeat { payload } => self.see(Seen::Heartbeat(read(payload.get()))),
            ServerEvent::Delivered { token, frame } => {
                match &mut self.held {
                    Some(held) => held.push(token),
                    None => machine.commit(now, token, None),
                }
                self.see(Seen::Frame(Sent {
                    kind: frame.kind.into_owned(),
                    corr: frame.corr.expect("every frame of a worker is about something"),
                    seq: frame.seq,
                    payload: read(frame.payload.get()),
                }));
            }
            ServerEvent::Acked { .. }
            | ServerEvent::GaveUp { .. }
            | ServerEvent::SessionEnded { .. } => {}
        }
    }

    fn grant(&self) -> SessionAccept {
        SessionAccept {
            session_id: format!("session-{}", self.n_sessions),
            session_token: "token".into(),
            worker_instance_id: "w".into(),
            expires_at: None,
        }
    }

    fn see(&self, seen: Seen) {
        // A test may have seen enough.
        let _ = self.seen.send(seen);
    }
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}
