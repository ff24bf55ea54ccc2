//! A restart: runs come back from their facts, through the same writers that made them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use model::{NodeLink, RunId, TaskId, Timestamp};

use crate::change::{Settlement, TaskState};
use crate::coordinator::Turn;
use crate::planted::{self, Bug};
use crate::run::{Due, Many, Phase, Run, UnitEnd};
use crate::run_change::{FrameRecord, NodeEnd, RestoredRun};

/// Something that happened in a run.
enum Past {
    Opened(FrameRecord),
    Begun(TaskId, Arc<NodeLink>, Bytes),
    Ended(TaskId, Arc<NodeLink>, Box<Settlement>),
    NodeEnded(u32, u32, NodeEnd),
    /// Which frame, the frame around it, the node there, and what it came to.
    Closed(u32, (u32, u32), NodeEnd),
}

/// Where something stands among all that happened: its moment, then beginnings before ends, then
/// what lies deeper before what lies around it, then a number.
type Order = (Timestamp, u8, u16, u32, u64);

const OPENED: u8 = 0;
const BEGUN: u8 = 1;
const ENDED: u8 = 2;

/// What cannot have happened yet, by the node whose turn must come first. Moments are told in
/// milliseconds, and much happens within one.
type Later = BTreeMap<(u32, u32), Vec<Past>>;

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
        for record in &restored.settled {
            self.remember_holder(record);
        }
        self.restore_bindings(&restored, &live);
        let mut later = Later::new();
        for past in self.in_order(restored, live) {
            self.restore_past(id, past, &mut later);
        }
        self.line_up_again(id);
    }

    /// Takes in what happened, and then whatever waited for that.
    fn restore_past(&mut self, id: RunId, past: Past, later: &mut Later) {
        let mut stack = vec![past];
        while let Some(past) = stack.pop() {
            let run = self.state.runs.live.get_mut(&id).expect("just inserted");
            if let Some(node) = run.must_come_first(&past) {
                later.entry(node).or_default().push(past);
                continue;
            }
            let seen = run.line.len();
            self.restore_one(id, past);
            let run = self.state.runs.live.get_mut(&id).expect("just inserted");
            for due in run.line.iter().skip(seen) {
                if let Due::Node { frame, node } = due {
                    let waiting = later.remove(&(*frame, *node)).unwrap_or_default();
                    stack.extend(waiting.into_iter().rev());
                }
            }
        }
    }

    fn restore_one(&mut self, id: RunId, past: Past) {
        match past {
            Past::Begun(task, link, parameters) => {
                self.restore_list(id, link.frame, link.node, link.item);
                self.state.note_run_task(&link, task, &parameters);
            }
            Past::Ended(task, link, settlement) => {
                self.state.note_run_task_end(&link, task, &settlement);
            }
            Past::Opened(frame) => {
                self.restore_list(id, frame.parent, frame.node, frame.item);
                self.state.runs.live.get_mut(&id).expect("just inserted").note_frame(&frame);
            }
            Past::NodeEnded(frame, node, end) => {
                let run = self.state.runs.live.get_mut(&id).expect("just inserted");
                run.note_node_end(frame, node, &UnitEnd::from(&end));
            }
            Past::Closed(frame, _, end) => {
                let run = self.state.runs.live.get_mut(&id).expect("just inserted");
                run.note_frame_end(frame, &UnitEnd::from(&end));
            }
        }
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
        let is_begun = |run: &Run, due: &Due| match due {
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

    /// Everything that happened, by its moment. Within one, what began comes before what ended, and
    /// what was called before its caller: a frame is closed before the middleware around it ends.
    fn in_order(&self, restored: RestoredRun, live: Vec<(TaskId, Arc<NodeLink>)>) -> Vec<Past> {
        let depths = depths(&restored.frames);
        let depth = |frame: u32| u16::MAX - depths.get(&frame).copied().unwrap_or(0);
        let places: BTreeMap<u32, (u32, u32)> = restored
            .frames
            .iter()
            .map(|frame| (frame.number, (frame.parent, frame.node)))
            .collect();
        let mut past: Vec<(Order, Past)> = Vec::new();
        for frame in restored.frames {
            let order = (frame.opened_at, OPENED, 0, 0, u64::from(frame.number));
            past.push((order, Past::Opened(frame)));
        }
        for record in restored.settled {
            let (Some(link), TaskState::Settled(settlement)) = (record.link, record.progress.state)
            else {
                continue;
            };
            let (id, number) = (record.id, record.id.number());
            let begun = Past::Begun(id, Arc::clone(&link), record.parameters);
            past.push(((record.created_at, BEGUN, 0, 0, number), begun));
            let step = 1 + u32::from(u16::MAX - link.level);
            let order = (settlement.at, ENDED, depth(link.frame), step, number);
            past.push((order, Past::Ended(id, link, settlement)));
        }
        for (id, link) in live {
            let task = self.state.tasks.get(id).expect("live");
            let begun = Past::Begun(id, link, task.parameters.clone());
            past.push(((task.created_at, BEGUN, 0, 0, id.number()), begun));
        }
        for (frame, node, end) in restored.ended {
            let order = (end.at, ENDED, depth(frame), u32::MAX, u64::from(node));
            past.push((order, Past::NodeEnded(frame, node, end)));
        }
        for (frame, end) in restored.closed {
            let Some(place) = places.get(&frame).copied() else { continue };
            let order = (end.at, ENDED, depth(place.0), 0, u64::from(frame));
            past.push((order, Past::Closed(frame, place, end)));
        }
        past.sort_by_key(|(order, _)| *order);
        past.into_iter().map(|(_, past)| past).collect()
    }
}

/// How deep each frame lies in the others.
fn depths(frames: &[FrameRecord]) -> BTreeMap<u32, u16> {
    let mut depths: BTreeMap<u32, u16> = BTreeMap::from([(0, 0)]);
    let mut frames: Vec<&FrameRecord> = frames.iter().collect();
    // Inner frames have higher numbers.
    frames.sort_by_key(|frame| frame.number);
    for frame in frames {
        let around = depths.get(&frame.parent).copied().unwrap_or(0);
        depths.insert(frame.number, around.saturating_add(1));
    }
    depths
}

impl Run {
    /// The node whose turn must come before this can have happened, if it has not come.
    fn must_come_first(&self, past: &Past) -> Option<(u32, u32)> {
        let (frame, node) = match past {
            Past::Opened(record) => (record.parent, record.node),
            Past::Begun(_, link, _) | Past::Ended(_, link, _) => (link.frame, link.node),
            Past::NodeEnded(frame, node, _) => {
                return (!self.frames.contains_key(frame)).then_some((*frame, *node));
            }
            Past::Closed(frame, ..) if self.frames.contains_key(frame) => return None,
            Past::Closed(_, place, _) => *place,
        };
        let state = self.frames.get(&frame).map(|frame| &frame.nodes[node as usize].phase);
        matches!(state, None | Some(Phase::Waiting)).then_some((frame, node))
    }
}
