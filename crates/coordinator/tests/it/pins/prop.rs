//! Random pins, keys, drains, pauses and losses, against the rules written down a second time
//! without any index: nobody gets what belongs to another, everyone gets the best that he may
//! have, and nothing that could be granted is left while someone waits for it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use coordinator::{
    Answer, Change, Command, Coordinator, Drain, Effect, LeaseRequest, Moment, Pause, Question,
    SilenceLimits, Step, TaskRecord, TaskState, Ticket, WaitReason,
};
use model::{
    AffinityKey, Failure, LeaseId, NewTask, Offer, Pin, Report, ReportKey, ReportedOutcome,
    TaskSpec, Timestamp, WorkerId,
};
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::story::{Kept, START, plain_request, plain_spec, plain_task, shard};

const TTL: Duration = Duration::from_secs(20);
const WAIT_MAX: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, Debug)]
enum Deed {
    Submit { kind: u8, pin: PinKind, key: Option<u8> },
    Ask { worker: u8, kind: u8, max: u32, wait_s: u64 },
    Report { lease: Index, completes: bool },
    Drain { worker: u8, on: bool },
    Pause { kind: u8, on: bool },
    Unregister { worker: u8 },
    Pass(u64),
    Restart,
}

#[derive(Clone, Copy, Debug)]
enum PinKind {
    None,
    Hard(u8),
    Patient(u8),
    Soft(u8),
    Sticky(u8),
    Liked(u8),
}

fn any_deed() -> impl Strategy<Value = Deed> {
    let pin = prop_oneof![
        2 => Just(PinKind::None),
        2 => (0..4_u8).prop_map(PinKind::Hard),
        1 => (0..4_u8).prop_map(PinKind::Patient),
        1 => (0..4_u8).prop_map(PinKind::Soft),
        3 => (0..2_u8).prop_map(PinKind::Sticky),
        1 => (0..2_u8).prop_map(PinKind::Liked),
    ];
    prop_oneof![
        8 => (0..3_u8, pin, weighted(0.2, 0..2_u8))
            .prop_map(|(kind, pin, key)| Deed::Submit { kind, pin, key }),
        8 => (0..4_u8, 0..2_u8, 1..4_u32, prop_oneof![Just(0), 0..60_u64])
            .prop_map(|(worker, kind, max, wait_s)| Deed::Ask { worker, kind, max, wait_s }),
        5 => (any::<Index>(), prop::bool::weighted(0.7))
            .prop_map(|(lease, completes)| Deed::Report { lease, completes }),
        1 => (0..4_u8, any::<bool>()).prop_map(|(worker, on)| Deed::Drain { worker, on }),
        1 => (0..3_u8, any::<bool>()).prop_map(|(kind, on)| Deed::Pause { kind, on }),
        1 => (0..4_u8).prop_map(|worker| Deed::Unregister { worker }),
        4 => prop_oneof![0..1_000_u64, 0..40_000_u64].prop_map(Deed::Pass),
        1 => Just(Deed::Restart),
    ]
}

proptest! {
    #[test]
    fn everyone_gets_what_belongs_to_him_and_nothing_is_left(deeds in vec(any_deed(), 1..120)) {
        let mut world = World::new();
        for deed in deeds {
            world.play(&deed);
        }
    }
}

struct World {
    coordinator: Coordinator,
    kept: Kept,
    now: Timestamp,
    last_ticket: u64,
    waiting: BTreeMap<Ticket, LeaseRequest>,
    /// The request that is being carried out.
    asked: Option<(Ticket, LeaseRequest)>,
    drained: BTreeSet<WorkerId>,
    paused: BTreeSet<u8>,
    bound: BTreeMap<AffinityKey, (WorkerId, Timestamp)>,
    /// When the last live task with a key has gone.
    idle_since: BTreeMap<AffinityKey, Timestamp>,
    heard: BTreeMap<WorkerId, Timestamp>,
}

fn worker(number: u8) -> WorkerId {
    format!("w{number}").parse().expect("a worker")
}

fn affinity(number: u8) -> AffinityKey {
    format!("k{number}").parse().expect("a key")
}

