//! What a coordinator must read before it can answer: settled tasks, which are not in memory.

use coordinator::{Command, Effect, LoadKey, LoadTicket, Step};

use crate::agenda::Event;
use crate::consequence::Consequence;
use crate::message::Told;
use crate::shell::{Inbound, Mind};
use crate::world::World;

/// A command that waits for a read.
#[derive(Debug)]
pub(crate) struct PendingLoad {
    pub(crate) command: Command,
    pub(crate) sent_at: u64,
    keys: Vec<LoadKey>,
}

impl World {
    /// The turn that asked is durable: the read may begin.
    pub(crate) fn begin_load(&mut self, shell: usize, load: LoadTicket, keys: Vec<LoadKey>) {
        let it = &mut self.shells[shell];
        let Some(mind) = &mut it.mind else { return };
        if let Some(pending) = mind.loads.get_mut(&load) {
            pending.keys = keys;
        }
        let event = Event::LoadDone { shell, life: mind.life, load };
        self.agenda.plan(self.clock.now + it.dice.between(0, 30), event);
    }

    pub(crate) fn load_done(&mut self, shell: usize, life: u64, load: LoadTicket) {
        let it = &mut self.shells[shell];
        let Some(mind) = it.mind.as_mut().filter(|mind| mind.life == life) else { return };
        mind.is_followed &= self.store.is_current(mind.claim);
        let Some(pending) = mind.loads.get(&load) else { return };
        let command = if self.has_faults && it.dice.chance(10) {
            Command::LoadFailed { load }
        } else {
            let found = self.store.load(&pending.keys);
            if found.iter().any(|(_, record)| is_settled(record)) {
                self.notes.happened(Consequence::SettledTaskLoaded);
            }
            Command::Loaded { load, found }
        };
        it.inbox.push_front(Inbound::Own(command));
        self.plan_turn(shell);
    }

    /// What waited for a failed read was dropped by the coordinator; its asker may ask again.
    pub(crate) fn answer_failed_load(&mut self, shell: usize, command: Option<&Command>) {
        let ticket = match command {
            Some(
                Command::Submit { ticket, .. }
                | Command::Report { ticket, .. }
                | Command::Heartbeat { ticket, .. }
                | Command::Requeue { ticket, .. },
            ) => *ticket,
            _ => return,
        };
        let call = self.shells[shell].mind.as_mut().and_then(|mind| mind.askers.remove(&ticket));
        if let Some(call) = call {
            self.reply(call, Told::Unavailable);
        }
    }
}

fn is_settled(record: &coordinator::TaskRecord) -> bool {
    matches!(record.progress.state, coordinator::TaskState::Settled(_))
}

/// Remembers what waits.
pub(crate) fn keep_loads(mind: &mut Mind, command: Option<&Command>, step: &Step, sent_at: u64) {
    for effect in &step.effects {
        if let (Effect::Load { load, keys }, Some(command)) = (effect, command) {
            let (command, keys) = (command.clone(), keys.clone());
            mind.loads.insert(*load, PendingLoad { command, sent_at, keys });
        }
    }
}
