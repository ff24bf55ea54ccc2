//! Makes valid histories: each choice becomes a change that can follow from what is.

use std::sync::Arc;

use std::time::Duration;

use bytes::Bytes;
use coordinator::{
    Change, EndedAttempt, Ending, FactNumber, Lease, LoadKey, Outcome, Progress, Settlement,
    TaskFacts, TaskRecord, TaskState, WaitReason,
};
use model::{
    CallLink, Failure, IdempotencyMark, LeaseId, NodeLink, Pin, ReportKey, ResultExtra, ShardId,
    TaskId, Timestamp,
};
use uuid::Uuid;

use super::sample::{at, specs, worker};
use sim::Tables;

/// A stream of small numbers out of one choice, so that a failing history can be made shorter by
/// dropping choices without changing what the others mean.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(choice: u32) -> Self {
        Self(u64::from(choice))
    }

    /// A number below `sides`.
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let sides = u64::try_from(sides).expect("small");
        usize::try_from((bits ^ (bits >> 31)) % sides).expect("small")
    }

    pub(crate) fn one_in(&mut self, sides: usize) -> bool {
        self.roll(sides) == 0
    }

    pub(crate) fn number(&mut self) -> u64 {
        u64::try_from(self.roll(1_000_000)).expect("small")
    }

    pub(crate) fn moment(&mut self) -> Timestamp {
        at(self.number())
    }
}

pub(crate) fn fact_if_any(dice: &mut Dice) -> Option<FactNumber> {
    dice.one_in(2).then(|| FactNumber::new(1 + dice.number())).flatten()
}

/// A change that may come next in `shard`, by chance.
pub(crate) fn next_change(tables: &Tables, shard: ShardId, dice: &mut Dice) -> Change {
    let tasks = all_tasks(tables, shard);
    let pick = |dice: &mut Dice, fits: fn(&TaskState) -> bool| {
        let fitting: Vec<_> = tasks.iter().filter(|task| fits(&task.progress.state)).collect();
        (!fitting.is_empty()).then(|| fitting[dice.roll(fitting.len())])
    };
    let change = match dice.roll(10) {
        0..3 => None,
        3..6 => pick(dice, |state| matches!(state, TaskState::Ready | TaskState::Waiting { .. }))
            .map(|task| grant(task, dice)),
        6 if dice.one_in(2) => pick(dice, is_after).map(release),
        6 => pick(dice, |state| matches!(state, TaskState::Leased(_)))
            .map(|task| end_attempt(task, dice)),
        7..9 => pick(dice, |state| !matches!(state, TaskState::Settled(_)))
            .map(|task| settle(task, dice)),
        _ => pick(dice, |state| matches!(state, TaskState::Settled(_))).map(requeue),
    };
    change.unwrap_or_else(|| submit(tables, shard, dice))
}

/// Every task of a shard, oldest first.
pub(crate) fn all_tasks(tables: &Tables, shard: ShardId) -> Vec<TaskRecord> {
    let n_tasks = tables.restore(shard).next_number;
    let keys: Vec<_> = (0..n_tasks).map(|n| LoadKey::Task(TaskId::of(shard, n))).collect();
    tables.load(shard, &keys).into_iter().map(|(_, record)| record).collect()
}