/// Plain, urgent with a tool, of another queue.
fn spec(kind: u8) -> TaskSpec {
    let mut spec = TaskSpec { lease_ttl: Duration::from_secs(10), ..plain_spec() };
    spec.demand.queue = format!("q{kind}").parse().expect("a queue");
    spec.retry.backoff = Duration::from_secs(u64::from(kind));
    if kind == 1 {
        spec.priority = 5;
        spec.demand.tools = BTreeSet::from(["x".parse().expect("a tool")]);
    }
    spec
}

fn pin(kind: PinKind) -> Option<Box<Pin>> {
    let because = || "a resource".to_owned();
    let to = |number, is_hard, wait_max| Pin::Worker {
        worker: worker(number),
        is_hard,
        wait_max,
        because: because(),
    };
    let by = |number, is_hard| Pin::Key { key: affinity(number), is_hard, ttl: TTL };
    Some(Box::new(match kind {
        PinKind::None => return None,
        PinKind::Hard(number) => to(number, true, None),
        PinKind::Patient(number) => to(number, true, Some(WAIT_MAX)),
        PinKind::Soft(number) => to(number, false, None),
        PinKind::Sticky(number) => by(number, true),
        PinKind::Liked(number) => by(number, false),
    }))
}

fn key_of(record: &TaskRecord) -> Option<&AffinityKey> {
    match record.pin.as_deref()? {
        Pin::Key { key, .. } => Some(key),
        Pin::Worker { .. } => None,
    }
}

impl World {
    fn new() -> Self {
        let at = Moment { now: START, wall: START, entropy: 0 };
        Self {
            coordinator: Coordinator::restore(shard(), 0, [], at),
            kept: Kept::default(),
            now: START,
            last_ticket: 0,
            waiting: BTreeMap::new(),
            asked: None,
            drained: BTreeSet::new(),
            paused: BTreeSet::new(),
            bound: BTreeMap::new(),
            idle_since: BTreeMap::new(),
            heard: BTreeMap::new(),
        }
    }

    fn play(&mut self, deed: &Deed) {
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        match *deed {
            Deed::Submit { kind, pin: pinned, key } => {
                let key = key.map(|key| format!("flight{key}").parse().expect("a key"));
                let (spec, pin) = (Arc::new(spec(kind)), pin(pinned));
                let tasks = vec![NewTask { spec, pin, concurrency_key: key, ..plain_task() }];
                self.order(Command::Ask(ticket, Question::Submit { tasks }));
            }
            Deed::Ask { worker: number, kind, max, wait_s } => {
                let wait_until = self.now.after(Duration::from_secs(wait_s));
                let mut offer = Offer::default();
                offer.tools.extend((kind == 1).then(|| "x".parse().expect("a tool")));
                let request = plain_request(worker(number), wait_until);
                let request = LeaseRequest { offer: Arc::new(offer), max, ..request };
                self.heard.insert(request.worker.clone(), self.now);
                self.asked = Some((ticket, request.clone()));
                self.order(Command::Ask(ticket, Question::RequestLeases { request }));
                self.waiting.extend(self.asked.take());
                self.check_nothing_is_left();
            }
            Deed::Report { lease, completes } => self.report(ticket, lease, completes),
            Deed::Drain { worker: number, on } => {
                let worker = worker(number);
                if on {
                    self.drained.insert(worker.clone())
                } else {
                    self.drained.remove(&worker)
                };
                let (by, at) = ("ada".to_owned(), self.now);
                let drain = on.then_some(Drain { by, at, gone_by: None, reason: None });
                self.order(Command::Ask(ticket, Question::Drain { worker, drain }));
            }
            Deed::Pause { kind, on } => {
                if on {
                    self.paused.insert(kind)
                } else {
                    self.paused.remove(&kind)
                };
                let pause = on.then(|| Pause { by: "ada".to_owned(), at: self.now });
                let queue = spec(kind).demand.queue;
                self.order(Command::Ask(ticket, Question::SetPause { queue, pause }));
            }
            Deed::Unregister { worker: number } => {
                let gone = worker(number);
                self.waiting.retain(|_, request| request.worker != gone);
                self.bound.retain(|_, (worker, _)| *worker != gone);
                self.heard.remove(&gone);
                self.order(Command::Ask(ticket, Question::Unregister { worker: gone }));
            }
            Deed::Pass(millis) => self.pass(Duration::from_millis(millis)),
            Deed::Restart => self.restart(),
        }
    }

