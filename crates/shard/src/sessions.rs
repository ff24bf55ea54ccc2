//! Which workers of one tenant are connected, who was, and who takes over from whom: those with a
//! session, by their instance id, and those without, by their name (`members`).
//!
//! A part of the shard: calls carry the time, [`SessionTable::poll_effect`] says what came of them.
//! Rows are written in the turn, and whoever claims, opens or hands over hears of it when the turn
//! is durable.

mod members;
mod message;
mod names;
mod notice;
mod record;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use model::{Timestamp, WorkerId};
use protocol::rest::workers::KeptResources;

use self::members::Members;
pub use self::members::{DEAD_AFTER, MEMBER_KEPT_FOR, MemberMessage, Registration};
pub use self::message::{ClaimError, Claimed, LinkMessage, LinkWord, SessionClaim, SessionEffect};
pub use self::notice::{Call, Carried, Notice, Revoked};
pub use self::record::{SessionRecord, TOKEN_LIFETIME};

/// Limit: takeovers of one worker per minute; one more is held off, because two processes seem to
/// fight over one identity.
const TAKEOVERS_MAX: usize = 3;
/// See [`TAKEOVERS_MAX`].
pub const TAKEOVERS_WITHIN: Duration = Duration::from_mins(1);
/// Limit: how long the windows of a session without a connection are kept. A worker that comes
/// later resumes as after a restart of the server.
pub const PARKED_FOR: Duration = Duration::from_mins(5);
/// A name stays its worker's for so long after it left.
const NAME_KEPT_FOR: Duration = Duration::from_mins(1);
/// How long a connection may take to hand its session on.
pub const HANDOVER_WITHIN: Duration = Duration::from_secs(2);
/// Limit: workers of one tenant that are remembered, with a session and without. Beyond it the
/// least recently seen one is forgotten that is not here; if all are here, a new worker is refused.
const SESSIONS_MAX: usize = 25_000;
/// Limit: a worker with a session but without a connection is forgotten after this: no token of it
/// can be good any more.
pub const SESSION_KEPT_FOR: Duration = Duration::from_hours(25);

/// Names one connection, for as long as the process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// What a worker said of itself last.
#[derive(Clone, Debug)]
pub struct HeartbeatFacts {
    /// When it said so.
    pub at: Timestamp,
    /// Whether it calls itself healthy.
    pub healthy: bool,
    /// Processor time in use, in percent.
    pub cpu_pct: Option<f64>,
    /// Memory in use, in percent.
    pub mem_pct: Option<f64>,
    /// Disk in use, in percent.
    pub disk_pct: Option<f64>,
    /// Tasks that it works on.
    pub inflight: u64,
    /// How much it keeps.
    pub resources: Option<KeptResources>,
}

/// One session, for people.
#[derive(Clone, Debug)]
pub struct SessionView {
    /// What is durable of it.
    pub record: Option<SessionRecord>,
    /// Whether a connection speaks for the worker.
    pub is_connected: bool,
    /// What it said last.
    pub heartbeat: Option<HeartbeatFacts>,
}

/// How many sessions there are, and were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionCounts {
    /// Workers that are remembered, with a connection or without.
    pub known: usize,
    /// Workers that were forgotten, by age or to make room.
    pub evicted: u64,
}

/// The workers of one tenant.
#[derive(Debug)]
pub struct SessionTable {
    /// Workers with a session, by instance id.
    entries: BTreeMap<String, Entry>,
    /// Whose name it is, of workers with a session.
    names: BTreeMap<WorkerId, String>,
    /// Workers without a session.
    members: Members,
    /// Which instance a connection speaks for, wants to speak for, or has yet to hand over.
    links: BTreeMap<LinkId, String>,
    /// Instances without a connection, least recently seen first.
    away: BTreeSet<(Timestamp, String)>,
    /// Parked sessions, oldest first.
    parked: VecDeque<(Timestamp, String)>,
    /// Hand-overs that are waited for, the earliest deadline first.
    handovers: BTreeSet<(Timestamp, String)>,
    sessions_max: usize,
    evicted: u64,
    effects: VecDeque<SessionEffect>,
}

#[derive(Debug)]
struct Entry {
    record: Option<SessionRecord>,
    worker: WorkerId,
    presence: Presence,
    /// When a connection of it ended last, or its token was renewed as far as the store knows.
    seen_at: Timestamp,
    takeovers: VecDeque<Timestamp>,
    heartbeat: Option<HeartbeatFacts>,
    /// Whether its name was another instance's, until its first session is open.
    is_successor: bool,
}

