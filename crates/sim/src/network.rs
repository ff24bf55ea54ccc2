//! The wire between clients and servers: it loses, doubles, reorders and delays.

use crate::agenda::Event;
use crate::faults::{Fault, FaultSet};
use crate::message::{Call, Peer, Reply, Told, Wire};
use crate::rng::Dice;
use crate::world::World;

/// How bad the wire is in this run.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    pub(crate) latency: Dice,
    /// For frames on connections.
    pub(crate) frames: Dice,
    troubles: [Trouble; 4],
}

#[derive(Clone, Debug)]
struct Trouble {
    fault: Fault,
    permille: u64,
    dice: Dice,
}

impl Trouble {
    fn strikes(&mut self) -> bool {
        self.permille > 0 && self.dice.chance(self.permille)
    }
}

impl Network {
    pub(crate) fn new(seed: u64, faults: FaultSet) -> Self {
        let trouble = |fault: Fault, levels: &[u64]| {
            let mut dice = Dice::for_purpose(seed, fault.name().0);
            let level = dice.pick(levels).copied().unwrap_or(0);
            let permille = if faults.has(fault) { level } else { 0 };
            Trouble { fault, permille, dice }
        };
        Self {
            latency: Dice::for_purpose(seed, "latency"),
            frames: Dice::for_purpose(seed, "frames"),
            troubles: [
                trouble(Fault::Drop, &[0, 5, 20, 100]),
                trouble(Fault::Duplicate, &[0, 10, 50]),
                trouble(Fault::Reorder, &[0, 50, 200]),
                trouble(Fault::Delay, &[0, 10, 40]),
            ],
        }
    }

    /// From here on the wire is good.
    pub(crate) fn heal(&mut self) {
        for trouble in &mut self.troubles {
            trouble.permille = 0;
        }
    }
}

impl World {
    /// Puts a message on the wire.
    pub(crate) fn post(&mut self, wire: &Wire) {
        if self.is_swallowed(wire) {
            return;
        }
        let mut delay = self.network.latency.between(1, 5);
        let mut copies = 1;
        for trouble in 0..self.network.troubles.len() {
            let Trouble { fault, .. } = self.network.troubles[trouble];
            if !self.network.troubles[trouble].strikes() {
                continue;
            }
            self.fault(fault, || describe(wire));
            let dice = &mut self.network.troubles[trouble].dice;
            match fault {
                Fault::Drop => return,
                Fault::Duplicate => copies = 2,
                Fault::Reorder => delay += dice.between(5, 200),
                _ => delay += dice.heavy_tail(250, 7),
            }
        }
        for copy in 0..copies {
            let late = if copy == 0 { 0 } else { self.network.latency.heavy_tail(20, 8) };
            let at = self.clock.now + delay + late;
            self.agenda.plan(at, Event::Deliver(Box::new(wire.clone())));
        }
    }

    /// F9: the peer's socket still looks open, but nothing comes through to it.
    fn is_swallowed(&mut self, wire: &Wire) -> bool {
        let Wire::Reply(Reply { call, .. }) = wire else { return false };
        let until = match call.peer {
            Peer::Worker(worker) => self.workers[worker].half_open_until,
            Peer::Submitter(submitter) => self.submitters[submitter].half_open_until,
        };
        if until <= self.clock.now {
            return false;
        }
        self.fault(Fault::HalfOpen, || describe(wire));
        true
    }

    pub(crate) fn reply(&mut self, call: Call, told: Told) {
        self.post(&Wire::Reply(Reply { call, told }));
    }

    pub(crate) fn delivered(&mut self, wire: Wire) {
        match wire {
            Wire::Request(request) => self.request_arrives(request),
            Wire::Reply(reply) => match reply.call.peer {
                Peer::Worker(worker) => self.worker_hears(worker, reply),
                Peer::Submitter(submitter) => self.submitter_hears(submitter, reply),
            },
        }
    }
}

/// A message in few words.
pub(crate) fn describe(wire: &Wire) -> String {
    match wire {
        Wire::Request(request) => {
            let Call { peer, number, .. } = request.call;
            let ask = shorten(&format!("{:?}", request.ask));
            format!("{peer:?} call {number} to {}: {ask}", request.at)
        }
        Wire::Reply(reply) => {
            let Call { peer, number, .. } = reply.call;
            format!("answer to {peer:?} call {number}: {}", shorten(&format!("{:?}", reply.told)))
        }
    }
}

fn shorten(text: &str) -> String {
    text.chars().take(110).collect()
}