    fn report(&mut self, ticket: Ticket, lease: Index, completes: bool) {
        let held: Vec<(LeaseId, WorkerId)> = self.kept.live().filter_map(held).collect();
        if held.is_empty() {
            return;
        }
        let (lease, worker) = lease.get(&held).clone();
        let outcome = if completes {
            ReportedOutcome::Completed { result: Bytes::from_static(b"1"), extra: None }
        } else {
            let failure = Failure::new("E.TEST", "boom");
            ReportedOutcome::Failed { failure, retryable: true }
        };
        if let Some(heard) = self.heard.get_mut(&worker) {
            *heard = self.now;
        }
        let reports = vec![Report { lease, worker, key: ReportKey(1), outcome }];
        self.order(Command::Ask(ticket, Question::Report { reports }));
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now.after(time);
        while let Some(due) = self.coordinator.next_deadline().filter(|due| *due <= end) {
            self.now = due.max(self.now);
            self.forget_lost();
            let step = self.coordinator.tick(Moment { now: self.now, wall: self.now, entropy: 7 });
            self.see(&step);
        }
        self.now = end;
    }

    /// Who was silent for too long has lost what was bound to him.
    fn forget_lost(&mut self) {
        for (worker, heard) in &self.heard {
            let asks = self.waiting.values().any(|request| request.worker == *worker);
            if !asks && self.now.since(*heard) >= SilenceLimits::STANDARD.lost_after {
                self.bound.retain(|_, (bound, _)| bound != worker);
            }
        }
    }

    fn restart(&mut self) {
        self.pass(Duration::ZERO);
        self.waiting.clear();
        self.bound.clear();
        self.idle_since.clear();
        self.heard.clear();
        let live: Vec<TaskRecord> = self.kept.live().cloned().collect();
        for record in &live {
            let last = record.ended_attempts.last().map(|ended| (&ended.worker, ended.at));
            let holder = match &record.progress.state {
                TaskState::Leased(lease) => Some((&lease.holder, lease.granted_at)),
                _ => last.filter(|_| key_of(record).is_some()), // Nobody else is remembered.
            };
            let Some((worker, at)) = holder else { continue };
            self.heard.insert(worker.clone(), self.now);
            if let Some(key) = key_of(record)
                && self.bound.get(key).is_none_or(|(_, since)| *since <= at)
            {
                self.bound.insert(key.clone(), (worker.clone(), at));
            }
        }
        let at = Moment { now: self.now, wall: self.now, entropy: 0 };
        self.coordinator = Coordinator::restore(shard(), self.kept.next_number(), live, at);
        self.coordinator.restore_settings(self.kept.settings.clone());
        self.pass(Duration::ZERO);
    }

    fn order(&mut self, command: Command) {
        let step =
            self.coordinator.handle(Moment { now: self.now, wall: self.now, entropy: 7 }, command);
        self.see(&step);
    }

    // ----- what came of it

    fn see(&mut self, step: &Step) {
        self.coordinator.check_invariants();
        let grants = requests_of(step);
        step.tenant.iter().for_each(|change| self.kept.keep_tenant(change));
        for change in &step.changes {
            if let Change::LeaseGranted { task, .. } = change {
                let ticket = grants[&LeaseId { task: *task, epoch: change.progress().epoch }];
                self.check_grant(change, ticket);
            }
            self.learn(change);
        }
        for effect in &step.effects {
            let Effect::Answer { ticket, answer: Answer::Leases(_) } = effect else { continue };
            let asked = self.asked.take_if(|(asked, _)| asked == ticket);
            let served = self.waiting.remove(ticket);
            if let Some(request) = asked.map(|(_, request)| request).or(served) {
                self.heard.insert(request.worker, self.now);
            }
        }
        self.check_nothing_is_left();
    }

    fn learn(&mut self, change: &Change) {
        let had_live = |world: &Self, key: &AffinityKey| {
            world.kept.live().any(|record| key_of(record) == Some(key))
        };
        if let Change::TaskSubmitted(record) = change
            && let Some(key) = key_of(record)
            && !had_live(self, key)
            && self.idle_since.remove(key).is_none_or(|since| since.after(TTL) <= self.now)
        {
            self.bound.remove(key);
        }
        self.kept.keep(change);
        let record = self.kept.get(change.task()).expect("just kept").clone();
        let Some(key) = key_of(&record) else { return };
        if let TaskState::Leased(lease) = &record.progress.state {
            self.bound.insert(key.clone(), (lease.holder.clone(), self.now));
        }
        if matches!(change, Change::TaskSettled { .. }) && !had_live(self, key) {
            self.idle_since.insert(key.clone(), self.now);
        }
    }

