//! New tasks: all of a submit or none of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{IdempotencyKey, IdempotencyMark, NewTask, StateWord, TaskId, TaskSpec, Timestamp};

use super::dependency::Dependencies;
use super::record::live_bytes;
use crate::change::{Change, Progress, TaskFacts, TaskRecord, TaskState, WaitReason};
use crate::coordinator::Decision;
use crate::effect::{Answer, Refusal, SubmittedTask};

/// Limit: live tasks that a tenant may have.
const LIVE_TASKS_MAX: usize = 10_000_000;
/// Limit: bytes of parameters, and of what they wait for, that the live tasks of a tenant may hold.
pub const LIVE_BYTES_MAX: usize = 8 << 30;

impl Decision<'_> {
    pub(crate) fn on_submit(&mut self, tasks: Vec<NewTask>) -> Result<Answer, Refusal> {
        let known = self.known_tasks(&tasks)?;
        let mut made: BTreeMap<IdempotencyKey, SubmittedTask> = BTreeMap::new();
        let mut answers: Vec<SubmittedTask> = Vec::with_capacity(tasks.len());
        for (task, known) in tasks.into_iter().zip(known) {
            let key = task.idempotency.as_ref().map(|mark| mark.key.clone());
            let twin = key.as_ref().and_then(|key| made.get(key).copied());
            if let Some(existing) = known.or(twin) {
                answers.push(SubmittedTask { existed: true, ..existing });
                continue;
            }
            let submitted = self.submit(task);
            if let Some(key) = key {
                made.insert(key, submitted);
            }
            answers.push(submitted);
        }
        Ok(Answer::Submitted(answers))
    }

    /// For each task the one that an earlier submit made under the same key; or why nothing of
    /// this submit can be.
    fn known_tasks(&mut self, tasks: &[NewTask]) -> Result<Vec<Option<SubmittedTask>>, Refusal> {
        let mut marks: BTreeMap<&IdempotencyKey, u64> = BTreeMap::new();
        let mut known = Vec::with_capacity(tasks.len());
        for task in tasks {
            let Some(mark) = &task.idempotency else {
                known.push(None);
                continue;
            };
            if *marks.entry(&mark.key).or_insert(mark.fingerprint) != mark.fingerprint {
                return Err(Refusal::IdempotencyConflict { key: mark.key.clone() });
            }
            known.push(self.find_by_mark(mark)?);
        }
        // A repeated submit needs no room, so it is answered however full memory is.
        let new = || tasks.iter().zip(&known).filter(|(_, known)| known.is_none());
        let bytes = new().map(|(task, _)| live_bytes(&task.parameters, task.after.len())).sum();
        self.check_room(new().count(), bytes, new().map(|(task, _)| &task.spec))?;
        new().try_for_each(|(task, _)| self.check_after(task))?;
        Ok(known)
    }

    /// Whether so many more tasks fit into memory.
    pub(crate) fn check_room<'s>(
        &mut self,
        tasks: usize,
        bytes: usize,
        specs: impl Iterator<Item = &'s Arc<TaskSpec>>,
    ) -> Result<(), Refusal> {
        if self.state.tasks.len() + tasks > LIVE_TASKS_MAX {
            return Err(Refusal::LiveTasksFull);
        }
        if self.state.live_bytes + bytes > LIVE_BYTES_MAX {
            return Err(Refusal::LiveBytesFull);
        }
        if !self.state.placement.has_room_for(specs) {
            return Err(Refusal::DemandsFull);
        }
        Ok(())
    }

    fn find_by_mark(&self, mark: &IdempotencyMark) -> Result<Option<SubmittedTask>, Refusal> {
        let live = self.state.idempotency.get(&mark.key);
        let found = if let Some(id) = live {
            let task = self.state.tasks.get(*id).expect("keys of live tasks");
            Some((task.idempotency(), self.view(*id)))
        } else {
            self.state.settled_by_key(&mark.key, &self.facts).map(|record| {
                let state = record.progress.state.word();
                let view = SubmittedTask { task: record.id, state, existed: true };
                (record.idempotency.as_ref(), view)
            })
        };
        match found {
            Some((Some(earlier), _)) if earlier.fingerprint != mark.fingerprint => {
                Err(Refusal::IdempotencyConflict { key: mark.key.clone() })
            }
            Some((_, view)) => Ok(Some(view)),
            None => Ok(None),
        }
    }

    fn view(&self, task: TaskId) -> SubmittedTask {
        let live = self.state.tasks.get(task).expect("viewed tasks are live");
        SubmittedTask { task, state: live.progress.state.word(), existed: true }
    }

    fn submit(&mut self, task: NewTask) -> SubmittedTask {
        let now = self.now();
        let id = TaskId::of(self.state.shard, self.state.next_number);
        let dependencies = self.dependencies(task.after);
        let not_before = task.not_before.filter(|until| *until > now);
        let state = first_state(&dependencies, not_before);
        let word: StateWord = state.word();
        self.change(Change::TaskSubmitted(Box::new(TaskRecord {
            id,
            spec: task.spec,
            parameters: task.parameters,
            created_at: now,
            concurrency_key: task.concurrency_key,
            idempotency: task.idempotency,
            run: task.run,
            after: dependencies.after,
            link: None,
            facts: TaskFacts::default(),
            pin: task.pin,
            progress: Progress { state, attempt: 0, epoch: 0, losses: 0 },
            ended_attempts: Vec::new(),
        })));
        let mut submitted = SubmittedTask { task: id, state: word, existed: false };
        if let Some(failed) = dependencies.failed {
            self.fail_dependent(id, failed);
            submitted.state = StateWord::Failed;
        }
        submitted
    }
}

/// Where a new task begins. One that waits for others keeps that reason also when only its own
/// moment lies ahead, so that a row with dependencies can be read in one way.
fn first_state(dependencies: &Dependencies, not_before: Option<Timestamp>) -> TaskState {
    let has_to_wait = dependencies.is_blocked || dependencies.failed.is_some();
    match not_before {
        Some(until) if dependencies.after.is_empty() => {
            TaskState::Waiting { until, why: WaitReason::Scheduled }
        }
        Some(until) => TaskState::Waiting { until, why: WaitReason::After },
        // No moment of its own: one that any clock has passed, also one that was set back.
        None if has_to_wait => {
            TaskState::Waiting { until: Timestamp::default(), why: WaitReason::After }
        }
        None => TaskState::Ready,
    }
}
