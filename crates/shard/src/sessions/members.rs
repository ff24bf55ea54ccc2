//! Workers that speak without a session: known by name, from whichever connection they speak.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use coordinator::Refusal;
use model::{Timestamp, WorkerId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{SessionCounts, SessionEffect, SessionTable};

/// Limit: a silent Redis worker is forgotten after this.
pub const MEMBER_KEPT_FOR: Duration = Duration::from_hours(7 * 24);
/// Limit: a silent Redis worker is dead after this.
pub const DEAD_AFTER: Duration = Duration::from_secs(90);

/// What a worker without a session registered, as the store keeps it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Registration {
    /// The name of the credential that registered it.
    pub credential: String,
    /// What it said of itself, as it said it.
    pub metadata: Box<RawValue>,
    /// Milliseconds since 1970.
    pub registered_ms: u64,
}

/// What a worker without a session says of itself.
#[derive(Clone, Debug)]
pub enum MemberMessage {
    /// It registers. Its name belongs to the credential of the registration while it lives.
    Register(Arc<Registration>),
    /// It says what it can do, without a registration.
    Greet {
        /// The credential that it came with.
        credential: String,
    },
    /// It works. Nobody waits for an answer.
    Appear,
    /// It leaves for good.
    Leave {
        /// The credential that it came with.
        credential: String,
    },
}

impl SessionTable {
    /// Takes back the registration of a worker without a session.
    pub fn restore_member(&mut self, now: Timestamp, worker: WorkerId, own: Registration) {
        self.members.put(now, worker, Some(Arc::new(own)));
        self.make_room_for(now, 0);
    }

    /// A worker without a session says who it is.
    pub fn on_member(
        &mut self,
        now: Timestamp,
        worker: &WorkerId,
        message: MemberMessage,
    ) -> Result<(), Refusal> {
        self.tick(now);
        match message {
            MemberMessage::Register(registration) => {
                self.take_name(now, worker, &registration.credential)?;
                self.add_member(now, worker, Some(Arc::clone(&registration)))?;
                let worker = worker.clone();
                self.effects.push_back(SessionEffect::KeepMember { worker, registration });
            }
            MemberMessage::Greet { credential } => {
                self.take_name(now, worker, &credential)?;
                self.add_member(now, worker, None)?;
            }
            MemberMessage::Appear => {
                if let Err(full) = self.add_member(now, worker, None) {
                    self.forget_member(worker);
                    return Err(full);
                }
            }
            MemberMessage::Leave { credential } => {
                self.take_name(now, worker, &credential)?;
                self.forget_member(worker);
            }
        }
        Ok(())
    }

    /// A worker without a session gives a sign of life.
    pub fn hear(&mut self, now: Timestamp, worker: &WorkerId) {
        self.members.hear(now, worker);
    }

    /// A name belongs to the credential of the worker that lives under it, at whichever door. A
    /// worker with a session that has left loses it for good.
    fn take_name(
        &mut self,
        now: Timestamp,
        worker: &WorkerId,
        credential: &str,
    ) -> Result<(), Refusal> {
        let other = self.names.get(worker).filter(|instance_id| {
            let record = self.entries[*instance_id].record.as_ref();
            let own = record.and_then(|record| record.token_id.as_deref());
            own.is_some_and(|own| own != credential)
        });
        let is_here = other.is_some_and(|instance_id| !self.entries[instance_id].has_left(now));
        if is_here || self.is_anothers(now, worker, Some(credential)) {
            return Err(Refusal::WorkerNameTaken);
        }
        if let Some(instance_id) = other.cloned() {
            self.forget(&instance_id);
        }
        Ok(())
    }

    /// Whether a worker without a session lives under this name, registered by another credential.
    pub(super) fn is_anothers(
        &self,
        now: Timestamp,
        name: &WorkerId,
        credential: Option<&str>,
    ) -> bool {
        self.members.get(name).is_some_and(|member| {
            let own = member.registration.as_ref().map(|own| own.credential.as_str());
            own.is_some() && own != credential && member.is_alive(now)
        })
    }

    /// Makes sure that a worker is known and heard of; its registration stays if it brings none.
    fn add_member(
        &mut self,
        now: Timestamp,
        worker: &WorkerId,
        registration: Option<Arc<Registration>>,
    ) -> Result<(), Refusal> {
        let is_known = self.members.get(worker).is_some();
        if !is_known && !self.make_room_for(now, 1) {
            return Err(Refusal::WorkersFull);
        }
        if !is_known || registration.is_some() {
            self.members.put(now, worker.clone(), registration);
        }
        self.members.hear(now, worker);
        Ok(())
    }

