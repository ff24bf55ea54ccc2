//! Connections of session workers: frames as bytes, in order, until the connection breaks.

use protocol::session::worker_machine::Connection;
use shard::sessions::LinkId;

use super::link::Link;
use super::worker::SessionTimer;
use crate::agenda::Event;
use crate::faults::Fault;
use crate::server::ShardAt;
use crate::world::World;

/// One connection, as the network knows it.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) worker: usize,
    pub(crate) process: u64,
    /// The worker's own name for it.
    pub(crate) connection: Connection,
    pub(crate) at: ShardAt,
    /// When the last frame of each direction arrives: no later one overtakes it.
    arrives: [u64; 2],
}

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Up,
    Down,
}

/// What travels.
#[derive(Clone, Debug)]
pub(crate) enum Sent {
    Frame(String),
    Ping,
    Pong,
}

impl World {
    /// A worker opens a connection to a server.
    pub(crate) fn open_line(&mut self, worker: usize, at: ShardAt, connection: Connection) {
        self.last_link += 1;
        let id = LinkId(self.last_link);
        let now = self.server_now(at.server);
        let process = self.session_workers[worker].process;
        let seed = self.seed ^ self.last_link.wrapping_mul(0x9e37_79b9);
        let line = Line { worker, process, connection, at, arrives: [self.clock.now; 2] };
        self.lines.insert(id, line);
        self.servers[at.server].links.insert(id, Link::new(now, seed, at));
        self.session_workers[worker].line = Some(id);
        self.set_link_alarm(at.server, id);
    }

    pub(crate) fn send_on(&mut self, id: LinkId, direction: Direction, sent: &Sent) {
        let Some(line) = self.lines.get_mut(&id) else { return };
        let mut delay = self.network.latency.between(1, 5);
        let mut copies = 1;
        if self.has_faults && matches!(sent, Sent::Frame(_)) {
            // A connection loses and repeats nothing, but workers of others do.
            for (fault, permille) in [(Fault::Drop, 3), (Fault::Duplicate, 5), (Fault::Delay, 8)] {
                if !self.faults.has(fault) || !self.network.frames.chance(permille) {
                    continue;
                }
                self.notes.counters.fault(fault);
                match fault {
                    Fault::Drop => copies = 0,
                    Fault::Duplicate => copies = 2,
                    _ => delay += self.network.frames.heavy_tail(100, 5),
                }
            }
        }
        let arrives = &mut line.arrives[usize::from(direction == Direction::Down)];
        *arrives = (*arrives).max(self.clock.now + delay);
        let at = *arrives;
        for _ in 0..copies {
            let sent = Box::new(sent.clone());
            self.agenda.plan(at, Event::Frame { line: id, direction, sent });
        }
    }

    pub(crate) fn frame_arrives(&mut self, id: LinkId, direction: Direction, sent: Sent) {
        let Some(line) = self.lines.get(&id) else { return };
        let (worker, server, process) = (line.worker, line.at.server, line.process);
        let until = match direction {
            Direction::Up => self.paused_until(server),
            Direction::Down => self.session_worker_paused(worker),
        };
        if let Some(until) = until {
            let sent = Box::new(sent);
            return self.agenda.plan(until, Event::Frame { line: id, direction, sent });
        }
        match direction {
            Direction::Up => self.link_receives(server, id, sent),
            Direction::Down if self.session_workers[worker].process == process => {
                self.session_worker_receives(worker, id, sent);
            }
            Direction::Down => {}
        }
    }

    /// A connection breaks. Each end hears of it by itself, or much later by silence.
    pub(crate) fn cut_line(&mut self, id: LinkId) {
        let Some(line) = self.lines.remove(&id) else { return };
        let Line { worker, process, connection, at, .. } = line;
        let dice = &mut self.network.frames;
        let mut delay = || if dice.chance(850) { dice.between(0, 20) } else { 8_000 };
        let (worker_hears, server_hears) = (delay(), delay());
        let timer = SessionTimer::Disconnected(connection);
        let event = Event::SessionWorker { worker, process, timer };
        self.agenda.plan(self.clock.now + worker_hears, event);
        let event = Event::LinkGone { server: at.server, link: id };
        self.agenda.plan(self.clock.now + server_hears, event);
    }

    /// F8: some connection is reset.
    pub(crate) fn some_line_cut(&mut self) {
        let ids: Vec<LinkId> = self.lines.keys().copied().collect();
        if let Some(id) = self.fault_dice.pick(&ids).copied() {
            self.fault(Fault::Reset, || format!("connection {}", id.0));
            self.cut_line(id);
        }
    }

    /// The lines of a server's tenant, or of all its tenants.
    pub(crate) fn lines_of(&self, server: usize, tenant: Option<usize>) -> Vec<LinkId> {
        let is_it = |line: &Line| {
            line.at.server == server && tenant.is_none_or(|tenant| line.at.tenant == tenant)
        };
        self.lines.iter().filter(|(_, line)| is_it(line)).map(|(id, _)| *id).collect()
    }
}
