//! Facts become the state of runs: the only code that writes it, live and at recovery.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use flow::{NodesView, Program};
use model::{Failure, NodeLink, RunId, TaskId};
use serde_json::Value;

use crate::change::{Outcome, Settlement};
use crate::effect::NextEnd;
use crate::run::{
    Call, Child, Due, Frame, Gathered, Kept, Phase, Place, Run, UnitEnd, bytes_of, parsed,
};
use crate::run_change::{FrameRecord, NodeEnd, NodeWord, RunRecord};
use crate::state::State;

/// A worker's own word that it gave the work up.
const GIVEN_UP: &str = "E.RUNNER.CANCELLED";

/// Puts a value at a path, and makes the objects on the way.
pub(crate) fn put(value: &mut Value, path: &[String], new: Value) {
    let mut place = value;
    for key in path {
        if !place.is_object() {
            *place = Value::Object(serde_json::Map::new());
        }
        let keys = place.as_object_mut().expect("just made one");
        place = keys.entry(key.clone()).or_insert(Value::Null);
    }
    *place = new;
}

/// What follows when something of a run has ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum After {
    /// Nothing: its frame is closed, or nobody waits.
    Nothing,
    /// The node has ended with it; why it failed, if it did.
    NodeEnded(Option<Failure>),
    /// One element of the node has ended.
    ItemEnded,
    /// The outermost of a chain, or a container, has ended: so the node ends, with this.
    NodeEnds(UnitEnd),
    /// What a middleware called for has ended.
    CallEnded(NextEnd),
}

impl UnitEnd {
    /// What a task's end means to its run.
    pub(crate) fn of(settlement: &Settlement) -> Self {
        let is_skipped = settlement.extra.as_ref().is_some_and(|extra| extra.is_skipped);
        let gave_up = |failure: &Failure| failure.code == GIVEN_UP;
        let word = match settlement.outcome {
            Outcome::Completed if is_skipped => NodeWord::Skipped,
            Outcome::Completed => NodeWord::Succeeded,
            Outcome::Failed if settlement.failure.as_ref().is_some_and(gave_up) => {
                NodeWord::Cancelled
            }
            Outcome::Failed | Outcome::Dead => NodeWord::Failed,
            Outcome::Stopped => NodeWord::Cancelled,
        };
        Self { word, result: settlement.result.clone(), failure: settlement.failure.clone() }
    }

    pub(crate) fn failed(code: &str, reason: impl Into<String>) -> Self {
        let failure = Some(Failure::new(code, reason));
        Self { word: NodeWord::Failed, result: None, failure }
    }

    fn answer(&self) -> NextEnd {
        match (self.word, &self.result) {
            (NodeWord::Succeeded, result) => {
                NextEnd::Succeeded(result.clone().unwrap_or(Bytes::from_static(b"{}")))
            }
            (word, result) => {
                NextEnd::Ended { word, failure: self.failure.clone(), result: result.clone() }
            }
        }
    }
}

impl From<&NodeEnd> for UnitEnd {
    fn from(end: &NodeEnd) -> Self {
        Self { word: end.word, result: end.result.clone(), failure: end.failure.clone() }
    }
}

impl State {
    /// A run came into being, or a restart brings it back.
    pub(crate) fn insert_run(&mut self, record: &RunRecord, program: Arc<Program>) {
        let inputs = Arc::new(parsed(&record.inputs));
        let root = Frame::new(0, &program.graphs[0], None, Arc::clone(&inputs));
        let mut run = Run {
            name: record.id.to_string().parse().expect("a UUID names a run"),
            program,
            inputs,
            frames: [(0, root)].into(),
            next_frame: 1,
            line: VecDeque::new(),
            is_due: false,
            has_begun: record.began_at.is_some(),
            tasks: BTreeSet::new(),
            busy: 0,
            calls: BTreeMap::new(),
        };
        run.line_up_roots(0);
        if let Some(mark) = &record.idempotency {
            self.runs.keys.add(mark.key.clone(), record.id, mark.fingerprint);
        }
        self.runs.definition_bytes += run.program.source.len();
        self.runs.next = self.runs.next.max(record.id.number() + 1);
        self.runs.live.insert(record.id, run);
        self.runs.set_due(record.id);
    }

    /// A node of a run begins. Gives whether it is the first.
    pub(crate) fn note_run_began(&mut self, run: RunId) -> bool {
        let live = self.runs.live.get_mut(&run);
        live.is_some_and(|run| !std::mem::replace(&mut run.has_begun, true))
    }

    /// A run came to its end, and leaves memory.
    pub(crate) fn remove_run(&mut self, run: RunId) {
        if let Some(run) = self.runs.live.remove(&run) {
            self.runs.definition_bytes -= run.program.source.len();
        }
    }