fn submit(tables: &Tables, shard: ShardId, dice: &mut Dice) -> Change {
    let number = tables.restore(shard).next_number;
    let specs = specs();
    let parameters: [&'static [u8]; 4] = [b"{}", b"{\"a\": 1}", b"[]", "\"\u{fc}\"".as_bytes()];
    let older = if number > 0 && dice.one_in(3) { 1 + dice.roll(3) as u64 } else { 0 };
    let after: Vec<_> =
        (number.saturating_sub(older)..number).map(|n| TaskId::of(shard, n)).collect();
    let state = if dice.one_in(3) {
        TaskState::Waiting { until: dice.moment(), why: wait_reason(!after.is_empty(), dice) }
    } else {
        TaskState::Ready
    };
    let link = link(tables, shard, dice);
    let run = match &link {
        Some(link) => Some(link.run.to_string()),
        None => dice.one_in(3).then(|| format!("run-{}", dice.number() % 3)),
    };
    Change::TaskSubmitted(Box::new(TaskRecord {
        id: TaskId::of(shard, number),
        spec: specs[dice.roll(specs.len())].clone(),
        parameters: Bytes::from_static(parameters[dice.roll(parameters.len())]),
        created_at: dice.moment(),
        concurrency_key: dice.one_in(3).then(|| "one at a time".parse().expect("valid")),
        idempotency: dice.one_in(2).then(|| IdempotencyMark {
            key: format!("order {number}").parse().expect("valid"),
            fingerprint: u64::MAX - dice.number(),
        }),
        run: run.map(|run| run.parse().expect("valid")),
        after,
        facts: TaskFacts { begun: link.as_ref().and(fact_if_any(dice)), ..TaskFacts::default() },
        link: link.map(Arc::new),
        pin: dice.one_in(4).then(|| Box::new(pin(dice))),
        progress: Progress { state, attempt: 0, epoch: 0, losses: 0 },
        ended_attempts: Vec::new(),
    }))
}

fn wait_reason(has_after: bool, dice: &mut Dice) -> WaitReason {
    match dice.roll(4) {
        0 => WaitReason::Delay,
        1 => WaitReason::Signal,
        _ if has_after => WaitReason::After,
        _ => WaitReason::Scheduled,
    }
}

/// A part of one of the shard's live runs, if there is one.
fn link(tables: &Tables, shard: ShardId, dice: &mut Dice) -> Option<NodeLink> {
    let runs = tables.restore(shard).runs;
    if runs.is_empty() || dice.one_in(2) {
        return None;
    }
    let small = |dice: &mut Dice| u32::try_from(dice.roll(3)).expect("small");
    Some(NodeLink {
        run: runs[dice.roll(runs.len())].record.id,
        frame: small(dice),
        node: small(dice),
        item: dice.one_in(2).then(|| small(dice)),
        level: u16::try_from(dice.roll(3)).expect("small"),
        step_id: Uuid::from_u128(u128::from(dice.number())),
        call: dice.one_in(2).then(|| Box::new(call(shard, dice))),
    })
}

pub(crate) fn call(shard: ShardId, dice: &mut Dice) -> CallLink {
    let caller = LeaseId { task: TaskId::of(shard, dice.number()), epoch: 1 };
    CallLink { caller, request: format!("call \"{}\"", dice.number()).into() }
}

fn pin(dice: &mut Dice) -> Pin {
    let is_hard = dice.one_in(2);
    if dice.one_in(3) {
        let key = format!("browser {}", dice.number() % 3).parse().expect("valid");
        return Pin::Key { key, is_hard, ttl: Duration::from_secs(dice.number() % 1_000) };
    }
    Pin::Worker {
        worker: worker(dice.number() % 3),
        is_hard,
        wait_max: dice.one_in(2).then(|| Duration::from_millis(dice.number() % 100_000)),
        because: "only there is \u{201e}it\u{201c}".into(),
    }
}

fn extra(dice: &mut Dice) -> ResultExtra {
    let artifacts = dice.one_in(2).then(|| Bytes::from(format!("[{}]", dice.number())));
    ResultExtra { is_skipped: dice.one_in(2), artifacts }
}

fn is_after(state: &TaskState) -> bool {
    matches!(state, TaskState::Waiting { why: WaitReason::After, .. })
}

fn release(task: &TaskRecord) -> Change {
    let progress = Progress { state: TaskState::Ready, ..task.progress.clone() };
    Change::TaskReleased { task: task.id, progress }
}

fn grant(task: &TaskRecord, dice: &mut Dice) -> Change {
    let lease = Lease {
        holder: worker(dice.number() % 3),
        granted_at: dice.moment(),
        expires_at: dice.moment(),
        attempt_ends_at: dice.one_in(2).then(|| dice.moment()),
        confirm_by: dice.one_in(2).then(|| dice.moment()),
        is_doubtful: dice.one_in(2),
    };
    let before = &task.progress;
    let progress = Progress {
        state: TaskState::Leased(lease),
        attempt: before.attempt + 1,
        epoch: before.epoch + 1,
        losses: before.losses,
    };
    Change::LeaseGranted { task: task.id, progress, fact: fact_if_any(dice) }
}

fn end_attempt(task: &TaskRecord, dice: &mut Dice) -> Change {
    let ending = match dice.roll(4) {
        0 => Ending::Failed { report: report(dice), failure: failure(dice) },
        1 => Ending::Expired,
        2 => Ending::TimedOut,
        _ => Ending::Undelivered,
    };
    let state = if dice.one_in(2) {
        let why = if dice.one_in(4) { WaitReason::Delay } else { WaitReason::Backoff };
        TaskState::Waiting { until: dice.moment(), why }
    } else {
        TaskState::Ready
    };
    let losses = u32::from(ending == Ending::Expired) + task.progress.losses;
    Change::AttemptEnded {
        task: task.id,
        attempt: ended(task, ending, dice).expect("picked among the leased ones"),
        progress: Progress { state, losses, ..task.progress.clone() },
    }
}

fn settle(task: &TaskRecord, dice: &mut Dice) -> Change {
    let holder = holder(task);
    let outcome = match (dice.roll(4), &holder) {
        (0, Some(_)) => Outcome::Completed,
        (1, Some(_)) => Outcome::Failed,
        (2, _) => Outcome::Dead,
        _ => Outcome::Stopped,
    };
    let is_reported = matches!(outcome, Outcome::Completed | Outcome::Failed);
    let attempt = match outcome {
        Outcome::Completed | Outcome::Failed => None,
        Outcome::Dead => ended(task, Ending::Expired, dice),
        Outcome::Stopped => ended(task, Ending::Stopped, dice),
    };
    let settlement = Settlement {
        outcome,
        at: dice.moment(),
        granted_at: holder.as_ref().filter(|_| dice.one_in(2)).map(|_| dice.moment()),
        holder,
        report: is_reported.then(|| report(dice)),
        result: (outcome == Outcome::Completed && dice.one_in(2))
            .then(|| Bytes::from(format!("[{}]", "7,".repeat(dice.roll(5_000)) + "0"))),
        failure: (outcome != Outcome::Completed && dice.one_in(2)).then(|| failure(dice)),
        extra: dice.one_in(3).then(|| Box::new(extra(dice))),
    };
    let state = TaskState::Settled(Box::new(settlement));
    let progress = Progress { state, ..task.progress.clone() };
    Change::TaskSettled { task: task.id, attempt, progress, fact: fact_if_any(dice) }
}

/// The attempt that settled the task moves into its history, as the coordinator does it.
fn requeue(task: &TaskRecord) -> Change {
    let mut record = task.clone();
    if let TaskState::Settled(settlement) = &task.progress.state
        && let (Some(holder), Some(report), Some(failure)) =
            (&settlement.holder, settlement.report, &settlement.failure)
    {
        record.ended_attempts.push(EndedAttempt {
            epoch: task.progress.epoch,
            worker: holder.clone(),
            at: settlement.at,
            ending: Ending::Failed { report, failure: failure.clone() },
        });
    }
    let epoch = task.progress.epoch;
    record.progress = Progress { state: TaskState::Ready, attempt: 0, epoch, losses: 0 };
    Change::TaskRequeued(Box::new(record))
}

fn holder(task: &TaskRecord) -> Option<model::WorkerId> {
    match &task.progress.state {
        TaskState::Leased(lease) => Some(lease.holder.clone()),
        TaskState::Waiting { .. } | TaskState::Ready | TaskState::Settled(_) => None,
    }
}

fn ended(task: &TaskRecord, ending: Ending, dice: &mut Dice) -> Option<EndedAttempt> {
    let worker = holder(task)?;
    Some(EndedAttempt { epoch: task.progress.epoch, worker, at: dice.moment(), ending })
}

fn report(dice: &mut Dice) -> ReportKey {
    ReportKey(u128::MAX - u128::from(dice.number()))
}

pub(crate) fn failure(dice: &mut Dice) -> Failure {
    let reason = if dice.one_in(2) { "exit status 1: 'ö'" } else { "" };
    let details = dice.one_in(2).then(|| Bytes::from(format!("{{\"steps\":[{}]}}", dice.number())));
    Failure { details, ..Failure::new("E.RUNNER.FAILURE", reason) }
}
