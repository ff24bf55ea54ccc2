//! A restart: runs come back from their facts, through the same writers that made them.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{NodeLink, RunId, TaskId, Timestamp};

use crate::change::{TaskRecord, TaskState};
use crate::coordinator::Turn;
use crate::planted::{self, Bug};
use crate::run::{Due, Many, Phase, UnitEnd};
use crate::run_change::{FrameRecord, NodeEnd, RestoredRun};

/// Something that happened in a run, in the order in which it did.
enum Past {
    Opened(FrameRecord),
    Task(TaskRecord),
    NodeEnded(u32, u32, NodeEnd),
    Closed(u32, NodeEnd),
}

impl Turn<'_> {
    pub(crate) fn restore_runs(&mut self, next: u64, runs: impl IntoIterator<Item = RestoredRun>) {
        self.state.runs.next = self.state.runs.next.max(next);
        let mut live = self.live_tasks_of_runs();
        for run in runs {
            let id = run.record.id;
            self.restore_run(run, live.remove(&id).unwrap_or_default());
        }
    }

    fn live_tasks_of_runs(&self) -> BTreeMap<RunId, Vec<(TaskId, Arc<NodeLink>)>> {
        let mut live: BTreeMap<RunId, Vec<(TaskId, Arc<NodeLink>)>> = BTreeMap::new();
        for task in self.state.tasks.iter() {
            if let Some(link) = task.link() {
                live.entry(link.run).or_default().push((task.id, Arc::clone(link)));
            }
        }
        live
    }

    fn restore_run(&mut self, restored: RestoredRun, live: Vec<(TaskId, Arc<NodeLink>)>) {
        let id = restored.record.id;
        let Ok(compiled) = flow::compile(restored.record.definition.clone()) else {
            self.state.runs.unreadable.push(id);
            return;
        };
        self.state.insert_run(&restored.record, Arc::new(compiled.program));
        for past in in_order(restored) {
            self.restore_past(id, past);
        }
        for (task, link) in live {
            self.restore_lists(id, &link);
            let parameters = self.state.tasks.get(task).expect("live").parameters.clone();
            self.state.note_run_task(&link, task, &parameters);
        }
        self.line_up_again(id);
    }

    fn restore_past(&mut self, id: RunId, past: Past) {
        match past {
            Past::Task(record) => {
                let (Some(link), TaskState::Settled(settlement)) =
                    (&record.link, &record.progress.state)
                else {
                    return;
                };
                self.restore_lists(id, link);
                self.remember_holder(&record);
                self.remember_binding(&record);
                self.state.note_run_task(link, record.id, &record.parameters);
                self.state.note_run_task_end(link, record.id, settlement);
            }
            Past::Opened(frame) => {
                self.restore_list(id, frame.parent, frame.node, frame.item);
                let run = self.state.runs.live.get_mut(&id).expect("just inserted");
                run.note_frame(&frame);
            }
            Past::NodeEnded(frame, node, end) => {
                let run = self.state.runs.live.get_mut(&id).expect("just inserted");
                run.note_node_end(frame, node, &UnitEnd::from(&end));
            }
            Past::Closed(frame, end) => {
                let run = self.state.runs.live.get_mut(&id).expect("just inserted");
                run.note_frame_end(frame, &UnitEnd::from(&end));
            }
        }
    }

    fn restore_lists(&mut self, id: RunId, link: &NodeLink) {
        self.restore_list(id, link.frame, link.node, link.item);
    }

    /// A node that is executed once per element has no fact of its own when it begins: its list is
    /// worked out again, from what its expressions saw then.
    fn restore_list(&mut self, id: RunId, frame: u32, node: u32, item: Option<u32>) {
        if item.is_none() {
            return;
        }
        let run = self.state.runs.live.get(&id).expect("just inserted");
        let Some(state) = run.frames.get(&frame) else { return };
        if !matches!(state.nodes[node as usize].phase, Phase::Waiting | Phase::Due) {
            return;
        }
        let Some(map) = &run.graph(state).nodes[node as usize].map else { return };
        let items = flow::list_of(map, &run.scope(state)).unwrap_or_default();
        let run = self.state.runs.live.get_mut(&id).expect("just inserted");
        let state = run.frames.get_mut(&frame).expect("just looked at");
        state.nodes[node as usize].phase = Phase::Many(Box::new(Many::new(items)));
    }

    /// Whose turn had come, and who was not begun yet.
    fn line_up_again(&mut self, id: RunId) {
        let Some(run) = self.state.runs.live.get_mut(&id) else { return };
        let is_begun = |run: &crate::run::Run, due: &Due| match due {
            Due::Node { frame, node } => run
                .frames
                .get(frame)
                .is_none_or(|frame| !matches!(frame.nodes[*node as usize].phase, Phase::Due)),
            Due::Items { .. } => true,
        };
        let line: Vec<Due> = run.line.drain(..).collect();
        let mut line: Vec<Due> = line.into_iter().filter(|due| !is_begun(run, due)).collect();
        if planted::is(Bug::LineForgotten) {
            line.clear();
        }
        for (number, frame) in &mut run.frames {
            for (node, state) in frame.nodes.iter_mut().enumerate() {
                if let Phase::Many(many) = &mut state.phase {
                    many.is_due = true;
                    let node = u32::try_from(node).expect("fewer nodes than 2^32");
                    line.push(Due::Items { frame: *number, node });
                }
            }
        }
        run.line = line.into();
    }
}

/// Everything that happened, by its moment; at the same moment frames open first and close last.
fn in_order(restored: RestoredRun) -> Vec<Past> {
    let mut past: Vec<((Timestamp, u8, u64), Past)> = Vec::new();
    for frame in restored.frames {
        past.push(((frame.opened_at, 0, u64::from(frame.number)), Past::Opened(frame)));
    }
    for record in restored.settled {
        let TaskState::Settled(settlement) = &record.progress.state else { continue };
        past.push(((settlement.at, 1, record.id.number()), Past::Task(record.clone())));
    }
    for (frame, node, end) in restored.ended {
        past.push(((end.at, 2, u64::from(node)), Past::NodeEnded(frame, node, end)));
    }
    for (frame, end) in restored.closed {
        // Inner frames have higher numbers, and close before those around them.
        past.push(((end.at, 3, u64::MAX - u64::from(frame)), Past::Closed(frame, end)));
    }
    past.sort_by_key(|(key, _)| *key);
    past.into_iter().map(|(_, past)| past).collect()
}