    /// A task of a run came into being.
    pub(crate) fn note_run_task(&mut self, link: &NodeLink, id: TaskId, parameters: &Bytes) {
        let Some(run) = self.runs.live.get_mut(&link.run) else { return };
        run.note_task(link, id, parameters);
    }

    /// A task of a run came to its end.
    pub(crate) fn note_run_task_end(
        &mut self,
        link: &NodeLink,
        id: TaskId,
        settlement: &Settlement,
    ) -> After {
        let Some(run) = self.runs.live.get_mut(&link.run) else { return After::Nothing };
        run.note_task_end(link, id, &UnitEnd::of(settlement))
    }
}

impl Run {
    fn line_up_roots(&mut self, number: u32) {
        let Some(frame) = self.frames.get_mut(&number) else { return };
        for node in &self.program.graphs[frame.graph as usize].roots {
            frame.nodes[*node as usize].phase = Phase::Due;
            self.line.push_back(Due::Node { frame: number, node: *node });
        }
    }

    pub(crate) fn is_executed(&self, link: &NodeLink) -> bool {
        let node = self.node(link.frame, link.node);
        let step = node.map(|node| node.step(usize::from(link.level)));
        step.is_none_or(|step| matches!(step.work, flow::Work::Task { .. }))
    }

    pub(crate) fn note_task(&mut self, link: &NodeLink, id: TaskId, parameters: &Bytes) {
        self.tasks.insert(id);
        self.busy += u32::from(self.is_executed(link));
        if let Some(call) = &link.call {
            let calls = self.calls.entry(call.caller.task).or_default();
            let child = Child::Task(id);
            calls.entry((**call).clone()).or_insert(Call { child, waiting: None });
        }
        self.note_begun(&Place::of(link), || parsed(parameters));
    }

    /// Something is under way at a place.
    fn note_begun(&mut self, place: &Place, parameters: impl FnOnce() -> Value) {
        let program = Arc::clone(&self.program);
        let Some(frame) = self.frames.get_mut(&place.frame) else { return };
        let node = &program.graphs[frame.graph as usize].nodes[place.node as usize];
        if node.keeps_parameters && place.level == node.host_level() {
            frame.parameters.insert(place.node, parameters());
        }
        let has_chain = !node.middlewares.is_empty();
        let state = &mut frame.nodes[place.node as usize];
        match (&mut state.phase, place.item) {
            (Phase::Many(many), Some(item)) if place.call.is_none() => {
                many.active.insert(item);
                if has_chain {
                    many.gathered.entry(item).or_default();
                }
            }
            (Phase::Waiting | Phase::Due, None) => {
                state.phase = Phase::One(has_chain.then(Box::default));
            }
            _ => {}
        }
    }

    pub(crate) fn note_task_end(&mut self, link: &NodeLink, id: TaskId, end: &UnitEnd) -> After {
        if !self.tasks.remove(&id) {
            return After::Nothing;
        }
        self.busy -= u32::from(self.is_executed(link));
        self.note_unit_end(&Place::of(link), end)
    }

    pub(crate) fn note_frame(&mut self, record: &FrameRecord) {
        let place = Place {
            frame: record.parent,
            node: record.node,
            item: record.item,
            level: self.node(record.parent, record.node).map_or(0, flow::Node::host_level),
            call: record.call.clone(),
        };
        if let Some(call) = &record.call {
            let calls = self.calls.entry(call.caller.task).or_default();
            let child = Child::Frame(record.number);
            calls.entry((**call).clone()).or_insert(Call { child, waiting: None });
        }
        let inputs = Arc::new(parsed(&record.inputs));
        self.note_begun(&place, || parsed(&record.inputs));
        let graph = &self.program.graphs[record.graph as usize];
        let mut frame = Frame::new(record.graph, graph, Some(place), Arc::clone(&inputs));
        frame.pour(self.container_ports(record));
        self.frames.insert(record.number, frame);
        self.next_frame = self.next_frame.max(record.number + 1);
        self.line_up_roots(record.number);
    }

    fn container_ports(&self, record: &FrameRecord) -> &[(Vec<String>, u32, Vec<String>)] {
        match self.node(record.parent, record.node).map(|node| &node.host.work) {
            Some(flow::Work::Container { ports, .. }) => &ports.inputs,
            _ => &[],
        }
    }

    /// A subgraph came to its end.
    pub(crate) fn note_frame_end(&mut self, number: u32, end: &UnitEnd) -> After {
        let Some(frame) = self.frames.remove(&number) else { return After::Nothing };
        let place = frame.place.expect("the workflow itself is closed with its run");
        self.note_unit_end(&place, end)
    }

