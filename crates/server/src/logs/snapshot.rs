//! How each task fares: the last that its worker said, in memory only.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;
use model::{LeaseId, TaskId, Timestamp};
use protocol::session::payload::exec::Feedback;
use serde_json::Number;

use super::task_log::Recent;

/// Limit: tasks whose state of affairs is remembered; then the oldest goes.
const SNAPSHOTS_MAX: usize = 100_000;
/// Limit: memory that remembered progress of tasks takes; then the oldest goes.
const SNAPSHOT_BYTES_MAX: usize = 64 * 1024 * 1024;
const STAGE_BYTES_MAX: usize = 256;
const MESSAGE_BYTES_MAX: usize = 4096;
const METRICS_MAX: usize = 64;
const METRIC_NAME_BYTES_MAX: usize = 128;
/// What a snapshot takes beside its texts, roughly.
const OVERHEAD_BYTES: usize = 256;
const METRIC_BYTES: usize = 64;

/// How a task fares.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The attempt that said so, by its lease's epoch.
    pub attempt: u32,
    /// When it last said something.
    pub at: Timestamp,
    /// What it is at, in a word.
    pub stage: Option<String>,
    /// How much is done, from 0 to 1.
    pub progress: Option<f64>,
    /// What it is at, for people.
    pub message: Option<String>,
    /// The last value of each measure.
    pub metrics: BTreeMap<String, Number>,
}

impl Snapshot {
    fn new(attempt: u32, at: Timestamp) -> Self {
        let metrics = BTreeMap::new();
        Self { attempt, at, stage: None, progress: None, message: None, metrics }
    }

    /// What is not said again stays as it was.
    fn update(&mut self, feedback: &Feedback, at: Timestamp) {
        self.at = at;
        if let Some(stage) = &feedback.stage {
            self.stage = Some(cut(stage, STAGE_BYTES_MAX));
        }
        if let Some(message) = &feedback.message {
            self.message = Some(cut(message, MESSAGE_BYTES_MAX));
        }
        self.progress = feedback.progress.or(self.progress);
        for (name, value) in feedback.metrics.iter().flatten() {
            let is_known = self.metrics.contains_key(name);
            let has_room = self.metrics.len() < METRICS_MAX && name.len() <= METRIC_NAME_BYTES_MAX;
            if is_known || has_room {
                self.metrics.insert(name.clone(), value.clone());
            }
        }
    }

    fn bytes(&self) -> usize {
        let texts = [&self.stage, &self.message].into_iter().flatten().map(String::len);
        let metrics = self.metrics.keys().map(|name| name.len() + METRIC_BYTES);
        OVERHEAD_BYTES + texts.chain(metrics).sum::<usize>()
    }
}

/// At most so many bytes, without half a character.
fn cut(text: &str, bytes_max: usize) -> String {
    text[..text.floor_char_boundary(bytes_max)].to_owned()
}

/// The last of each task.
#[derive(Debug)]
pub(super) struct Snapshots {
    by_task: HashMap<TaskId, Snapshot, RandomState>,
    recent: Recent<TaskId>,
    n_bytes: usize,
}

impl Snapshots {
    pub(super) fn new() -> Self {
        Self { by_task: HashMap::default(), recent: Recent::new(), n_bytes: 0 }
    }

    pub(super) fn get(&self, task: TaskId) -> Option<Snapshot> {
        self.by_task.get(&task).cloned()
    }

    /// A new attempt starts from nothing; an old one has nothing to say.
    pub(super) fn update(&mut self, lease: LeaseId, feedback: &Feedback, at: Timestamp) {
        let says_something = feedback.stage.is_some()
            || feedback.progress.is_some()
            || feedback.message.is_some()
            || feedback.metrics.is_some();
        let known = self.by_task.get(&lease.task).map(|snapshot| snapshot.attempt);
        if !says_something || known.is_some_and(|attempt| attempt > lease.epoch) {
            return;
        }
        let mut snapshot = match self.take(lease.task) {
            Some(snapshot) if snapshot.attempt == lease.epoch => snapshot,
            Some(_) | None => Snapshot::new(lease.epoch, at),
        };
        snapshot.update(feedback, at);
        self.put(lease.task, snapshot);
        while self.by_task.len() > SNAPSHOTS_MAX || self.n_bytes > SNAPSHOT_BYTES_MAX {
            let Some(oldest) = self.recent.pop_oldest() else { break };
            self.take(oldest);
        }
    }

