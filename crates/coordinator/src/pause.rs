//! Queues from which nothing is granted.

use model::QueueName;

use crate::command::{Pause, Ticket};
use crate::coordinator::Decision;
use crate::effect::{Answer, Refusal};
use crate::tenant_change::TenantChange;

/// Queues that may be paused at the same time; one more is refused.
pub const PAUSES_MAX: usize = 10_000;

impl Decision<'_> {
    pub(crate) fn on_set_pause(&mut self, ticket: Ticket, queue: QueueName, pause: Option<Pause>) {
        let placement = &self.state.placement;
        let is_new = placement.pause(&queue).is_none();
        if pause.is_some() && is_new && placement.pauses().len() >= PAUSES_MAX {
            return self.answer(ticket, Answer::Refused(Refusal::PausesFull));
        }
        match pause {
            Some(pause) => self.record_tenant(TenantChange::QueuePaused { queue, pause }),
            None if is_new => {}
            None => self.record_tenant(TenantChange::QueueResumed { queue }),
        }
        self.answer(ticket, Answer::PauseSet);
    }
}