    fn note_unit_end(&mut self, place: &Place, end: &UnitEnd) -> After {
        let program = Arc::clone(&self.program);
        let Some(frame) = self.frames.get_mut(&place.frame) else { return After::Nothing };
        let node = &program.graphs[frame.graph as usize].nodes[place.node as usize];
        let is_host = place.level == node.host_level();
        let gave = || end.result.as_ref().filter(|_| end.word == NodeWord::Succeeded).map(parsed);
        if !node.middlewares.is_empty()
            && let Some(gathered) = frame.gathered(place)
            && let Some(result) = gave()
        {
            gathered.take(place.level, is_host, result);
        }
        if let Some(call) = &place.call {
            let answer = end.answer();
            let calls = self.calls.get_mut(&call.caller.task);
            let Some(call) = calls.and_then(|calls| calls.get_mut(call)) else {
                return After::Nothing;
            };
            call.child = Child::Ended(answer.clone());
            return After::CallEnded(answer);
        }
        let mut end = end.clone();
        if !node.middlewares.is_empty()
            && end.word == NodeWord::Succeeded
            && let Some(gathered) = frame.gathered(place)
        {
            end.result = Some(bytes_of(&gathered.result()));
        }
        let Some(item) = place.item else {
            let is_plain = node.middlewares.is_empty()
                && !matches!(node.host.work, flow::Work::Container { .. });
            if is_plain {
                self.note_node_end(place.frame, place.node, &end);
                return After::NodeEnded(end.failure);
            }
            return After::NodeEnds(end);
        };
        frame.end_item(place.node, item, end);
        After::ItemEnded
    }

    /// A node has ended: those that waited for it alone stand in line.
    pub(crate) fn note_node_end(&mut self, number: u32, node: u32, end: &UnitEnd) {
        let program = Arc::clone(&self.program);
        let Some(frame) = self.frames.get_mut(&number) else { return };
        let graph = &program.graphs[frame.graph as usize];
        let state = &mut frame.nodes[node as usize];
        let gathered = match &mut state.phase {
            Phase::Ended(..) => return,
            Phase::One(gathered) => gathered.take().map(|gathered| *gathered),
            Phase::Waiting | Phase::Due | Phase::Many(_) => None,
        };
        let definition = &graph.nodes[node as usize];
        let kept = (definition.readers > 0).then(|| {
            let parameters = frame.parameters.get(&node).cloned();
            Box::new(Kept::new(end, frame.ended).with(parameters, gathered))
        });
        state.phase = Phase::Ended(end.word, kept);
        frame.ended += 1;
        frame.open -= 1;
        for follower in &definition.followers {
            let state = &mut frame.nodes[*follower as usize];
            state.unmet -= 1;
            if state.unmet == 0 && matches!(state.phase, Phase::Waiting) {
                state.phase = Phase::Due;
                self.line.push_back(Due::Node { frame: number, node: *follower });
            }
        }
    }
}

impl Frame {
    fn gathered(&mut self, place: &Place) -> Option<&mut Gathered> {
        match (&mut self.nodes[place.node as usize].phase, place.item) {
            (Phase::One(gathered), None) => gathered.as_deref_mut(),
            (Phase::Many(many), Some(item)) => many.gathered.get_mut(&item),
            _ => None,
        }
    }

    fn end_item(&mut self, node: u32, item: u32, end: UnitEnd) {
        let Some(many) = self.many_mut(node) else { return };
        many.active.remove(&item);
        many.gathered.remove(&item);
        let is_bad = matches!(end.word, NodeWord::Failed | NodeWord::Cancelled);
        let place = &mut many.ends[item as usize];
        if place.is_none() {
            if is_bad {
                many.failed.get_or_insert(item);
            }
            *place = Some(end);
            many.ended += 1;
        }
    }

    /// An element that could not even be begun.
    pub(crate) fn note_item_end(&mut self, node: u32, item: u32, end: UnitEnd) {
        self.end_item(node, item, end);
    }

    /// What a container's ports take from the nodes inside, laid over what the subgraph gives.
    pub(crate) fn drawn(
        &self,
        ports: &[(u32, flow::Root, Vec<String>, Vec<String>)],
        result: Option<&Bytes>,
    ) -> Value {
        let mut drawn = result.map_or_else(|| serde_json::json!({}), parsed);
        for (node, root, from, to) in ports {
            let Some(facts) = self.facts(*node) else { continue };
            let source = match root {
                flow::Root::Results => facts.results,
                flow::Root::Parameters => facts.parameters,
            };
            let found =
                source.and_then(|value| from.iter().try_fold(value, |value, key| value.get(key)));
            if let Some(value) = found {
                put(&mut drawn, to, value.clone());
            }
        }
        drawn
    }

    fn pour(&mut self, ports: &[(Vec<String>, u32, Vec<String>)]) {
        for (from, node, to) in ports {
            let found = from.iter().try_fold(&*self.inputs, |value, key| value.get(key));
            if let Some(value) = found.cloned() {
                self.poured.entry(*node).or_default().push((to.clone(), value));
            }
        }
    }
}
