//! The oracle's place at a shard: it sees every command and what came of it.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use coordinator::{Command, Coordinator, Effect, LoadTicket, Moment, Step};
use shard::Tap;

use super::judge::Heard;
use super::model::Model;
use super::notes::Notes;
use super::waiting::WaitingRequests;
use crate::run::last_panic;

/// Between thorough looks at the coordinator's own tables.
const STEPS_BETWEEN_LOOKS: u64 = 50;

/// Follows one shard.
#[derive(Debug)]
pub(crate) struct Oracle {
    pub(crate) model: Model,
    pub(crate) requests: WaitingRequests,
    /// Whether the model still follows. A stale owner that reads what its successor wrote knows
    /// more than its own history says; its turns are fenced, so nobody hears of it.
    pub(crate) is_followed: bool,
    is_thorough: bool,
    heard: Heard,
    notes: Notes,
    n_steps: u64,
    n_seen: u64,
    /// Commands that wait for a read, and when they were sent.
    loads: BTreeMap<LoadTicket, (Command, Heard)>,
    /// What the step to come is judged by.
    judged: Judged,
}

/// What the coordinator is about to do.
#[derive(Debug, Default)]
struct Judged {
    command: Option<Command>,
    is_tick: bool,
    /// Its read failed: nothing but a refusal comes of it.
    has_failed: bool,
    sent: Option<Heard>,
}

impl Oracle {
    pub(crate) fn new(model: Model, is_thorough: bool, n_seen: u64) -> Self {
        Self {
            model,
            requests: WaitingRequests::default(),
            is_followed: true,
            is_thorough,
            heard: Heard::default(),
            notes: Notes::default(),
            n_steps: 0,
            n_seen,
            loads: BTreeMap::new(),
            judged: Judged::default(),
        }
    }

    /// From here on the shard acts on something that was sent at a moment.
    pub(crate) fn listen(&mut self, heard: Heard, notes: &mut Notes) {
        self.heard = heard;
        std::mem::swap(&mut self.notes, notes);
    }

    /// The shard has acted. Gives how many steps it took.
    pub(crate) fn give_back(&mut self, notes: &mut Notes) -> u64 {
        std::mem::swap(&mut self.notes, notes);
        std::mem::take(&mut self.n_steps)
    }

    /// The coordinator's indexes say what its tasks say, and nobody waits without reason.
    fn check_tables(&mut self, coordinator: &Coordinator) {
        let checked = catch_unwind(AssertUnwindSafe(|| coordinator.check_invariants()));
        if checked.is_err() {
            self.notes.broken("an invariant", last_panic);
        }
        if self.is_followed {
            let wakes_at = coordinator.next_deadline();
            self.model.check_waiting(&self.requests, wakes_at, &mut self.notes);
        }
    }

    fn watch(&mut self, judged: &Judged, step: &Step) {
        let Self { model, requests, notes, heard, .. } = self;
        let heard = Heard { sent_at: judged.sent.unwrap_or(*heard).sent_at, ..*heard };
        let command = judged.command.as_ref().filter(|_| !judged.has_failed);
        let is_loading = step.effects.iter().any(|effect| matches!(effect, Effect::Load { .. }));
        if judged.is_tick {
            model.end_waits(heard.now);
        }
        if let Some(command) = command.filter(|_| !is_loading) {
            model.judge(command, step, heard, notes);
        }
        for change in &step.tenant {
            model.observe_tenant(change);
        }
        for change in &step.changes {
            model.observe(change, Some(heard.now), notes);
        }
        if let Some(command) = command.filter(|_| !is_loading) {
            model.check_commits(command, notes);
        }
        model.check_blocked(&step.changes, notes);
        requests.observe(command, &step.effects, notes);
        if judged.is_tick {
            model.check_nothing_due(heard.now, notes);
        }
    }
}

impl Tap for Oracle {
    fn before(&mut self, _: Moment, command: Option<&Command>) {
        let is_failed = matches!(command, Some(Command::LoadFailed { .. }));
        self.judged = match command {
            Some(Command::Loaded { load, .. } | Command::LoadFailed { load }) => {
                let (command, sent) = self.loads.remove(load).unzip();
                let (is_tick, has_failed) = (false, is_failed);
                Judged { command, is_tick, has_failed, sent }
            }
            Some(command) => Judged { command: Some(command.clone()), ..Judged::default() },
            None => Judged { is_tick: true, ..Judged::default() },
        };
    }

    fn after(&mut self, coordinator: &Coordinator, step: &Step) {
        self.n_steps += 1;
        self.n_seen += 1;
        let judged = std::mem::take(&mut self.judged);
        if self.is_followed {
            self.watch(&judged, step);
        }
        if self.is_thorough || self.n_seen.is_multiple_of(STEPS_BETWEEN_LOOKS) {
            self.check_tables(coordinator);
        }
        for effect in &step.effects {
            if let (Effect::Load { load, .. }, Some(command)) = (effect, &judged.command) {
                let sent = judged.sent.unwrap_or(self.heard);
                self.loads.insert(*load, (command.clone(), sent));
            }
        }
    }
}
