//! Facts become events.

use std::sync::Arc;

use bytes::Bytes;
use coordinator::{
    Change, Ending, NodeEnd, NodeStatus, NodeWord, Progress, RunChange, RunEnd, RunRecord,
    SubgraphRecord, TaskRecord, TaskState,
};
use model::{Failure, LeaseId, NodeLink, RunId, TaskId, Timestamp, WorkerId};
use protocol::rest::events::NodeStatusWord;
use protocol::rest::runs::RunStatus;
use uuid::Uuid;

use super::event::{
    ArtifactsNews, Content, ErrorNews, Event, News, RESULT_BYTES_MAX, ResultNews, RunNews,
    RunScope, StatusNews, Step,
};
use super::live_runs::LiveRuns;
use super::run_status;

/// Makes the events of one turn.
pub(super) struct Maker<'a> {
    live: &'a mut LiveRuns,
    at: Timestamp,
    events: &'a mut Vec<Event>,
}

impl<'a> Maker<'a> {
    pub(super) fn new(live: &'a mut LiveRuns, at: Timestamp, events: &'a mut Vec<Event>) -> Self {
        Self { live, at, events }
    }

    /// A run is told of before its nodes, and its end after theirs.
    pub(super) fn observe(mut self, changes: &[Change], runs: &[RunChange]) {
        for change in runs {
            if let RunChange::RunStarted(record) = change {
                self.run_started(record);
            }
        }
        let mut opened = runs.iter().filter_map(Opened::of).peekable();
        for change in changes {
            // A subgraph is told of before what is in it, and after what it waited for.
            if let Change::TaskSubmitted(record) = change
                && let Some(link) = &record.link
            {
                while let Some(frame) = opened.next_if(|frame| frame.is_around(link)) {
                    self.opened(frame);
                }
            }
            self.change(change);
        }
        for frame in opened {
            self.opened(frame);
        }
        for change in runs {
            match change {
                RunChange::NodeEnded { run, frame, step_id, end, .. } => {
                    let step = Step { id: *step_id, frame: *frame, item: None };
                    self.node_ended(*run, step, end);
                }
                RunChange::RunSettled { run, end } => self.run_settled(*run, end),
                _ => {}
            }
        }
    }

    /// A worker shows that it has what it was given.
    pub(super) fn confirmed(mut self, worker: &WorkerId, leases: &[LeaseId]) {
        for lease in leases {
            let Some(link) = self.live.confirm(*lease) else { continue };
            let worker = Some(worker.clone());
            self.status((&link, lease.task), NodeStatusWord::Running, worker, lease.epoch);
        }
    }

    fn push(&mut self, run: &Arc<RunScope>, news: News) {
        self.events.push(Event::new(self.at, Some(Arc::clone(run)), news));
    }

    fn run_started(&mut self, record: &RunRecord) {
        let scope = self.live.add_run(record);
        let news = RunNews { status: RunStatus::Queued, started_at: None, end: None };
        self.push(&scope, News::Run(Box::new(news)));
    }

    fn run_settled(&mut self, run: RunId, end: &RunEnd) {
        let Some((scope, started_at)) = self.live.remove_run(run) else { return };
        let status = run_status::of_end(end.word);
        // What a run gave may be large, and is read from the run itself.
        let end = Some(Box::new(RunEnd { outputs: None, ..end.clone() }));
        self.push(&scope, News::Run(Box::new(RunNews { status, started_at, end })));
    }

    /// A container begins. One that is executed once per element begins with the first.
    fn opened(&mut self, Opened { run, step_id, frame }: Opened<'_>) {
        self.begin(run);
        if frame.item.is_some_and(|item| item > 0) {
            return;
        }
        let Some(scope) = self.live.scope(run) else { return };
        let step = Step { id: step_id, frame: frame.parent, item: None };
        let status = NodeStatusWord::Running;
        let news =
            StatusNews { step, task: None, worker: None, attempt: 0, status, is_reused: false };
        self.push(&scope, News::Status(news));
    }

