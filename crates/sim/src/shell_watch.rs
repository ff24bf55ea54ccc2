//! Where the oracle looks over a shell's shoulder.

use std::panic::{AssertUnwindSafe, catch_unwind};

use coordinator::{Command, Effect, Step};

use crate::oracle::{Heard, Notes};
use crate::run::last_panic;
use crate::shell::Mind;

/// The coordinator's indexes say what its tasks say, and nobody waits without reason.
pub(crate) fn check_tables(mind: &Mind, notes: &mut Notes) {
    let checked = catch_unwind(AssertUnwindSafe(|| mind.coordinator.check_invariants()));
    if checked.is_err() {
        notes.broken("an invariant", last_panic);
    }
    if mind.is_followed {
        let wakes_at = mind.coordinator.next_deadline();
        mind.model.check_waiting(&mind.requests, wakes_at, notes);
    }
}

/// The oracle looks at one step.
pub(crate) fn watch_step(
    mind: &mut Mind,
    (command, is_tick, step): (Option<&Command>, bool, &Step),
    heard: Heard,
    notes: &mut Notes,
) {
    let is_loading = step.effects.iter().any(|effect| matches!(effect, Effect::Load { .. }));
    if is_tick {
        mind.model.end_waits(heard.now);
    }
    if let Some(command) = command.filter(|_| !is_loading) {
        mind.model.judge(command, &step.effects, heard, notes);
    }
    for change in &step.changes {
        mind.model.observe(change, Some(heard.now), notes);
    }
    if let Some(command) = command.filter(|_| !is_loading) {
        mind.model.check_commits(command, notes);
    }
    mind.model.check_blocked(&step.changes, notes);
    mind.requests.observe(command, &step.effects);
    if is_tick {
        mind.model.check_nothing_due(heard.now, notes);
    }
}