    fn forget_member(&mut self, worker: &WorkerId) {
        let member = self.members.remove(worker);
        let was_registered = member.is_some_and(|member| member.registration.is_some());
        let worker = worker.clone();
        self.effects.push_back(SessionEffect::ForgetMember { worker, was_registered });
    }

    /// What workers without a session registered, by name.
    pub fn registrations(&self) -> impl Iterator<Item = (&WorkerId, &Arc<Registration>)> {
        self.members.registrations()
    }

    pub(super) fn evict_member(&mut self, worker: &WorkerId) {
        self.members.evicted += 1;
        self.forget_member(worker);
    }

    /// How many workers without a session are remembered, and how many were forgotten.
    pub fn member_counts(&self) -> SessionCounts {
        self.members.counts()
    }
}

/// The half of the table that has no sessions.
#[derive(Debug, Default)]
pub(super) struct Members {
    all: BTreeMap<WorkerId, Member>,
    /// Least recently heard of first: those who only named themselves, and those who registered.
    /// A moment may be older than the newest sign of life; it is put right when it comes first.
    silent: [BTreeSet<(Timestamp, WorkerId)>; 2],
    pub(super) evicted: u64,
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) registration: Option<Arc<Registration>>,
    /// `None` until it is heard of: after a restart everyone is taken for dead.
    heard_at: Option<Timestamp>,
    queued_at: Timestamp,
}

impl Member {
    pub(super) fn is_alive(&self, now: Timestamp) -> bool {
        self.heard_at.is_some_and(|at| now.since(at) < DEAD_AFTER)
    }

    fn class(&self) -> usize {
        usize::from(self.registration.is_some())
    }
}

impl Members {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn counts(&self) -> SessionCounts {
        SessionCounts { known: self.all.len(), evicted: self.evicted }
    }

    pub(super) fn get(&self, worker: &WorkerId) -> Option<&Member> {
        self.all.get(worker)
    }

    /// A worker gives a sign of life. `false` if it is not known.
    pub(super) fn hear(&mut self, now: Timestamp, worker: &WorkerId) -> bool {
        let member = self.all.get_mut(worker);
        member.is_some_and(|member| {
            member.heard_at = Some(now);
            true
        })
    }

    /// Adds a worker or replaces its registration; nobody has heard of it yet.
    pub(super) fn put(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        registration: Option<Arc<Registration>>,
    ) {
        self.remove(&worker);
        let member = Member { registration, heard_at: None, queued_at: now };
        self.silent[member.class()].insert((now, worker.clone()));
        self.all.insert(worker, member);
    }

    pub(super) fn remove(&mut self, worker: &WorkerId) -> Option<Member> {
        let member = self.all.remove(worker)?;
        self.silent[member.class()].remove(&(member.queued_at, worker.clone()));
        Some(member)
    }

    /// Who was not heard of for longer than is kept.
    pub(super) fn overdue(&mut self, now: Timestamp) -> Option<WorkerId> {
        let oldest = [self.oldest(0), self.oldest(1)].into_iter().flatten().min()?;
        (now.since(oldest.0) >= MEMBER_KEPT_FOR).then_some(oldest.1)
    }

    /// Who makes room first. A worker that registered and lives does not.
    pub(super) fn replaceable(&mut self, now: Timestamp) -> Option<(Timestamp, WorkerId)> {
        let (named, registered) = (self.oldest(0), self.oldest(1));
        let registered = registered.filter(|(_, worker)| !self.all[worker].is_alive(now));
        named.into_iter().chain(registered).min()
    }

    fn oldest(&mut self, class: usize) -> Option<(Timestamp, WorkerId)> {
        let silent = &mut self.silent[class];
        loop {
            let (queued_at, worker) = silent.first()?;
            let member = self.all.get_mut(worker).expect("the order holds members alone");
            match member.heard_at {
                Some(heard_at) if heard_at > *queued_at => {
                    let (_, worker) = silent.pop_first().expect("it is the first");
                    member.queued_at = heard_at;
                    silent.insert((heard_at, worker));
                }
                _ => return Some((*queued_at, worker.clone())),
            }
        }
    }

    pub(super) fn registrations(&self) -> impl Iterator<Item = (&WorkerId, &Arc<Registration>)> {
        let all = self.all.iter();
        all.filter_map(|(worker, member)| Some((worker, member.registration.as_ref()?)))
    }

    pub(super) fn check_invariants(&self) {
        let n_queued: usize = self.silent.iter().map(BTreeSet::len).sum();
        assert_eq!(n_queued, self.all.len(), "everyone can be forgotten, once");
        for (worker, member) in &self.all {
            let is_queued =
                self.silent[member.class()].contains(&(member.queued_at, worker.clone()));
            assert!(is_queued, "{worker} can be forgotten");
        }
    }
}