    fn change(&mut self, change: &Change) {
        match change {
            Change::TaskSubmitted(record) | Change::TaskRequeued(record) => self.submitted(record),
            Change::LeaseGranted { task, progress, .. } => self.granted(*task, progress),
            Change::AttemptEnded { task, attempt, progress } => {
                if !self.live.has_tasks() {
                    return;
                }
                let failure = match &attempt.ending {
                    Ending::Failed { failure, .. } => Some(failure),
                    Ending::Expired | Ending::TimedOut | Ending::Undelivered | Ending::Stopped => {
                        None
                    }
                };
                self.attempt_ended(*task, progress, failure);
            }
            Change::TaskSettled { task, progress, .. } => self.settled(*task, progress),
            // A node that waited for others and one that may start are both told as queued, and
            // who lost a worker wrongly is where it was.
            Change::TaskReleased { .. } | Change::LossForgiven { .. } => {}
        }
    }

    fn submitted(&mut self, record: &TaskRecord) {
        let Some(link) = &record.link else { return };
        self.live.add_task(record.id, link);
        let status = NodeStatus::of_task(&record.progress);
        if status == NodeStatus::Running {
            self.begin(link.run);
        }
        let status = status_word(status);
        self.status((link, record.id), status, None, record.progress.attempt);
    }

    fn granted(&mut self, task: TaskId, progress: &Progress) {
        if !self.live.has_tasks() {
            return;
        }
        let TaskState::Leased(lease) = &progress.state else { return };
        let wants_confirmation = lease.confirm_by.is_some();
        let link = self.live.granted(task, progress.epoch, wants_confirmation);
        let Some(link) = link else { return };
        self.begin(link.run);
        let status = match status_word(NodeStatus::of_task(progress)) {
            NodeStatusWord::Running if wants_confirmation => NodeStatusWord::Dispatching,
            status => status,
        };
        self.status((&link, task), status, Some(lease.holder.clone()), progress.attempt);
    }

    /// The first node of a run begins.
    fn begin(&mut self, run: RunId) {
        if !self.live.begin(run, self.at) {
            return;
        }
        let Some(scope) = self.live.scope(run) else { return };
        let (status, started_at) = (RunStatus::Running, Some(self.at));
        self.push(&scope, News::Run(Box::new(RunNews { status, started_at, end: None })));
    }

    fn attempt_ended(&mut self, task: TaskId, progress: &Progress, failure: Option<&Failure>) {
        let Some(link) = self.live.link(task) else { return };
        if let Some(failure) = failure {
            self.error((&link, task), progress.attempt, failure, true);
        }
        let status = status_word(NodeStatus::of_task(progress));
        self.status((&link, task), status, None, progress.attempt);
    }

    fn settled(&mut self, task: TaskId, progress: &Progress) {
        if !self.live.has_tasks() {
            return;
        }
        let Some(link) = self.live.remove_task(task) else { return };
        let TaskState::Settled(settlement) = &progress.state else { return };
        let status = status_word(NodeStatus::of_task(progress));
        if let Some(failure) = &settlement.failure
            && status == NodeStatusWord::Failed
        {
            self.error((&link, task), progress.attempt, failure, false);
        }
        self.status((&link, task), status, settlement.holder.clone(), progress.attempt);
        let artifacts = settlement.extra.as_ref().and_then(|extra| extra.artifacts.as_ref());
        if let Some(result) = &settlement.result {
            let at = (Step::of(&link), Some(task), progress.epoch);
            self.result(link.run, at, result, artifacts);
        }
        if let Some(artifacts) = artifacts {
            self.artifacts(&link, task, artifacts);
        }
    }

