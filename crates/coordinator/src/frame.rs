//! Subgraphs: entered when their container's turn comes, closed when all their nodes have ended or
//! one has failed. The workflow itself is the outermost one.

use bytes::Bytes;
use model::{RunId, TaskId};

use crate::change::{Change, EndedAttempt, Ending, Outcome, Progress, TaskState};
use crate::coordinator::Turn;
use crate::dag::unexecuted;
use crate::deadline::Deadline;
use crate::effect::Answer;
use crate::run::{Place, UnitEnd};
use crate::run_change::{FrameRecord, NodeWord, RunChange, RunEnd, RunWord};

impl Turn<'_> {
    /// Enters a subgraph.
    pub(crate) fn open_frame(&mut self, id: RunId, place: &Place, graph: u32, inputs: &Bytes) {
        let opened_at = self.now();
        self.begin_run(id);
        let run = self.state.runs.live.get_mut(&id).expect("a run that is advanced");
        let record = FrameRecord {
            number: run.next_frame,
            graph,
            parent: place.frame,
            node: place.node,
            item: place.item,
            call: place.call.clone(),
            inputs: without_marks(inputs),
            opened_at,
        };
        let step_id = run.node(place.frame, place.node).expect("it is entered from a node").id;
        run.note_frame(&record);
        let is_empty = run.frames[&record.number].open == 0;
        let number = record.number;
        self.step.runs.push(RunChange::FrameOpened { run: id, step_id, frame: Box::new(record) });
        self.state.runs.set_due(id);
        if is_empty {
            let result = Some(Bytes::from_static(b"{}"));
            let end = UnitEnd { word: NodeWord::Succeeded, result, failure: None };
            self.close_frame(id, number, None, end);
        }
    }

    /// A frame has come to its end: whatever is still under way in it is stopped.
    pub(crate) fn close_frame(&mut self, id: RunId, frame: u32, node: Option<u32>, end: UnitEnd) {
        if frame == 0 {
            return self.close_run(id, node, end);
        }
        let Some(run) = self.state.runs.live.get_mut(&id) else { return };
        let Some(place) = run.frames.get(&frame).and_then(|frame| frame.place.clone()) else {
            return;
        };
        let end = UnitEnd { result: self.with_ports(id, frame, end.result.clone()), ..end };
        let stopped = self.take_within(id, frame);
        let run = self.state.runs.live.get_mut(&id).expect("just looked at");
        let after = run.note_frame_end(frame, &end);
        let fact = Box::new(end.at(self.now()));
        self.step.runs.push(RunChange::FrameClosed { run: id, frame, end: fact });
        self.stop_all(stopped);
        self.follow(id, &place, after);
        self.state.runs.set_due(id);
    }

    /// Frames within another one leave, and their tasks are no longer the run's.
    pub(crate) fn take_within(&mut self, id: RunId, frame: u32) -> Vec<TaskId> {
        let tasks = &self.state.tasks;
        let run = self.state.runs.live.get_mut(&id).expect("a live run");
        let frame_of = |task: &TaskId| {
            let link = tasks.get(*task).and_then(|task| task.link());
            link.map(|link| link.frame)
        };
        let inside = |task: &TaskId| frame_of(task).is_some_and(|own| run.lies_within(own, frame));
        let stopped: Vec<TaskId> = run.tasks.iter().copied().filter(inside).collect();
        let inner: Vec<u32> = run.frames.keys().copied().filter(|inner| *inner != frame).collect();
        let inner: Vec<u32> =
            inner.into_iter().filter(|inner| run.lies_within(*inner, frame)).collect();
        for task in &stopped {
            run.forget_task(*task, tasks.get(*task).and_then(|task| task.link()));
        }
        for inner in inner {
            run.frames.remove(&inner);
        }
        stopped
    }

    /// The run has come to its end.
    pub(crate) fn close_run(&mut self, id: RunId, node: Option<u32>, end: UnitEnd) {
        let Some(run) = self.state.runs.live.get(&id) else { return };
        let name = node.and_then(|node| run.node(0, node)).map(|node| node.id.to_string());
        let word = match end.word {
            NodeWord::Succeeded | NodeWord::Skipped | NodeWord::Blocked => RunWord::Succeeded,
            NodeWord::Failed => RunWord::Failed,
            NodeWord::Cancelled => RunWord::Cancelled,
        };
        let at = self.now();
        let stopped: Vec<TaskId> = run.tasks.iter().copied().collect();
        self.answer_callers_of(id);
        self.state.remove_run(id);
        let end = RunEnd { word, at, node: name, failure: end.failure, outputs: end.result };
        self.step.runs.push(RunChange::RunSettled { run: id, end: Box::new(end) });
        for (ticket, until) in self.state.runs.watches.take(id) {
            self.state.deadlines.remove(until, Deadline::Watch(ticket));
            self.answer(ticket, Answer::WatchEnded);
        }
        self.stop_all(stopped);
        self.state.forget_bindings(id);
    }

    /// Stops tasks that no longer matter to anyone.
    pub(crate) fn stop_all(&mut self, tasks: Vec<TaskId>) {
        for task in tasks {
            self.stop_task(task);
        }
    }

    /// Ends a task at once, whatever it is doing. `false` when it is not live.
    pub(crate) fn stop_task(&mut self, id: TaskId) -> bool {
        let now = self.now();
        let Some(task) = self.state.tasks.get(id) else { return false };
        let epoch = task.progress.epoch;
        let attempt = match &task.progress.state {
            TaskState::Leased(lease) => Some(EndedAttempt {
                epoch,
                worker: lease.holder.clone(),
                at: now,
                ending: Ending::Stopped,
            }),
            TaskState::Waiting { .. } | TaskState::Ready => None,
            TaskState::Settled(_) => panic!("a settled task left memory"),
        };
        let mut settlement = unexecuted(Outcome::Stopped, now);
        settlement.holder = attempt.as_ref().map(|attempt| attempt.worker.clone());
        settlement.granted_at = task.progress.state.granted_at();
        let state = TaskState::Settled(Box::new(settlement));
        let progress = Progress { state, ..task.progress };
        self.change(Change::TaskSettled { task: id, attempt, progress });
        true
    }

    /// A run that this program cannot read any more.
    pub(crate) fn fail_unreadable(&mut self, id: RunId) {
        let reason = "its definition cannot be read by this version";
        let failure = Some(model::Failure::new("E.FLOW.INVALID", reason));
        let at = self.now();
        let end = RunEnd { word: RunWord::Failed, at, node: None, failure, outputs: None };
        self.step.runs.push(RunChange::RunSettled { run: id, end: Box::new(end) });
        let own = |task: &&crate::task::Task| task.link().is_some_and(|link| link.run == id);
        let tasks: Vec<TaskId> = self.state.tasks.iter().filter(own).map(|task| task.id).collect();
        self.stop_all(tasks);
        self.state.forget_bindings(id);
    }

    /// What the container gives: the subgraph's outputs, and what its ports take from inside.
    fn with_ports(&self, id: RunId, frame: u32, result: Option<Bytes>) -> Option<Bytes> {
        let run = self.state.runs.live.get(&id)?;
        let inner = run.frames.get(&frame)?;
        let place = inner.place.as_ref()?;
        let flow::Work::Container { ports, .. } = &run.node(place.frame, place.node)?.host.work
        else {
            return result;
        };
        if ports.outputs.is_empty() {
            return result;
        }
        Some(crate::run::bytes_of(&inner.drawn(&ports.outputs, result.as_ref())))
    }
}

/// A subgraph sees its container's parameters without the mark that names it.
fn without_marks(parameters: &Bytes) -> Bytes {
    let mut value = crate::run::parsed(parameters);
    let mark = value.as_object_mut().and_then(|keys| keys.remove("__container"));
    if mark.is_some() { crate::run::bytes_of(&value) } else { parameters.clone() }
}