    fn check_grant(&self, change: &Change, ticket: Ticket) {
        let TaskState::Leased(lease) = &change.progress().state else { panic!("{change:?}") };
        let asked = self.asked.as_ref().filter(|(asked, _)| *asked == ticket);
        let request = asked.map(|(_, request)| request).or_else(|| self.waiting.get(&ticket));
        let request = request.expect("who is granted something has asked");
        assert_eq!(lease.holder, request.worker);
        let record = self.kept.get(change.task()).expect("submitted");
        if let Some(Pin::Worker { worker, is_hard: true, .. }) = record.pin.as_deref() {
            assert_eq!(lease.holder, *worker, "it belongs to another: {record:?}");
        }
        let best = self.best_for(request).map(|record| record.id);
        assert_eq!(best, Some(change.task()), "the best that {} may have", request.worker);
    }

    fn check_nothing_is_left(&self) {
        for request in self.waiting.values() {
            let left = self.best_for(request);
            assert!(left.is_none(), "{} waits, and may have {left:?}", request.worker);
        }
    }

    /// The best task that a request may have, by a walk over all of them.
    fn best_for(&self, request: &LeaseRequest) -> Option<&TaskRecord> {
        let rank = |record: &&TaskRecord| (Reverse(record.spec.priority), record.id);
        let may_have = |record: &&TaskRecord| {
            self.is_free(record)
                && request.offer.covers(&record.spec.demand)
                && !self.drained.contains(&request.worker)
                && !self
                    .paused
                    .iter()
                    .any(|kind| spec(*kind).demand.queue == record.spec.demand.queue)
                && match record.pin.as_deref() {
                    Some(Pin::Worker { worker, is_hard: true, .. }) => *worker == request.worker,
                    Some(Pin::Key { key, is_hard: true, .. }) => {
                        self.bound.get(key).is_none_or(|(worker, _)| *worker == request.worker)
                    }
                    Some(_) | None => true,
                }
        };
        self.kept.live().filter(may_have).min_by_key(rank)
    }

    /// Ready, and no task with the same concurrency key goes first.
    fn is_free(&self, record: &TaskRecord) -> bool {
        let rank = |record: &TaskRecord| (Reverse(record.spec.priority), record.id);
        let goes_first = |other: &TaskRecord| {
            let same = other.concurrency_key == record.concurrency_key && other.id != record.id;
            let is_leased = matches!(other.progress.state, TaskState::Leased(_));
            same && (is_leased || self.is_ready(other) && rank(other) < rank(record))
        };
        let has_key = record.concurrency_key.is_some();
        self.is_ready(record) && !(has_key && self.kept.live().any(goes_first))
    }

    fn is_ready(&self, record: &TaskRecord) -> bool {
        match &record.progress.state {
            TaskState::Ready => true,
            TaskState::Waiting { until, why: WaitReason::Backoff } => *until <= self.now,
            TaskState::Waiting { .. } | TaskState::Leased(_) | TaskState::Settled(_) => false,
        }
    }
}

fn held(record: &TaskRecord) -> Option<(LeaseId, WorkerId)> {
    match &record.progress.state {
        TaskState::Leased(lease) => {
            let id = LeaseId { task: record.id, epoch: record.progress.epoch };
            Some((id, lease.holder.clone()))
        }
        TaskState::Waiting { .. } | TaskState::Ready | TaskState::Settled(_) => None,
    }
}

/// Which request each grant of a step answers.
fn requests_of(step: &Step) -> BTreeMap<LeaseId, Ticket> {
    let grants = step.effects.iter().flat_map(|effect| match effect {
        Effect::Answer { ticket, answer: Answer::Leases(grants) } => {
            grants.iter().map(|grant| (grant.lease, *ticket)).collect()
        }
        Effect::Answer { .. } | Effect::Load { .. } | Effect::Prepare { .. } => Vec::new(),
    });
    grants.collect()
}
