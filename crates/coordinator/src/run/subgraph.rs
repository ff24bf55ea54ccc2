//! Subgraphs: entered when their container's turn comes, closed when all their nodes have ended or
//! one has failed. The workflow itself is the outermost one.

use bytes::Bytes;
use model::{RunId, TaskId};

use crate::change::{EndedAttempt, Ending, Outcome, Progress, TaskState};
use crate::coordinator::Decision;
use crate::deadline::Deadline;
use crate::effect::Answer;
use crate::run::change::{NodeWord, RunChange, RunEnd, RunWord, SubgraphRecord};
use crate::run::dag::unexecuted;
use crate::run::run_state::{Place, UnitEnd};

impl Decision<'_> {
    /// Enters a subgraph.
    pub(crate) fn open_frame(&mut self, id: RunId, place: &Place, graph: u32, inputs: &Bytes) {
        self.begin_run(id);
        let run = self.state.runs.live.get(&id).expect("a run that is advanced");
        let step_id = run.node(place.frame, place.node).expect("it is entered from a node").id;
        let is_empty = run.program.graphs[graph as usize].nodes.is_empty();
        let number = run.next_frame;
        let frame = Box::new(SubgraphRecord {
            number,
            graph,
            parent: place.frame,
            node: place.node,
            item: place.item,
            call: place.call.clone(),
            inputs: without_marks(inputs),
            opened_at: self.now(),
            fact: Some(run.next_fact()),
        });
        self.record_run(RunChange::SubgraphOpened { run: id, step_id, frame });
        self.state.runs.set_due(id);
        if is_empty {
            let result = Some(Bytes::from_static(b"{}"));
            let end = UnitEnd { word: NodeWord::Succeeded, result, failure: None };
            self.close_frame(id, number, None, end);
        }
    }

    /// A frame has come to its end: whatever is still being executed in it is stopped.
    pub(crate) fn close_frame(&mut self, id: RunId, frame: u32, node: Option<u32>, end: UnitEnd) {
        if frame == 0 {
            return self.close_run(id, node, end);
        }
        let result = self.with_ports(id, frame, end.result.clone());
        self.close_subgraph(id, frame, UnitEnd { result, ..end });
    }

    /// A subgraph has come to its end, or has no caller any more.
    pub(crate) fn close_subgraph(&mut self, id: RunId, frame: u32, end: UnitEnd) {
        let Some(run) = self.state.runs.live.get(&id) else { return };
        let Some(place) = run.frames.get(&frame).and_then(|frame| frame.place.clone()) else {
            return;
        };
        let stopped = run.tasks_within(frame);
        let mut end = Box::new(end.at(self.now()));
        end.fact = Some(run.next_fact());
        let after = self.record_run(RunChange::SubgraphClosed { run: id, frame, end });
        self.stop_all(stopped);
        self.follow(id, &place, after);
        self.state.runs.set_due(id);
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
        let stopped: Vec<TaskId> = run.tasks.keys().copied().collect();
        self.answer_callers_of(id);
        let end = RunEnd { word, at, node: name, failure: end.failure, outputs: end.result };
        self.record_run(RunChange::RunSettled { run: id, end: Box::new(end) });
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
        self.settle(id, attempt, progress);
        true
    }

    /// A run that this program cannot read any more.
    pub(crate) fn fail_unreadable(&mut self, id: RunId, reason: &str) {
        let failure = Some(model::Failure::new("E.FLOW.INVALID", reason));
        let at = self.now();
        let end = RunEnd { word: RunWord::Failed, at, node: None, failure, outputs: None };
        self.record_run(RunChange::RunSettled { run: id, end: Box::new(end) });
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
        Some(crate::run::run_state::bytes_of(&inner.drawn(&ports.outputs, result.as_ref())))
    }
}

/// A subgraph sees its container's parameters without the mark that names it.
fn without_marks(parameters: &Bytes) -> Bytes {
    let mut value = crate::run::run_state::parsed(parameters);
    let mark = value.as_object_mut().and_then(|keys| keys.remove("__container"));
    if mark.is_some() { crate::run::run_state::bytes_of(&value) } else { parameters.clone() }
}
