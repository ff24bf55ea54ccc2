//! A server that plays a dialect, and hangs up where a test wants it to.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use protocol::resp::reply::{Reply, Version};
use protocol::resp::request::{Limits, RequestReader};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::keys::Keys;
use super::leases::Leases;

/// How long a pop waits here, whatever it asks for: tests are in a hurry.
const POP_WAIT: Duration = Duration::from_millis(20);
const LIMITS: Limits =
    Limits { arguments_max: 1024, argument_bytes_max: 1024 * 1024, request_bytes_max: 1024 * 1024 };

/// What a command is, as text.
pub(super) type Words = Vec<String>;

/// What a server says to a command.
pub(super) enum Answer {
    Reply(Reply),
    /// A pop that found nothing.
    Nothing(Reply),
}

/// One dialect.
pub(super) enum Play {
    /// Our own server.
    Leases(Leases),
    /// Another one.
    Keys(Keys),
}

impl Play {
    fn answer(&mut self, connection: usize, words: &[Bytes]) -> Answer {
        match self {
            Self::Leases(leases) => leases.answer(connection, words),
            Self::Keys(keys) => keys.answer(words),
        }
    }

    /// Whether a pop would find something; `None` for everything that is no pop.
    fn would_pop(&self, words: &[Bytes]) -> Option<bool> {
        match self {
            Self::Leases(leases) => leases.would_pop(words),
            Self::Keys(keys) => keys.would_pop(words),
        }
    }
}

/// Where the server hangs up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    /// At which command that matters, from 1.
    pub(super) at: usize,
    /// Whether the command is carried out before.
    pub(super) is_done: bool,
}

/// What the server knows and has seen.
pub(super) struct State {
    pub(super) play: Play,
    /// Which key lets in.
    pub(super) key: String,
    pub(super) seen: Vec<(usize, Words)>,
    pub(super) cut: Option<Cut>,
    /// Commands that mattered so far.
    pub(super) n_commands: usize,
    n_connections: usize,
    /// Connections that the worker closed, or that were cut.
    n_gone: usize,
}

impl State {
    pub(super) fn new(play: Play, key: &str) -> Self {
        let key = key.to_owned();
        Self { play, key, seen: Vec::new(), cut: None, n_commands: 0, n_connections: 0, n_gone: 0 }
    }

    pub(super) fn leases(&mut self) -> &mut Leases {
        match &mut self.play {
            Play::Leases(leases) => leases,
            Play::Keys(_) => panic!("this server knows no leases"),
        }
    }

    pub(super) fn keys(&mut self) -> &mut Keys {
        match &mut self.play {
            Play::Keys(keys) => keys,
            Play::Leases(_) => panic!("this server has leases"),
        }
    }

    /// Whether there were connections, and there are none any more.
    pub(super) fn are_all_gone(&self) -> bool {
        self.n_connections > 0 && self.n_gone == self.n_connections
    }

    /// Every command of that name, in order.
    pub(super) fn seen(&self, name: &str) -> Vec<&Words> {
        self.seen.iter().map(|(_, words)| words).filter(|words| words[0] == name).collect()
    }

    /// Whether the connection is cut here.
    fn cuts(&mut self, words: &[Bytes]) -> Option<Cut> {
        // How often these come depends on the clock.
        let is_clockwork = [&b"WORKER.HEARTBEAT"[..], b"PING"].contains(&&words[0][..]);
        if is_clockwork || self.play.would_pop(words) == Some(false) {
            return None;
        }
        self.n_commands += 1;
        let cut = self.cut.filter(|cut| cut.at == self.n_commands)?;
        // Without leases the answer to a pop that is lost is lost, so there the pop is
        // not carried out.
        let is_for_good = words[0] == "BRPOPLPUSH" || words[0] == "RPOPLPUSH";
        Some(Cut { is_done: cut.is_done && !is_for_good, ..cut })
    }
}

/// The server, shared with the test.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) state: Arc<Mutex<State>>,
    /// Rises with everything that happens.
    pub(super) moves: watch::Sender<u64>,
}

impl Server {
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.state.lock());
        self.moves.send_modify(|moves| *moves += 1);
        changed
    }

    pub(super) async fn serve(self, listener: TcpListener) {
        while let Ok((stream, _)) = listener.accept().await {
            let number = self.change(|state| {
                state.n_connections += 1;
                state.n_connections
            });
            tokio::spawn(self.clone().converse(stream, number));
        }
    }

    async fn converse(self, mut stream: TcpStream, number: usize) {
        let (mut reader, mut input) = (RequestReader::new(LIMITS), BytesMut::new());
        let mut is_in = false;
        loop {
            let Some(request) = reader.next(&mut input).expect("the worker speaks it") else {
                match stream.read_buf(&mut input).await {
                    Ok(0) | Err(_) => break,
                    Ok(_) => continue,
                }
            };
            let words = request.arguments;
            self.change(|state| state.seen.push((number, text(&words))));
            let reply = if words[0] == "AUTH" || !is_in {
                self.change(|state| state.cuts(&words).map_or_else(|| Ok(state.auth(&words)), Err))
            } else {
                self.answer(number, &words).await
            };
            let Ok(reply) = reply else { break };
            is_in |= words[0] == "AUTH" && reply == Reply::ok();
            let mut output = BytesMut::new();
            reply.encode(Version::Two, &mut output);
            if stream.write_all(&output).await.is_err() {
                break;
            }
        }
        self.change(|state| {
            state.n_gone += 1;
            if let Play::Leases(leases) = &mut state.play {
                leases.on_gone(number);
            }
        });
    }

    async fn answer(&self, number: usize, words: &[Bytes]) -> Result<Reply, Cut> {
        let until = Instant::now() + POP_WAIT;
        let mut moves = self.moves.subscribe();
        loop {
            moves.mark_unchanged();
            let answer = self.change(|state| {
                let cut = state.cuts(words);
                if cut.is_some_and(|cut| !cut.is_done) {
                    return Err(cut.expect("just seen"));
                }
                let answer = state.play.answer(number, words);
                cut.map_or(Ok(answer), Err)
            });
            moves.mark_unchanged();
            match answer? {
                Answer::Reply(reply) => return Ok(reply),
                Answer::Nothing(reply) => {
                    if timeout_at(until, moves.changed()).await.is_err() {
                        return Ok(reply);
                    }
                }
            }
        }
    }
}

impl State {
    fn auth(&self, words: &[Bytes]) -> Reply {
        let is_ours = matches!(self.play, Play::Leases(_));
        let is_right = words.last().is_some_and(|key| *key == self.key);
        match (words[0] == "AUTH", is_ours) {
            (true, _) if is_right => Reply::ok(),
            (true, true) => Reply::error("WRONGPASS invalid username-password pair"),
            (true, false) => Reply::error("ERR Invalid authentication key"),
            (false, true) => Reply::error("NOAUTH Authentication required."),
            (false, false) => Reply::error("ERR NOAUTH Authentication required"),
        }
    }
}

pub(super) fn text(words: &[Bytes]) -> Words {
    words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}
