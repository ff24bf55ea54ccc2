//! What people want done: tasks with every kind of wish, from the seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::{
    ConcurrencyKey, Demand, IdempotencyKey, IdempotencyMark, NewTask, Offer, PackageRef, QueueName,
    RetryPolicy, TaskId, TaskSpec, Timestamp, TypeName, WorkerId,
};

use crate::rng::{Dice, scatter};

/// Tasks are submitted within the first so many milliseconds.
const SUBMIT_WITHIN: u64 = 40_000;

const TYPES: [&str; 3] = ["resize", "index", "mail"];
/// Types of a seed with many of them: beyond what placement looks at one by one.
const MANY_TYPES: u64 = 60;
/// Its tasks come at once, so that many wait at the same time.
const MANY_SUBMIT_WITHIN: u64 = 500;
pub(crate) const QUEUES: [&str; 2] = ["default", "night"];
const TTLS: [u64; 4] = [600, 1_500, 4_000, 9_000];
const TIMEOUTS: [Option<u64>; 6] = [None, None, None, Some(700), Some(3_000), Some(15_000)];
const RETRIES: [(u32, u64, u64); 4] =
    [(1, 500, 500), (3, 400, 2_000), (6, 300, 1_000), (20, 1_000, 4_000)];

/// A wish, as its submitter keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Intent {
    pub(crate) number: u64,
    pub(crate) spec: Arc<TaskSpec>,
    pub(crate) concurrency_key: Option<ConcurrencyKey>,
    pub(crate) is_keyed: bool,
    /// So long after the submit.
    pub(crate) not_before: Option<Duration>,
    pub(crate) is_poison: bool,
}

fn text<T: std::str::FromStr>(text: &str) -> T
where
    T::Err: std::fmt::Debug,
{
    text.parse().expect("the simulation's own texts follow the rules")
}

pub(crate) fn worker_id(number: usize) -> WorkerId {
    text(&format!("worker-{number}"))
}

fn package() -> PackageRef {
    PackageRef { name: text("pdf"), version: text("1.2.0") }
}

/// An offer that covers every demand of this file.
pub(crate) fn full_offer() -> Offer {
    Offer {
        types: None,
        queues: None,
        tools: [text("git"), text("ffmpeg")].into(),
        all_tools: false,
        tags: [(text("gpu"), text("yes"))].into(),
        packages: [package()].into(),
        limits: [].into(),
    }
}

/// Whether the tasks of a seed are of many types.
pub(crate) fn has_many_types(seed: u64) -> bool {
    seed % 4 == 3
}

/// How long the tasks of a seed go on coming.
pub(crate) fn submit_within(seed: u64) -> u64 {
    if has_many_types(seed) { MANY_SUBMIT_WITHIN } else { SUBMIT_WITHIN }
}

fn task_type(seed: u64, dice: &mut Dice) -> TypeName {
    if has_many_types(seed) {
        return text(&format!("kind-{}", dice.below(MANY_TYPES)));
    }
    text(dice.pick(&TYPES).copied().unwrap_or("index"))
}

/// An offer that covers only some demands.
pub(crate) fn partial_offer(seed: u64, dice: &mut Dice) -> Offer {
    let n_types = if has_many_types(seed) { MANY_TYPES } else { 1 + dice.below(2) };
    let types: BTreeSet<_> = (0..n_types).map(|_| task_type(seed, dice)).collect();
    let all_tools = dice.below(4) == 0;
    Offer { types: Some(types), tools: [text("git")].into(), all_tools, ..Offer::default() }
}

impl Intent {
    /// The wish with this number; every part of it comes from its own dice, so that dropping
    /// other wishes leaves it as it is.
    pub(crate) fn of(seed: u64, number: u64, may_be_poison: bool) -> Self {
        let mut dice = Dice::of_parts(seed, scatter(number), 1);
        let is_poison = dice.chance(30) && may_be_poison;
        let key = dice.chance(200).then(|| text(&format!("customer-{}", dice.below(4))));
        Self {
            number,
            spec: Arc::new(spec(seed, &mut dice)),
            concurrency_key: key,
            is_keyed: dice.chance(600),
            not_before: dice.chance(150).then(|| Duration::from_millis(dice.below(15_000))),
            is_poison,
        }
    }