/// ```text
/// Away    --> Here     a connection claims the worker
/// Here    --> Waiting  another connection claims it
/// Here    --> Away     the connection parks, or is gone
/// Waiting --> Here     the former connection parks, is gone, or is too late
/// Waiting --> Away     the same, after the new connection has gone too
/// ```
#[derive(Debug)]
enum Presence {
    /// No connection.
    Away { since: Timestamp, parked: Option<Box<Carried>> },
    /// The former connection hands its session on, to the newest that claimed it.
    Waiting { claimant: Option<LinkId>, former: LinkId, until: Timestamp },
    /// This connection carries the session, or is about to.
    Here { link: LinkId },
}

impl Presence {
    /// The connection that speaks for the worker, or will.
    fn speaker(&self) -> Option<LinkId> {
        match self {
            Self::Away { .. } => None,
            Self::Waiting { claimant, .. } => *claimant,
            Self::Here { link } => Some(*link),
        }
    }
}

impl Default for SessionTable {
    fn default() -> Self {
        Self::with_limit(SESSIONS_MAX)
    }
}

impl SessionTable {
    /// A table that remembers at most so many workers.
    pub fn with_limit(sessions_max: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            names: BTreeMap::new(),
            members: Members::default(),
            links: BTreeMap::new(),
            away: BTreeSet::new(),
            parked: VecDeque::new(),
            handovers: BTreeSet::new(),
            sessions_max,
            evicted: 0,
            effects: VecDeque::new(),
        }
    }

    /// Takes back a session that the store kept; one whose tokens are all over is deleted.
    pub fn restore(&mut self, now: Timestamp, record: SessionRecord) {
        let instance_id = record.instance_id.clone();
        let worker = record.worker_id().filter(|_| !record.is_over(now));
        let Some(worker) = worker else {
            self.effects.push_back(SessionEffect::Forget { instance_id });
            return;
        };
        let seen_at = record.token_issued_at();
        self.forget_namesake(&worker, &instance_id);
        let entry = Entry { record: Some(record), seen_at, ..Entry::away(worker, now) };
        self.insert(instance_id, entry);
        self.make_room_for(now, 0);
    }

    /// Adds a worker without a connection.
    fn insert(&mut self, instance_id: String, entry: Entry) {
        let namesake = self.names.insert(entry.worker.clone(), instance_id.clone());
        assert!(namesake.is_none_or(|other| other == instance_id), "a name has one worker");
        let is_new = self.away.insert((entry.seen_at, instance_id.clone()));
        assert!(is_new, "a worker is away once");
        let before = self.entries.insert(instance_id, entry);
        assert!(before.is_none(), "a worker is added once");
    }

    // ----- connections

    /// A connection says something. Gives the answer that can be given at once.
    pub fn on_message(
        &mut self,
        now: Timestamp,
        link: LinkId,
        message: LinkMessage,
    ) -> Option<LinkWord> {
        match message {
            LinkMessage::Claim(claim) => {
                return self.claim(now, link, &claim).err().map(LinkWord::NotClaimed);
            }
            LinkMessage::Open(record) => {
                return Some(LinkWord::Opened { is_held: self.open(link, *record) });
            }
            LinkMessage::Renew => return Some(LinkWord::Opened { is_held: self.renew(now, link) }),
            LinkMessage::End { session_id } => self.end(link, &session_id),
            LinkMessage::Park(carried) => self.park(now, link, *carried),
            LinkMessage::Heartbeat(facts) => self.note_heartbeat(link, *facts),
        }
        None
    }

    /// Makes a connection the one that speaks for a worker. Answered by the effect `Claimed`, at
    /// once or when the connection before has handed its session over.
    pub fn claim(
        &mut self,
        now: Timestamp,
        link: LinkId,
        claim: &SessionClaim,
    ) -> Result<(), ClaimError> {
        self.tick(now);
        self.check_rights(claim)?;
        if self.links.get(&link).is_some_and(|held| *held != claim.instance_id) {
            self.on_link_gone(now, link);
        }
        self.check_bound_name(now, claim)?;
        if !self.entries.contains_key(&claim.instance_id) {
            self.add(now, claim)?;
        }
        self.seize(now, link, claim)
    }

    /// Whoever goes on with a session must know which. An identity belongs to the credential that it
    /// came with, as long as that one is good and the worker is here: whoever else knows its
    /// instance id must not take its place.
    fn check_rights(&self, claim: &SessionClaim) -> Result<(), ClaimError> {
        let instance_id = &claim.instance_id;
        if let Some(session_id) = &claim.resumes {
            let known = self.record(instance_id, session_id);
            return known.map(|_| ()).ok_or(ClaimError::UnknownSession);
        }
        match self.credential_of(instance_id) {
            Some(holder)
                if claim.token_id.as_deref() != Some(holder)
                    && claim.revoked.as_deref() != Some(holder) =>
            {
                Err(ClaimError::OtherCredential(holder.to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// Whether a claim gets the only name that it may have.
    fn check_bound_name(&self, now: Timestamp, claim: &SessionClaim) -> Result<(), ClaimError> {
        let Some(bound) = &claim.bound else { return Ok(()) };
        let entry = self.entries.get(&claim.instance_id);
        if let Some(entry) = entry.filter(|entry| entry.worker != *bound) {
            return Err(ClaimError::OtherWorker(entry.worker.clone()));
        }
        let holder = self.names.get(bound).filter(|holder| **holder != claim.instance_id);
        let is_here =
            holder.is_some_and(|holder| self.entries[holder].presence.speaker().is_some());
        if is_here || self.is_anothers(now, bound, claim.token_id.as_deref()) {
            return Err(ClaimError::NameTaken(bound.clone()));
        }
        Ok(())
    }

    fn add(&mut self, now: Timestamp, claim: &SessionClaim) -> Result<(), ClaimError> {
        let worker = match &claim.bound {
            Some(bound) => bound.clone(),
            None => {
                names::unique(&claim.given_name, &claim.instance_id, |name| self.is_free(name, now))
            }
        };
        let is_successor = self.forget_namesake(&worker, &claim.instance_id);
        if !self.make_room_for(now, 1) {
            return Err(ClaimError::TableFull);
        }
        let entry = Entry { is_successor, ..Entry::away(worker, now) };
        self.insert(claim.instance_id.clone(), entry);
        Ok(())
    }

    /// Forgets the other instance that had a name: it cannot come back under it.
    fn forget_namesake(&mut self, name: &WorkerId, instance_id: &str) -> bool {
        let holder = self.names.get(name).filter(|holder| *holder != instance_id).cloned();
        holder.is_some_and(|holder| {
            self.forget(&holder);
            true
        })
    }

    fn is_free(&self, name: &WorkerId, now: Timestamp) -> bool {
        self.names.get(name).is_none_or(|holder| self.entries[holder].has_left(now))
            && self.members.get(name).is_none_or(|member| !member.is_alive(now))
    }

    /// Seats a connection in an entry that exists.
    fn seize(
        &mut self,
        now: Timestamp,
        link: LinkId,
        claim: &SessionClaim,
    ) -> Result<(), ClaimError> {
        let instance_id = &claim.instance_id;
        let Some(entry) = self.entries.get_mut(instance_id) else { return Ok(()) };
        let speaker = entry.presence.speaker().filter(|speaker| *speaker != link);
        if speaker.is_some() && claim.resumes.is_none() {
            entry.count_takeover(now)?;
        }
        self.links.insert(link, instance_id.clone());
        if let Some(former) = speaker {
            self.effects.push_back(SessionEffect::HandOver { link: former });
        }
        match &mut entry.presence {
            Presence::Away { parked, .. } => {
                let carried = parked.take().map(|parked| *parked).unwrap_or_default();
                let was_away = self.away.remove(&(entry.seen_at, instance_id.clone()));
                assert!(was_away, "a worker without a connection is away");
                self.seat(instance_id, link, carried);
            }
            Presence::Here { link: own } if *own == link => {
                self.seat(instance_id, link, Carried::default());
            }
            Presence::Here { link: former } => {
                let (former, until) = (*former, now.after(HANDOVER_WITHIN));
                let is_new = self.handovers.insert((until, instance_id.clone()));
                assert!(is_new, "a worker is handed over once at a time");
                entry.presence = Presence::Waiting { claimant: Some(link), former, until };
            }
            Presence::Waiting { claimant, former, until } => {
                let until = *until;
                // The one that waited had nothing yet that it could hand on.
                if let Some(superseded) = claimant.replace(link).filter(|other| *other != link) {
                    self.links.remove(&superseded);
                }
                // The former connection begins anew before it has handed anything over.
                if *former == link {
                    self.handovers.remove(&(until, instance_id.clone()));
                    self.seat(instance_id, link, Carried::default());
                }
            }
        }
        Ok(())
    }

    /// The connection has the worker.
    fn seat(&mut self, instance_id: &str, link: LinkId, carried: Carried) {
        let Some(entry) = self.entries.get_mut(instance_id) else { return };
        entry.presence = Presence::Here { link };
        let claimed = Box::new(Claimed {
            worker: entry.worker.clone(),
            carried,
            record: entry.record.clone(),
            is_successor: entry.is_successor,
        });
        self.effects.push_back(SessionEffect::Claimed { link, claimed });
    }

    /// The session of a claimed worker opens. `false` if the connection no longer speaks for the
    /// worker.
    pub fn open(&mut self, link: LinkId, record: SessionRecord) -> bool {
        let Some(entry) = self.entry_of(link) else { return false };
        entry.is_successor = false;
        entry.record = Some(record.clone());
        self.effects.push_back(SessionEffect::Keep(Box::new(record)));
        true
    }

    /// A resumed session gets a new token: gives its row, unless that was written lately.
    pub fn renew(&mut self, now: Timestamp, link: LinkId) -> bool {
        let Some(record) = self.entry_of(link).and_then(|entry| entry.record.as_mut()) else {
            return false;
        };
        if record.renew(now) {
            let record = Box::new(record.clone());
            self.effects.push_back(SessionEffect::Keep(record));
        }
        true
    }

    /// The entry whose worker a connection speaks for.
    fn entry_of(&mut self, link: LinkId) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(self.links.get(&link)?)?;
        matches!(entry.presence, Presence::Here { link: own } if own == link).then_some(entry)
    }

    /// The session of the worker that a connection speaks for.
    pub(crate) fn record_of(&self, link: LinkId) -> Option<&SessionRecord> {
        self.entries.get(self.links.get(&link)?)?.record.as_ref()
    }

    /// The session that a connection had is over: nobody can go on with it.
    pub fn end(&mut self, link: LinkId, session_id: &str) {
        let Some(entry) = self.entry_of(link) else { return };
        if entry.record.take_if(|record| record.session_id == session_id).is_some()
            && let Some(instance_id) = self.links.get(&link).cloned()
        {
            self.effects.push_back(SessionEffect::Forget { instance_id });
        }
    }

    /// The connection no longer speaks for its worker. What it carried waits for the next one, or
    /// goes to the one that claimed the worker meanwhile.
    pub fn park(&mut self, now: Timestamp, link: LinkId, carried: Carried) {
        self.tick(now);
        let Some(instance_id) = self.links.remove(&link) else { return };
        let Some(entry) = self.entries.get_mut(&instance_id) else { return };
        match &mut entry.presence {
            Presence::Here { link: own } if *own == link => {
                self.leave(now, instance_id, Some(carried));
            }
            Presence::Waiting { former, until, claimant } if *former == link => {
                let was_due = self.handovers.remove(&(*until, instance_id.clone()));
                assert!(was_due, "a hand-over has a deadline");
                match *claimant {
                    Some(claimant) => self.seat(&instance_id, claimant, carried),
                    None => self.leave(now, instance_id, Some(carried)),
                }
            }
            Presence::Waiting { claimant, .. } if *claimant == Some(link) => *claimant = None,
            // Another connection has the worker, and went on without what this one carried.
            Presence::Waiting { .. } | Presence::Here { .. } | Presence::Away { .. } => {}
        }
    }

    /// What a claim was granted found nobody: it waits for the next connection, unless that one is
    /// here already.
    fn put_back_parked(&mut self, worker: &WorkerId, carried: Carried) {
        let Some(instance_id) = self.names.get(worker) else { return };
        if let Some(entry) = self.entries.get_mut(instance_id)
            && let Presence::Away { parked, .. } = &mut entry.presence
            && parked.as_ref().is_some_and(|parked| parked.is_nothing())
        {
            *parked = Some(Box::new(carried));
        }
    }

    /// A claim that was granted found nobody.
    pub fn put_back(&mut self, now: Timestamp, link: LinkId, claimed: Claimed) {
        if self.links.contains_key(&link) {
            self.park(now, link, claimed.carried);
        } else {
            // The connection gave up before it knew what it had been given.
            self.put_back_parked(&claimed.worker, claimed.carried);
        }
    }

    /// The connection is gone, whatever it was in the middle of. Does nothing after `park`.
    pub fn on_link_gone(&mut self, now: Timestamp, link: LinkId) {
        self.park(now, link, Carried::default());
    }

    fn leave(&mut self, now: Timestamp, instance_id: String, carried: Option<Carried>) {
        let Some(entry) = self.entries.get_mut(&instance_id) else { return };
        let parked = carried.map(Box::new);
        if parked.is_some() {
            self.parked.push_back((now, instance_id.clone()));
        }
        entry.presence = Presence::Away { since: now, parked };
        entry.seen_at = now;
        let is_new = self.away.insert((now, instance_id));
        assert!(is_new, "a worker that leaves was here");
    }

    // ----- time

    /// When `tick` has something to do that somebody waits for.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.handovers.first().map(|(until, _)| *until)
    }

    /// Acts on every deadline up to `now`: hand-overs that took too long, windows that nobody came
    /// back for, workers that were away for too long.
    pub fn tick(&mut self, now: Timestamp) {
        while self.handovers.first().is_some_and(|(until, _)| *until <= now)
            && let Some((_, instance_id)) = self.handovers.pop_first()
        {
            self.give_up_handover(now, instance_id);
        }
        let is_old = |parked: &mut (Timestamp, String)| now.since(parked.0) >= PARKED_FOR;
        while let Some((at, instance_id)) = self.parked.pop_front_if(is_old) {
            if let Some(entry) = self.entries.get_mut(&instance_id)
                && let Presence::Away { since, parked } = &mut entry.presence
                && *since == at
            {
                *parked = None;
            }
        }
        while let Some((seen_at, instance_id)) = self.away.first()
            && now.since(*seen_at) >= SESSION_KEPT_FOR
        {
            let instance_id = instance_id.clone();
            self.evict(&instance_id);
        }
        while let Some(worker) = self.members.overdue(now) {
            self.evict_member(&worker);
        }
    }

    /// The connection before is stuck or gone; its windows are lost with it.
    fn give_up_handover(&mut self, now: Timestamp, instance_id: String) {
        let Some(entry) = self.entries.get(&instance_id) else { return };
        let Presence::Waiting { claimant, former, .. } = entry.presence else { return };
        self.links.remove(&former);
        match claimant {
            Some(claimant) => self.seat(&instance_id, claimant, Carried::default()),
            None => self.leave(now, instance_id, None),
        }
    }

    /// Forgets the least recently seen until there is room for so many more.
    fn make_room_for(&mut self, now: Timestamp, n_more: usize) -> bool {
        while self.entries.len() + self.members.len() + n_more > self.sessions_max {
            let (away, silent) = (self.away.first().cloned(), self.members.replaceable(now));
            match (away, silent) {
                (Some((seen_at, instance_id)), silent)
                    if silent.as_ref().is_none_or(|(heard_at, _)| seen_at <= *heard_at) =>
                {
                    self.evict(&instance_id);
                }
                (_, Some((_, worker))) => self.evict_member(&worker),
                (_, None) => return false,
            }
        }
        true
    }

    fn evict(&mut self, instance_id: &str) {
        self.evicted += 1;
        self.forget(instance_id);
    }

    /// Forgets a worker without a connection.
    fn forget(&mut self, instance_id: &str) {
        let Some(entry) = self.entries.remove(instance_id) else { return };
        match entry.presence {
            Presence::Away { .. } => {
                let was_away = self.away.remove(&(entry.seen_at, instance_id.to_owned()));
                assert!(was_away, "a worker without a connection is away");
            }
            Presence::Waiting { until, former, .. } => {
                let was_due = self.handovers.remove(&(until, instance_id.to_owned()));
                assert!(was_due, "a hand-over has a deadline");
                self.links.remove(&former);
            }
            Presence::Here { link } => {
                self.links.remove(&link);
            }
        }
        if self.names.get(&entry.worker).is_some_and(|holder| holder == instance_id) {
            self.names.remove(&entry.worker);
        }
        if entry.record.is_some() {
            let instance_id = instance_id.to_owned();
            self.effects.push_back(SessionEffect::Forget { instance_id });
        }
    }

    /// What the caller is to do next.
    pub fn poll_effect(&mut self) -> Option<SessionEffect> {
        self.effects.pop_front()
    }

    // ----- questions

    /// The credential of a worker that is connected, if it came with one.
    pub fn credential_of(&self, instance_id: &str) -> Option<&str> {
        let entry = self.entries.get(instance_id)?;
        entry.presence.speaker()?;
        entry.record.as_ref()?.token_id.as_deref()
    }

    /// The session a worker can go on with, if this is one.
    pub fn record(&self, instance_id: &str, session_id: &str) -> Option<&SessionRecord> {
        let record = self.entries.get(instance_id)?.record.as_ref()?;
        (record.session_id == session_id).then_some(record)
    }

    /// The connection that speaks for a worker.
    pub fn link_of(&self, worker: &WorkerId) -> Option<LinkId> {
        self.entries.get(self.names.get(worker)?)?.presence.speaker()
    }

    /// The connections whose sessions a credential opened.
    pub fn links_of_credential(&self, token_id: &str) -> impl Iterator<Item = LinkId> {
        let of_it = self.entries.values().filter(move |entry| {
            let record = entry.record.as_ref();
            record.is_some_and(|record| record.token_id.as_deref() == Some(token_id))
        });
        of_it.filter_map(|entry| entry.presence.speaker())
    }

    /// A worker said how it is.
    pub fn note_heartbeat(&mut self, link: LinkId, facts: HeartbeatFacts) {
        if let Some(entry) = self.entry_of(link) {
            entry.heartbeat = Some(facts);
        }
    }

    /// The session behind a worker's name.
    pub fn view(&self, worker: &WorkerId) -> Option<SessionView> {
        let entry = self.entries.get(self.names.get(worker)?)?;
        Some(SessionView {
            record: entry.record.clone(),
            is_connected: entry.presence.speaker().is_some(),
            heartbeat: entry.heartbeat.clone(),
        })
    }

    /// How many workers with a session are remembered, and how many were forgotten.
    pub fn counts(&self) -> SessionCounts {
        SessionCounts { known: self.entries.len(), evicted: self.evicted }
    }

    /// What must hold after every step.
    pub fn check_invariants(&self) {
        assert!(self.entries.len() + self.members.len() <= self.sessions_max, "bounded");
        self.members.check_invariants();
        let mut n_away = 0;
        for (instance_id, entry) in &self.entries {
            let key = |at: Timestamp| (at, instance_id.clone());
            match entry.presence {
                Presence::Away { .. } => {
                    n_away += 1;
                    assert!(
                        self.away.contains(&key(entry.seen_at)),
                        "{instance_id} can be evicted"
                    );
                }
                Presence::Waiting { claimant, former, until } => {
                    assert!(self.handovers.contains(&key(until)), "{instance_id} has a deadline");
                    for link in claimant.into_iter().chain([former]) {
                        assert_eq!(self.links.get(&link), Some(instance_id), "{link:?}");
                    }
                }
                Presence::Here { link } => {
                    assert_eq!(self.links.get(&link), Some(instance_id), "{link:?}");
                }
            }
        }
        assert_eq!(n_away, self.away.len(), "nobody else can be evicted");
        assert_eq!(self.names.len(), self.entries.len(), "a name belongs to one worker");
    }
}

impl Entry {
    fn away(worker: WorkerId, since: Timestamp) -> Self {
        Self {
            record: None,
            worker,
            presence: Presence::Away { since, parked: None },
            seen_at: since,
            takeovers: VecDeque::new(),
            heartbeat: None,
            is_successor: false,
        }
    }

    /// Whether its name is free for others.
    fn has_left(&self, now: Timestamp) -> bool {
        match self.presence {
            Presence::Away { since, .. } => now.since(since) >= NAME_KEPT_FOR,
            Presence::Waiting { .. } | Presence::Here { .. } => false,
        }
    }

    fn count_takeover(&mut self, now: Timestamp) -> Result<(), ClaimError> {
        self.takeovers.retain(|at| now.since(*at) < TAKEOVERS_WITHIN);
        if self.takeovers.len() >= TAKEOVERS_MAX {
            return Err(ClaimError::TooManyTakeovers);
        }
        self.takeovers.push_back(now);
        Ok(())
    }
}
