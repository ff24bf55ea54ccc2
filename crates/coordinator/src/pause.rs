//! Queues from which nothing is granted. Soft state: the shell remembers what people said.

use model::QueueName;

use crate::command::{Pause, Ticket};
use crate::coordinator::Turn;
use crate::effect::{Answer, Refusal};

/// Queues that may be paused at the same time; one more is refused.
pub const PAUSES_MAX: usize = 10_000;

impl Turn<'_> {
    pub(crate) fn on_set_pause(&mut self, ticket: Ticket, queue: QueueName, pause: Option<Pause>) {
        let placement = &mut self.state.placement;
        let is_new = placement.pause(&queue).is_none();
        if pause.is_some() && is_new && placement.pauses().count() >= PAUSES_MAX {
            return self.answer(ticket, Answer::Refused(Refusal::PausesFull));
        }
        placement.set_pause(queue, pause);
        self.answer(ticket, Answer::PauseSet);
    }
}