    /// What the door makes of it.
    pub(crate) fn to_task(&self, wall: Timestamp, key: Option<String>) -> NewTask {
        NewTask {
            spec: Arc::clone(&self.spec),
            parameters: Bytes::from(self.number.to_string()),
            not_before: self.not_before.map(|pause| wall.after(pause)),
            concurrency_key: self.concurrency_key.clone(),
            idempotency: key
                .map(|key| IdempotencyMark { key: key_text(&key), fingerprint: self.number }),
            run: None,
            after: Vec::new(),
            pin: None,
        }
    }
}

pub(crate) fn key_text(key: &str) -> IdempotencyKey {
    text(key)
}

pub(crate) fn queue_name(name: &str) -> QueueName {
    text(name)
}

/// What a wish is to run after: tasks that exist.
pub(crate) fn after_of(seed: u64, number: u64, known: &[TaskId]) -> Vec<TaskId> {
    let mut dice = Dice::of_parts(seed, scatter(number), 19);
    if !dice.chance(350) {
        return Vec::new();
    }
    let count = dice.between(1, 3);
    let newest = &known[known.len().saturating_sub(4)..];
    let pick = |_| {
        let from = if dice.chance(500) { newest } else { known };
        dice.pick(from).copied()
    };
    (0..count).filter_map(pick).collect()
}

/// Which wish a task's parameters name.
pub(crate) fn intent_of(parameters: &Bytes) -> u64 {
    std::str::from_utf8(parameters).ok().and_then(|text| text.parse().ok()).unwrap_or(u64::MAX)
}

fn spec(seed: u64, dice: &mut Dice) -> TaskSpec {
    let ttl = dice.pick(&TTLS).copied().unwrap_or(1_500);
    let timeout = dice.pick(&TIMEOUTS).copied().flatten();
    let (max_attempts, backoff, backoff_max) =
        dice.pick(&RETRIES).copied().unwrap_or((3, 400, 2_000));
    TaskSpec {
        demand: demand(seed, dice),
        priority: i16::try_from(dice.below(3)).unwrap_or(0) - 1,
        lease_ttl: Duration::from_millis(ttl),
        timeout: timeout.map(Duration::from_millis),
        retry: RetryPolicy {
            max_attempts,
            backoff: Duration::from_millis(backoff),
            backoff_max: Duration::from_millis(backoff_max),
        },
    }
}

fn demand(seed: u64, dice: &mut Dice) -> Demand {
    let mut demand = Demand {
        queue: text(dice.pick(&QUEUES).copied().unwrap_or("default")),
        task_type: task_type(seed, dice),
        tools: BTreeSet::new(),
        tags: BTreeMap::new(),
        package: None,
    };
    match dice.below(12) {
        0 => demand.tools = [text("git")].into(),
        1 => demand.tools = [text("git"), text("ffmpeg")].into(),
        2 => demand.tags = [(text("gpu"), text("yes"))].into(),
        3 => demand.package = Some(package()),
        _ => {}
    }
    demand
}

/// How one attempt goes, if its worker is let alone: a property of the attempt, not of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fate {
    pub(crate) takes: u64,
    pub(crate) fails: bool,
    pub(crate) retryable: bool,
}

impl Fate {
    pub(crate) fn of(seed: u64, intent: u64, epoch: u32) -> Self {
        let mut dice = Dice::of_parts(seed, scatter(intent), 100 + u64::from(epoch));
        let takes = dice.heavy_tail(200, 5);
        Self { takes, fails: dice.chance(200), retryable: dice.chance(850) }
    }
}
