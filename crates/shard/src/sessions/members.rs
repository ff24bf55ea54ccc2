//! Workers of one tenant that speak without a session: known by name, bounded, forgotten by age.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::{Timestamp, WorkerId};

use super::SessionCounts;

/// Workers of one tenant that are remembered by name. Beyond it the least recently seen one without
/// a connection is forgotten; those with a connection are bounded by the connections.
pub const MEMBERS_MAX: usize = 10_000;
/// A worker that is not heard of for so long, and has no connection, is forgotten.
pub const MEMBER_KEPT_FOR: Duration = Duration::from_hours(7 * 24);

/// The workers, each with what the caller keeps of it.
#[derive(Debug)]
pub struct MemberTable<M> {
    members: BTreeMap<WorkerId, Member<M>>,
    /// Workers without a connection, least recently seen first.
    idle: BTreeSet<(Timestamp, WorkerId)>,
    members_max: usize,
    evicted: u64,
    forgotten: Vec<WorkerId>,
}

#[derive(Debug)]
struct Member<M> {
    about: M,
    seen_at: Timestamp,
    connections: usize,
}

impl<M: Default> Default for MemberTable<M> {
    fn default() -> Self {
        Self::with_limit(MEMBERS_MAX)
    }
}

impl<M: Default> MemberTable<M> {
    /// A table that remembers at most so many workers without a connection.
    pub fn with_limit(members_max: usize) -> Self {
        Self {
            members: BTreeMap::new(),
            idle: BTreeSet::new(),
            members_max,
            evicted: 0,
            forgotten: Vec::new(),
        }
    }

    /// A worker is heard of, perhaps for the first time.
    pub fn see(&mut self, now: Timestamp, worker: &WorkerId) -> &mut M {
        if !self.members.contains_key(worker) {
            self.make_room(now);
            let member = Member { about: M::default(), seen_at: now, connections: 0 };
            self.members.insert(worker.clone(), member);
        }
        let member = self.members.get_mut(worker).expect("just made sure of");
        if member.connections == 0 {
            self.idle.remove(&(member.seen_at, worker.clone()));
            self.idle.insert((now, worker.clone()));
        }
        member.seen_at = now;
        &mut member.about
    }

    /// A connection more speaks for a worker. Gives how many do.
    pub fn connect(&mut self, now: Timestamp, worker: &WorkerId) -> usize {
        self.see(now, worker);
        let Some(member) = self.members.get_mut(worker) else { return 0 };
        self.idle.remove(&(member.seen_at, worker.clone()));
        member.connections += 1;
        member.connections
    }

    /// A connection less speaks for a worker. Gives how many do. A worker that was forgotten does
    /// not come back by the end of a connection.
    pub fn disconnect(&mut self, now: Timestamp, worker: &WorkerId) -> usize {
        let Some(member) = self.members.get_mut(worker) else { return 0 };
        member.connections = member.connections.saturating_sub(1);
        if member.connections == 0 {
            self.idle.remove(&(member.seen_at, worker.clone()));
            member.seen_at = now;
            self.idle.insert((now, worker.clone()));
        }
        member.connections
    }

    /// What is kept of a worker.
    pub fn get(&self, worker: &WorkerId) -> Option<&M> {
        self.members.get(worker).map(|member| &member.about)
    }

    /// What is kept of a worker that is known, without hearing of it.
    pub fn get_mut(&mut self, worker: &WorkerId) -> Option<&mut M> {
        self.members.get_mut(worker).map(|member| &mut member.about)
    }

    /// All workers, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&WorkerId, &M)> {
        self.members.iter().map(|(worker, member)| (worker, &member.about))
    }

    /// Forgets a worker on its own wish.
    pub fn remove(&mut self, worker: &WorkerId) {
        if let Some(member) = self.members.remove(worker) {
            self.idle.remove(&(member.seen_at, worker.clone()));
        }
    }

    /// Forgets those whose time is over, and the least recently seen while the table is full.
    fn make_room(&mut self, now: Timestamp) {
        while let Some((seen_at, worker)) = self.idle.first()
            && (now.since(*seen_at) >= MEMBER_KEPT_FOR || self.members.len() >= self.members_max)
        {
            let worker = worker.clone();
            self.remove(&worker);
            self.evicted += 1;
            self.forgotten.push(worker);
        }
    }

    /// Takes the workers that were forgotten: what is durable of them goes, too.
    pub fn take_forgotten(&mut self) -> Vec<WorkerId> {
        std::mem::take(&mut self.forgotten)
    }

    /// How many workers are remembered, and how many were forgotten.
    pub fn counts(&self) -> SessionCounts {
        SessionCounts { known: self.members.len(), evicted: self.evicted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);

    #[test]
    fn names_without_end_are_bounded_and_whoever_is_connected_stays() {
        let mut table = MemberTable::<u32>::with_limit(100);
        *table.see(NOW, &name(0)) = 7;
        table.connect(NOW, &name(0));
        for number in 1..=5_000 {
            table.see(at(number), &name(number));
            assert!(table.counts().known <= 100, "{number}");
        }
        assert_eq!(table.counts(), SessionCounts { known: 100, evicted: 4_901 });
        assert_eq!(table.take_forgotten().len(), 4_901);
        assert_eq!(table.get(&name(0)), Some(&7));
        assert!(table.get(&name(4_901)).is_none() && table.get(&name(4_902)).is_some());
        assert_eq!(table.disconnect(at(6_000), &name(0)), 0);
        table.see(at(4_902), &name(9_999));
        assert_eq!(table.get(&name(0)), Some(&7), "it was seen later than others");
    }

    #[test]
    fn a_worker_that_is_not_heard_of_for_long_is_forgotten() {
        let mut table = MemberTable::<u32>::with_limit(100);
        table.see(NOW, &name(1));
        table.connect(NOW, &name(2));
        table.see(NOW.after(MEMBER_KEPT_FOR / 2), &name(3));
        table.see(NOW.after(MEMBER_KEPT_FOR), &name(4));
        assert_eq!(table.take_forgotten(), [name(1)]);
        assert_eq!(table.iter().count(), 3);
        table.remove(&name(3));
        assert_eq!(table.disconnect(NOW, &name(3)), 0, "it stays forgotten");
        assert_eq!(table.counts(), SessionCounts { known: 2, evicted: 1 });
    }

    fn at(number: u64) -> Timestamp {
        NOW.after(Duration::from_millis(number))
    }

    fn name(number: u64) -> WorkerId {
        format!("w{number}").parse().expect("a name")
    }
}
