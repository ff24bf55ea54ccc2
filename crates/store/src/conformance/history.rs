//! Makes valid histories: each choice becomes a change that can follow from what is.

use bytes::Bytes;
use coordinator::{
    Change, EndedAttempt, Ending, Lease, LoadKey, Outcome, Progress, Settlement, TaskRecord,
    TaskState, WaitReason,
};
use model::{Failure, IdempotencyMark, ReportKey, ShardId, TaskId, Timestamp};

use super::sample::{at, specs, worker};
use crate::tables::Tables;

/// A stream of small numbers out of one choice, so that a failing history can be made shorter by
/// dropping choices without changing what the others mean.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(choice: u32) -> Self {
        Self(u64::from(choice))
    }

    /// A number below `sides`.
    pub(super) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let sides = u64::try_from(sides).expect("small");
        usize::try_from((bits ^ (bits >> 31)) % sides).expect("small")
    }

    fn one_in(&mut self, sides: usize) -> bool {
        self.roll(sides) == 0
    }

    fn number(&mut self) -> u64 {
        u64::try_from(self.roll(1_000_000)).expect("small")
    }

    fn moment(&mut self) -> Timestamp {
        at(self.number())
    }
}

/// A change that may come next in `shard`, by chance.
pub(super) fn next_change(tables: &Tables, shard: ShardId, dice: &mut Dice) -> Change {
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
pub(super) fn all_tasks(tables: &Tables, shard: ShardId) -> Vec<TaskRecord> {
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
    let why = if after.is_empty() { WaitReason::Scheduled } else { WaitReason::After };
    let state = if dice.one_in(4) {
        TaskState::Waiting { until: dice.moment(), why }
    } else {
        TaskState::Ready
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
        run: dice.one_in(3).then(|| format!("run-{}", dice.number() % 3).parse().expect("valid")),
        after,
        link: None,
        pin: None,
        progress: Progress { state, attempt: 0, epoch: 0, losses: 0 },
        ended_attempts: Vec::new(),
    }))
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
    };
    let before = &task.progress;
    let progress = Progress {
        state: TaskState::Leased(lease),
        attempt: before.attempt + 1,
        epoch: before.epoch + 1,
        losses: before.losses,
    };
    Change::LeaseGranted { task: task.id, progress }
}

fn end_attempt(task: &TaskRecord, dice: &mut Dice) -> Change {
    let ending = match dice.roll(4) {
        0 => Ending::Failed { report: report(dice), failure: failure(dice) },
        1 => Ending::Expired,
        2 => Ending::TimedOut,
        _ => Ending::Undelivered,
    };
    let state = if dice.one_in(2) {
        TaskState::Waiting { until: dice.moment(), why: WaitReason::Backoff }
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
        holder,
        report: is_reported.then(|| report(dice)),
        result: (outcome == Outcome::Completed && dice.one_in(2))
            .then(|| Bytes::from(format!("[{}]", "7,".repeat(dice.roll(5_000)) + "0"))),
        failure: (outcome != Outcome::Completed && dice.one_in(2)).then(|| failure(dice)),
        extra: None,
    };
    let state = TaskState::Settled(Box::new(settlement));
    let progress = Progress { state, ..task.progress.clone() };
    Change::TaskSettled { task: task.id, attempt, progress }
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

fn failure(dice: &mut Dice) -> Failure {
    let reason = if dice.one_in(2) { "exit status 1: 'ö'" } else { "" };
    let details = dice.one_in(2).then(|| Bytes::from(format!("{{\"steps\":[{}]}}", dice.number())));
    Failure { details, ..Failure::new("E.RUNNER.FAILURE", reason) }
}