    fn node_ended(&mut self, run: RunId, step: Step, end: &NodeEnd) {
        let Some(scope) = self.live.scope(run) else { return };
        if let (NodeWord::Failed, Some(failure)) = (end.word, &end.failure) {
            let failure = failure_without_details(failure);
            let news = ErrorNews { step, task: None, attempt: 0, will_retry: false, failure };
            self.push(&scope, News::Error(Box::new(news)));
        }
        let status = status_word(NodeStatus::of_end(end.word));
        let (task, is_reused) = (end.reused, end.reused.is_some());
        let news = StatusNews { step, task, worker: None, attempt: 0, status, is_reused };
        self.push(&scope, News::Status(news));
        if let Some(result) = &end.result {
            self.result(run, (step, task, 0), result, None);
        }
    }

    fn status(
        &mut self,
        (link, task): (&NodeLink, TaskId),
        status: NodeStatusWord,
        worker: Option<WorkerId>,
        attempt: u32,
    ) {
        let Some(scope) = self.live.scope(link.run) else { return };
        let step = Step::of(link);
        let is_reused = false;
        let news = StatusNews { step, task: Some(task), worker, attempt, status, is_reused };
        self.events.push(Event::new(self.at, Some(scope), News::Status(news)));
    }

    fn error(
        &mut self,
        (link, task): (&NodeLink, TaskId),
        attempt: u32,
        failure: &Failure,
        will_retry: bool,
    ) {
        let Some(scope) = self.live.scope(link.run) else { return };
        let failure = failure_without_details(failure);
        let news =
            ErrorNews { step: Step::of(link), task: Some(task), attempt, will_retry, failure };
        self.push(&scope, News::Error(Box::new(news)));
    }

    fn result(
        &mut self,
        run: RunId,
        (step, task, revision): (Step, Option<TaskId>, u32),
        result: &Bytes,
        artifacts: Option<&Bytes>,
    ) {
        let Some(scope) = self.live.scope(run) else { return };
        let content = if result.len() > RESULT_BYTES_MAX {
            Content::TooLarge(result.len())
        } else {
            Content::Here(result.clone())
        };
        let artifacts = artifacts.filter(|list| list.len() <= RESULT_BYTES_MAX).cloned();
        let news = ResultNews { step, task, revision, content, artifacts };
        self.push(&scope, News::Result(Box::new(news)));
    }

    fn artifacts(&mut self, link: &NodeLink, task: TaskId, artifacts: &Bytes) {
        let Some(scope) = self.live.scope(link.run) else { return };
        let list = artifacts.clone();
        let news = ArtifactsNews { step: Step::of(link), task: Some(task), list };
        self.push(&scope, News::Artifacts(Box::new(news)));
    }
}

/// A subgraph that was entered.
#[derive(Clone, Copy)]
struct Opened<'a> {
    run: RunId,
    step_id: Uuid,
    frame: &'a SubgraphRecord,
}

impl<'a> Opened<'a> {
    fn of(change: &'a RunChange) -> Option<Self> {
        match change {
            RunChange::SubgraphOpened { run, step_id, frame } => {
                Some(Self { run: *run, step_id: *step_id, frame })
            }
            _ => None,
        }
    }

    /// Frames are numbered as they are opened, so those around a task have no higher number.
    fn is_around(&self, link: &NodeLink) -> bool {
        self.run == link.run && self.frame.number <= link.frame
    }
}

/// Details may be large, and are read from the node itself.
fn failure_without_details(failure: &Failure) -> Failure {
    Failure::new(failure.code.clone(), failure.reason.clone())
}

fn status_word(status: NodeStatus) -> NodeStatusWord {
    match status {
        NodeStatus::Waiting | NodeStatus::Queued => NodeStatusWord::Queued,
        NodeStatus::Running => NodeStatusWord::Running,
        NodeStatus::Succeeded => NodeStatusWord::Completed,
        NodeStatus::Failed => NodeStatusWord::Failed,
        NodeStatus::Cancelled | NodeStatus::NotRun => NodeStatusWord::Cancelled,
        NodeStatus::Skipped => NodeStatusWord::Skipped,
    }
}
