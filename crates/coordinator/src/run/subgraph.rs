//! Subgraphs: entered when their container's turn comes, closed when all their nodes have ended or
//! one has failed. The workflow itself is the outermost one.

use std::fmt::Write as _;

use bytes::Bytes;
use flow::OnError;
use model::{Failure, NodeWord, RunId, RunWord, TaskId};

use super::change::{ItemEnd, RunChange, RunEnd, SubgraphRecord};
use super::run_state::{Many, Place, RUN_TASKS_MAX, UnitEnd};
use crate::change::{EndedAttempt, Ending, Outcome, Settlement, TaskState};
use crate::coordinator::Decision;
use crate::effect::Answer;
use crate::state::Deadline;
use crate::task::record::Task;

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
        let settlement = Settlement {
            holder: attempt.as_ref().map(|attempt| attempt.worker.clone()),
            granted_at: task.progress.state.granted_at(),
            ..Settlement::unexecuted(Outcome::Stopped, now)
        };
        self.settle_as(id, attempt, settlement);
        true
    }

    /// A run that this program cannot read any more.
    pub(crate) fn fail_unreadable(&mut self, id: RunId, reason: &str) {
        let failure = Some(model::Failure::new("E.FLOW.INVALID", reason));
        let at = self.now();
        let end = RunEnd { word: RunWord::Failed, at, node: None, failure, outputs: None };
        self.record_run(RunChange::RunSettled { run: id, end: Box::new(end) });
        let own = |task: &&Task| task.link().is_some_and(|link| link.run == id);
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

impl Decision<'_> {
    /// Begins as many elements as there is room for.
    pub(crate) fn begin_items(&mut self, id: RunId, frame: u32, node: u32) {
        while let Some(item) = self.next_item(id, frame, node) {
            let place = Place { frame, node, item: Some(item), level: 0, call: None };
            if let Err(end) = self.begin_unit(id, &place, None) {
                let mut end = end.at(self.now());
                end.fact = Some(self.state.runs.live[&id].next_fact());
                let item = Box::new(ItemEnd { frame, node, item, end });
                self.record_run(RunChange::ItemEnded { run: id, item });
            }
        }
        self.after_item(id, (frame, node));
    }

    fn next_item(&self, id: RunId, frame: u32, node: u32) -> Option<u32> {
        let run = self.state.runs.live.get(&id)?;
        let many = run.frames.get(&frame)?.many(node)?;
        let may_begin = many.place.is_some() && run.busy < RUN_TASKS_MAX;
        may_begin.then_some(many.next)
    }

    /// One element has ended: the node may fail with it, be done, or go on with another.
    pub(crate) fn after_item(&mut self, id: RunId, (frame, node): (u32, u32)) {
        let Some(run) = self.state.runs.live.get(&id) else { return };
        let on_error = run.node(frame, node).map_or(OnError::Fail, |node| node.on_error);
        let Some(many) = run.frames.get(&frame).and_then(|frame| frame.many(node)) else { return };
        if on_error == OnError::Fail
            && let Some(end) = many.first_failure()
        {
            return self.end_node(id, (frame, node), end.at(self.now()));
        }
        if many.ended as usize == many.items.len() {
            let end = many.joined();
            return self.end_node(id, (frame, node), end.at(self.now()));
        }
        self.state.runs.set_due(id);
    }
}

impl Many {
    fn first_failure(&self) -> Option<UnitEnd> {
        let index = self.failed?;
        let end = self.ends[index as usize].as_ref()?;
        let failure = end.failure.as_ref().map(|failure| Failure {
            reason: format!("element {index}: {}", failure.reason),
            ..failure.clone()
        });
        Some(UnitEnd { word: end.word, result: None, failure })
    }

    /// What the elements gave, in order.
    fn joined(&self) -> UnitEnd {
        let mut json = String::from("{\"items\":[");
        let mut errors = Vec::new();
        for (index, end) in self.ends.iter().enumerate() {
            if index > 0 {
                json.push(',');
            }
            let end = end.as_ref().expect("all have ended");
            let result = end.result.as_ref().and_then(|json| std::str::from_utf8(json).ok());
            json.push_str(result.unwrap_or("null"));
            if let Some(failure) = &end.failure
                && matches!(end.word, NodeWord::Failed | NodeWord::Cancelled)
            {
                errors.push(serde_json::json!({
                    "index": index, "code": failure.code, "message": failure.reason
                }));
            }
        }
        let _ = write!(json, "],\"count\":{}", self.items.len());
        if !errors.is_empty() {
            let _ = write!(json, ",\"errors\":{}", serde_json::Value::Array(errors));
        }
        json.push('}');
        let result = Some(Bytes::from(json));
        UnitEnd { word: NodeWord::Succeeded, result, failure: None }
    }
}
