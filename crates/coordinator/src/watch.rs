//! Who waits to hear that a task is settled. Soft state.

use std::collections::BTreeMap;

use model::{TaskId, Timestamp};

use crate::command::Ticket;

/// Watchers in all; one more is refused.
pub const WATCHES_MAX: usize = 100_000;

/// The watchers, by ticket and by task.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    by_ticket: BTreeMap<Ticket, (TaskId, Timestamp)>,
    by_task: BTreeMap<TaskId, Vec<Ticket>>,
}

impl Watches {
    pub(crate) fn len(&self) -> usize {
        self.by_ticket.len()
    }

    pub(crate) fn add(&mut self, ticket: Ticket, task: TaskId, until: Timestamp) {
        self.by_ticket.insert(ticket, (task, until));
        self.by_task.entry(task).or_default().push(ticket);
    }

    /// Forgets a watcher; gives the moment at which its deadline stands.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<Timestamp> {
        let (task, until) = self.by_ticket.remove(&ticket)?;
        let tickets = self.by_task.get_mut(&task).expect("watched tasks have watchers");
        tickets.retain(|other| *other != ticket);
        if tickets.is_empty() {
            self.by_task.remove(&task);
        }
        Some(until)
    }

    /// Takes everyone who waits for this task.
    pub(crate) fn take(&mut self, task: TaskId) -> Vec<(Ticket, Timestamp)> {
        let tickets = self.by_task.remove(&task).unwrap_or_default();
        let until = |ticket: &Ticket| self.by_ticket.remove(ticket).expect("known by ticket").1;
        let moments: Vec<_> = tickets.iter().map(until).collect();
        tickets.into_iter().zip(moments).collect()
    }
}