    fn put(&mut self, task: TaskId, snapshot: Snapshot) {
        self.n_bytes += snapshot.bytes();
        self.recent.touch(task);
        self.by_task.insert(task, snapshot);
    }

    fn take(&mut self, task: TaskId) -> Option<Snapshot> {
        let snapshot = self.by_task.remove(&task)?;
        self.n_bytes -= snapshot.bytes();
        self.recent.remove(task);
        Some(snapshot)
    }
}

#[cfg(test)]
mod tests {
    use model::ShardId;

    use super::*;

    fn lease(number: u64, epoch: u32) -> LeaseId {
        LeaseId { task: TaskId::of(ShardId::new(1).expect("fits"), number), epoch }
    }

    fn said(stage: Option<&str>, progress: Option<f64>, metrics: &[(&str, i32)]) -> Feedback {
        let metric = |(name, value): &(&str, i32)| ((*name).to_owned(), Number::from(*value));
        Feedback {
            run_id: "r".to_owned(),
            task_id: "t".to_owned(),
            stage: stage.map(str::to_owned),
            progress,
            message: None,
            chunks: None,
            metrics: (!metrics.is_empty()).then(|| metrics.iter().map(metric).collect()),
            metadata: None,
        }
    }

    #[test]
    fn the_last_of_everything_counts_within_one_attempt() {
        let mut snapshots = Snapshots::new();
        let at = Timestamp::from_millis;
        snapshots.update(lease(1, 2), &said(Some("load"), Some(0.5), &[("a", 1), ("b", 2)]), at(1));
        snapshots.update(lease(1, 2), &said(Some("save"), None, &[("a", 3)]), at(2));
        snapshots.update(lease(1, 1), &said(Some("late"), Some(0.9), &[]), at(3));
        snapshots.update(lease(1, 2), &said(None, None, &[]), at(4));
        let seen = snapshots.get(lease(1, 2).task).expect("a snapshot");
        assert_eq!((seen.attempt, seen.at, seen.progress), (2, at(2), Some(0.5)));
        assert_eq!(seen.stage.as_deref(), Some("save"));
        let metrics: Vec<_> = seen.metrics.iter().map(|(name, n)| format!("{name}={n}")).collect();
        assert_eq!(metrics, ["a=3", "b=2"]);
        snapshots.update(lease(1, 3), &said(None, Some(0.1), &[]), at(5));
        let seen = snapshots.get(lease(1, 3).task).expect("a snapshot");
        assert_eq!((seen.attempt, seen.stage, seen.progress), (3, None, Some(0.1)));
    }

    #[test]
    fn memory_is_bounded_in_tasks_and_in_bytes() {
        let mut snapshots = Snapshots::new();
        let now = Timestamp::from_millis(1);
        for number in 0..=SNAPSHOTS_MAX as u64 {
            snapshots.update(lease(number, 1), &said(None, Some(0.5), &[]), now);
        }
        assert_eq!(snapshots.by_task.len(), SNAPSHOTS_MAX);
        assert_eq!(snapshots.get(lease(0, 1).task), None, "the oldest went");
        let mut loud = said(Some(&"é".repeat(1000)), None, &[]);
        loud.message = Some("x".repeat(1_000_000));
        for number in 0..20_000 {
            snapshots.update(lease(number, 2), &loud, now);
        }
        assert!(snapshots.n_bytes <= SNAPSHOT_BYTES_MAX, "{}", snapshots.n_bytes);
        let held: usize = snapshots.by_task.values().map(Snapshot::bytes).sum();
        assert_eq!(held, snapshots.n_bytes);
        let last = snapshots.get(lease(19_999, 2).task).expect("the youngest stays");
        assert_eq!(last.stage.map(|stage| stage.len()), Some(STAGE_BYTES_MAX));
        assert_eq!(last.message.map(|message| message.len()), Some(MESSAGE_BYTES_MAX));
    }
}
