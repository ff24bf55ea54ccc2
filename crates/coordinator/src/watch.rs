//! Who waits to hear that a task, or a run, has come to its end. Soft state.

use std::collections::BTreeMap;

use model::Timestamp;

use crate::command::Ticket;

/// Watchers in all; one more is refused.
pub const WATCHES_MAX: usize = 100_000;

/// The watchers, by ticket and by what they watch.
#[derive(Debug)]
pub(crate) struct Watches<K> {
    by_ticket: BTreeMap<Ticket, (K, Timestamp)>,
    by_subject: BTreeMap<K, Vec<Ticket>>,
}

impl<K> Default for Watches<K> {
    fn default() -> Self {
        Self { by_ticket: BTreeMap::new(), by_subject: BTreeMap::new() }
    }
}

impl<K: Ord + Copy> Watches<K> {
    pub(crate) fn len(&self) -> usize {
        self.by_ticket.len()
    }

    pub(crate) fn add(&mut self, ticket: Ticket, subject: K, until: Timestamp) {
        let before = self.by_ticket.insert(ticket, (subject, until));
        assert!(before.is_none(), "a ticket watches one thing");
        self.by_subject.entry(subject).or_default().push(ticket);
    }

    /// Forgets a watcher; gives the moment at which its deadline stands.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<Timestamp> {
        let (subject, until) = self.by_ticket.remove(&ticket)?;
        let tickets = self.by_subject.get_mut(&subject).expect("what is watched has watchers");
        tickets.retain(|other| *other != ticket);
        if tickets.is_empty() {
            self.by_subject.remove(&subject);
        }
        Some(until)
    }

    /// Takes everyone who waits for this one.
    pub(crate) fn take(&mut self, subject: K) -> Vec<(Ticket, Timestamp)> {
        let tickets = self.by_subject.remove(&subject).unwrap_or_default();
        let until = |ticket: &Ticket| self.by_ticket.remove(ticket).expect("known by ticket").1;
        let moments: Vec<_> = tickets.iter().map(until).collect();
        tickets.into_iter().zip(moments).collect()
    }
}
