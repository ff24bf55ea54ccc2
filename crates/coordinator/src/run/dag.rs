//! Runs: a node begins when all that it waits for have ended, and what it is decides how it is
//! executed. Nothing here recurses along edges: what is to begin stands in the run's queue.

use std::sync::Arc;

use bytes::Bytes;
use flow::{AffinityMode, EvalError, Item, OnError, Program, Work};
use model::{Failure, LeaseId, NodeLink, NodeWord, Pin, RunId, TaskId, TaskSpec, Timestamp};
use serde_json::Value;

use super::node_status::{NodeDecision, node_decision};
use crate::change::{Change, Progress, TaskFacts, TaskRecord, TaskState};
use crate::command::{NewRun, Ticket};
use crate::coordinator::Decision;
use crate::effect::{Answer, Chain, Refusal, Underway};
use crate::run::apply::After;
use crate::run::change::{ListRecord, NodeEnd, RunChange, RunRecord};
use crate::run::run_state::{
    Due, Frame, LIVE_DEFINITION_BYTES_MAX, LIVE_RUNS_MAX, Place, RUN_TASKS_MAX, Run, UnitEnd,
    bytes_of, parsed,
};
use crate::run::signal::own_spec;
use crate::state::Deadline;
use crate::state::State;
use crate::task::load::WATCHES_MAX;
use crate::task::record::Task;

/// The code of a node whose expressions could not be evaluated.
const EXPRESSION_FAILED: &str = "E.FLOW.EXPRESSION";

impl State {
    /// The chain of middlewares that a task stands in.
    pub(crate) fn chain_of(&self, task: &Task) -> Option<Arc<Chain>> {
        let link = task.link()?;
        let node = self.runs.live.get(&link.run)?.node(link.frame, link.node)?;
        (!node.middlewares.is_empty()).then(|| {
            let middlewares = node.middlewares.iter().map(|step| step.id).collect();
            Arc::new(Chain { host: node.id, middlewares })
        })
    }
}

impl Decision<'_> {
    pub(crate) fn on_start_run(&mut self, new: NewRun) -> Result<Answer, Refusal> {
        self.start_run(new).map(|(run, existed)| Answer::RunStarted { run, existed })
    }

    pub(crate) fn start_run(&mut self, new: NewRun) -> Result<(RunId, bool), Refusal> {
        if let Some(mark) = &new.idempotency
            && let Some((run, fingerprint)) = self.state.runs.keys.get(&mark.key)
        {
            if fingerprint == mark.fingerprint {
                return Ok((run, true));
            }
            return Err(Refusal::RunConflict { key: mark.key.clone() });
        }
        self.check_run_room(&new.program)?;
        let id = RunId::of(self.state.shard, self.state.runs.next);
        let record = RunRecord {
            id,
            definition: new.program.source.clone(),
            inputs: new.inputs,
            idempotency: new.idempotency,
            created_at: self.now(),
            began_at: None,
            about: new.about,
            end: None,
        };
        self.state.insert_run(&record, new.program);
        self.step.runs.push(RunChange::RunStarted(Box::new(record)));
        for reused in new.reused {
            let end = NodeEnd {
                word: reused.word,
                at: self.now(),
                result: reused.result,
                failure: None,
                reused: reused.task,
                fact: None,
            };
            self.end_node(id, (0, reused.node), end);
        }
        Ok((id, false))
    }

    fn check_run_room(&mut self, program: &Program) -> Result<(), Refusal> {
        let runs = &self.state.runs;
        let bytes = runs.definition_bytes + program.source.len();
        if runs.live.len() >= LIVE_RUNS_MAX || bytes > LIVE_DEFINITION_BYTES_MAX {
            return Err(Refusal::RunsFull);
        }
        // Equal specs are one: an author's thousand nodes of one type make one demand.
        let mut last: Option<&Arc<TaskSpec>> = None;
        let specs = specs_of(program).filter(|spec| {
            let is_new = last.is_none_or(|last| !Arc::ptr_eq(last, spec));
            last = Some(spec);
            is_new
        });
        let specs: Vec<&Arc<TaskSpec>> = specs.collect();
        if self.state.placement.has_room_for(specs.into_iter()) {
            Ok(())
        } else {
            Err(Refusal::DemandsFull)
        }
    }

    pub(crate) fn on_cancel_run(&mut self, run: RunId, by: &str) -> Answer {
        if !self.state.runs.live.contains_key(&run) {
            return Answer::NotLive;
        }
        self.cancel_run(run, by);
        Answer::Stopped
    }

    /// Stops a live run and everything in it.
    pub(crate) fn cancel_run(&mut self, run: RunId, by: &str) {
        let failure = Some(Failure::new("E.RUN.CANCELLED", format!("{by} stopped it")));
        let end = UnitEnd { word: NodeWord::Cancelled, result: None, failure };
        self.close_run(run, None, end);
    }

    pub(crate) fn on_watch_run(&mut self, ticket: Ticket, run: RunId, until: Timestamp) {
        if !self.state.runs.live.contains_key(&run) {
            return self.answer(ticket, Answer::NotLive);
        }
        if until <= self.now() {
            return self.answer(ticket, Answer::WatchEnded);
        }
        if self.state.runs.watches.len() >= WATCHES_MAX {
            return self.answer(ticket, Answer::Refused(Refusal::RequestsFull));
        }
        self.state.runs.watches.add(ticket, run, until);
        self.state.deadlines.insert(until, Deadline::Watch(ticket));
    }

    /// Looks at the live tasks of one run, which are few.
    pub(crate) fn on_underway(&self, run: RunId) -> Answer {
        let live = self.state.runs.live.get(&run);
        let tasks = live.into_iter().flat_map(|run| run.tasks.keys());
        let unconfirmed = |id: &TaskId| {
            let task = self.state.tasks.get(*id)?;
            let TaskState::Leased(lease) = &task.progress.state else { return None };
            Some((LeaseId { task: *id, epoch: task.progress.epoch }, lease.confirm_by?))
        };
        Answer::Underway(Box::new(Underway {
            unconfirmed: tasks.filter_map(unconfirmed).collect(),
        }))
    }

    // ----- what is to begin

    /// Begins what can be begun, in every run that something happened to.
    pub(crate) fn advance_runs(&mut self) {
        while let Some((run, reason)) = self.state.runs.unreadable.pop() {
            self.fail_unreadable(run, reason);
        }
        let mut room = self.state.runs.begun_per_turn;
        while room > 0
            && let Some(run) = self.state.runs.due.pop_front()
        {
            if let Some(live) = self.state.runs.live.get_mut(&run) {
                live.is_due = false;
            }
            room = self.advance(run, room);
        }
    }

    /// Begins up to so many nodes of a run; gives how many more there is room for.
    fn advance(&mut self, id: RunId, mut room: usize) -> usize {
        while let Some(run) = self.state.runs.live.get(&id) {
            if run.busy >= RUN_TASKS_MAX {
                return room;
            }
            let Some((_, due)) = run.queue.first_key_value() else { return room };
            if room == 0 {
                self.state.runs.set_due(id);
                return room;
            }
            room -= 1;
            let last_fact = run.last_fact;
            match *due {
                Due::Node { frame, node } => self.begin_node(id, frame, node),
                Due::Items { frame, node } => self.begin_items(id, frame, node),
            }
            let run = self.state.runs.live.get(&id);
            assert!(run.is_none_or(|run| run.last_fact > last_fact), "to begin is a fact");
        }
        room
    }

    fn begin_node(&mut self, id: RunId, frame: u32, node: u32) {
        let Some(run) = self.state.runs.live.get(&id) else { return };
        match node_decision(run, frame, node) {
            NodeDecision::Ends(end) => self.end_node(id, (frame, node), end.at(self.now())),
            NodeDecision::Many(items) => {
                let length = u32::try_from(items.len()).expect("a list has fewer than 2^32");
                let list = ListRecord { frame, node, length, fact: Some(run.next_fact()) };
                let items = Arc::new(items);
                self.record_run(RunChange::ListBegun { run: id, list, items });
                self.begin_items(id, frame, node);
            }
            NodeDecision::One => {
                let place = Place { frame, node, item: None, level: 0, call: None };
                if let Err(end) = self.begin_unit(id, &place, None) {
                    self.end_node(id, (frame, node), end.at(self.now()));
                }
            }
        }
    }

    /// Begins one execution: of a node, of one element, or of one link of a chain.
    pub(crate) fn begin_unit(
        &mut self,
        id: RunId,
        place: &Place,
        payload: Option<&Value>,
    ) -> Result<(), UnitEnd> {
        let run = self.state.runs.live.get(&id).expect("a run that is advanced");
        let parameters = filled(run, place, payload)?;
        let program = Arc::clone(&run.program);
        let graph = run.frames[&place.frame].graph;
        let step = program.graphs[graph as usize].nodes[place.node as usize].step(place.level);
        match &step.work {
            Work::Task { spec, concurrency_key, affinity } => {
                let key = text_of(run, place, concurrency_key.as_deref())?;
                let affinity_key = text_of(run, place, affinity.as_ref().map(|a| a.key.as_str()))?;
                let affinity = affinity_key.zip(affinity.as_ref()).map(|(key, affinity)| {
                    let is_hard = affinity.mode == AffinityMode::Sticky;
                    Box::new(Pin::Key { key, is_hard, ttl: affinity.ttl })
                });
                // What only one worker has binds more than what the author likes.
                let pin = flow::resource_pin(&parameters)
                    .map_err(|conflict| UnitEnd::failed(conflict.code(), conflict.to_string()))?;
                let pin = pin.or(affinity);
                let new = UnitTask { spec, parameters, state: TaskState::Ready, key, pin };
                self.submit_unit(id, place, step.id, new);
                Ok(())
            }
            Work::Container { graph, .. } => {
                self.open_frame(id, place, *graph, &parameters);
                Ok(())
            }
            Work::Delay | Work::WaitEvent { .. } | Work::Approve { .. } => {
                let state = self.first_wait(&step.work, &parameters)?;
                let spec = &own_spec(&step.work);
                let new = UnitTask { spec, parameters, state, key: None, pin: None };
                self.begin_run(id);
                self.submit_unit(id, place, step.id, new);
                Ok(())
            }
        }
    }

    /// A node of the run begins: that is a fact of the run, once.
    pub(crate) fn begin_run(&mut self, run: RunId) {
        if self.state.runs.live.get(&run).is_some_and(|run| !run.has_begun) {
            self.record_run(RunChange::RunBegan { run, at: self.now() });
        }
    }

    fn submit_unit(&mut self, run: RunId, place: &Place, step_id: uuid::Uuid, new: UnitTask<'_>) {
        let id = TaskId::of(self.state.shard, self.state.next_number);
        let live = self.state.runs.live.get(&run).expect("a run that is advanced");
        let link = NodeLink {
            run,
            frame: place.frame,
            node: place.node,
            item: place.item,
            level: u16::try_from(place.level).expect("a node has few middlewares"),
            step_id,
            call: place.call.clone(),
        };
        let record = TaskRecord {
            id,
            spec: Arc::clone(new.spec),
            parameters: new.parameters,
            created_at: self.now(),
            concurrency_key: new.key,
            idempotency: None,
            run: Some(live.name.clone()),
            after: Vec::new(),
            link: Some(Arc::new(link)),
            facts: TaskFacts { begun: Some(live.next_fact()), ..TaskFacts::default() },
            pin: new.pin,
            progress: Progress { state: new.state, attempt: 0, epoch: 0, losses: 0 },
            ended_attempts: Vec::new(),
        };
        self.change(Change::TaskSubmitted(Box::new(record)));
    }

    // ----- ends

    /// A task of a run has come to its end.
    pub(crate) fn after_linked(&mut self, link: &NodeLink, after: After) {
        self.follow(link.run, &Place::of(link), after);
        self.state.runs.set_due(link.run);
    }

    /// What follows when something at a place has ended.
    pub(crate) fn follow(&mut self, run: RunId, place: &Place, after: After) {
        let node = (place.frame, place.node);
        match after {
            After::Nothing => {}
            After::NodeEnded(failure) => self.after_node(run, node, failure),
            After::ItemEnded => self.after_item(run, node),
            After::NodeEnds(end) => self.end_node(run, node, end.at(self.now())),
            After::CallEnded(answer) => {
                let call = place.call.as_deref().expect("the end of a call");
                self.answer_call(call, answer);
            }
        }
    }

    /// A node ends in a way that no single task tells.
    pub(crate) fn end_node(&mut self, id: RunId, (frame, node): (u32, u32), mut end: NodeEnd) {
        let Some(run) = self.state.runs.live.get(&id) else { return };
        let Some(step_id) = run.node(frame, node).map(|node| node.id) else { return };
        end.fact = Some(run.next_fact());
        let (end, failure) = (Box::new(end.clone()), end.failure);
        self.record_run(RunChange::NodeEnded { run: id, frame, node, step_id, end });
        self.after_node(id, (frame, node), failure);
    }

    /// A node has ended: its frame may fail with it, or be done.
    fn after_node(&mut self, id: RunId, (frame, node): (u32, u32), failure: Option<Failure>) {
        let Some(run) = self.state.runs.live.get(&id) else { return };
        let Some(state) = run.frames.get(&frame) else { return };
        let Some(word) = state.word(node) else { return };
        let definition = &run.graph(state).nodes[node as usize];
        let is_bad = matches!(word, NodeWord::Failed | NodeWord::Cancelled);
        if is_bad && definition.on_error == OnError::Fail {
            let end = UnitEnd { word, result: None, failure };
            return self.close_frame(id, frame, Some(node), end);
        }
        if state.open == 0 {
            let end = match outputs(run, frame) {
                Ok(result) => {
                    UnitEnd { word: NodeWord::Succeeded, result: Some(result), failure: None }
                }
                Err(end) => end,
            };
            return self.close_frame(id, frame, None, end);
        }
        self.state.runs.set_due(id);
    }
}

/// A task that a run makes.
struct UnitTask<'a> {
    spec: &'a Arc<TaskSpec>,
    parameters: Bytes,
    state: TaskState,
    key: Option<model::ConcurrencyKey>,
    pin: Option<Box<Pin>>,
}

pub(crate) fn expression_failed(error: &EvalError) -> UnitEnd {
    UnitEnd::failed(EXPRESSION_FAILED, error.to_string())
}

/// What the step at a place is given.
fn filled(run: &Run, place: &Place, payload: Option<&Value>) -> Result<Bytes, UnitEnd> {
    let frame = &run.frames[&place.frame];
    let node = &run.graph(frame).nodes[place.node as usize];
    let scope = flow::Scope { item: item_of(frame, place), payload, ..run.scope(frame) };
    let parameters =
        flow::fill(node.step(place.level), &scope).map_err(|error| expression_failed(&error))?;
    match frame.poured.get(&place.node) {
        Some(poured) if place.level == node.host_level() => Ok(pour(&parameters, poured)),
        _ => Ok(parameters),
    }
}

/// A key that may hold expressions.
fn text_of<T>(run: &Run, place: &Place, text: Option<&str>) -> Result<Option<T>, UnitEnd>
where
    T: std::str::FromStr<Err = model::InvalidText>,
{
    let Some(text) = text else { return Ok(None) };
    let frame = &run.frames[&place.frame];
    let step = run.graph(frame).nodes[place.node as usize].step(place.level);
    let scope = flow::Scope { item: item_of(frame, place), ..run.scope(frame) };
    let text = flow::text_of(text, step, &scope).map_err(|error| expression_failed(&error))?;
    let parsed = text.parse().map_err(|error: T::Err| error.to_string());
    parsed.map(Some).map_err(|reason| UnitEnd::failed(EXPRESSION_FAILED, reason))
}

/// The element that is executed at a place.
fn item_of<'a>(frame: &'a Frame, place: &Place) -> Option<Item<'a>> {
    let index = place.item?;
    let value = frame.many(place.node)?.items.get(index as usize)?;
    Some(Item { value, index })
}

/// Lays what came through the container's ports over the parameters.
fn pour(parameters: &Bytes, poured: &[(Vec<String>, Value)]) -> Bytes {
    let mut value = parsed(parameters);
    for (path, new) in poured {
        flow::put_value(&mut value, path, new.clone());
    }
    bytes_of(&value)
}

/// What a frame gives, when all its nodes have ended.
fn outputs(run: &Run, frame: u32) -> Result<Bytes, UnitEnd> {
    let frame = &run.frames[&frame];
    let outputs = flow::outputs_of(run.graph(frame), &run.scope(frame));
    outputs.map(|outputs| bytes_of(&outputs)).map_err(|error| expression_failed(&error))
}

/// The specs of every step that workers execute.
fn specs_of(program: &Program) -> impl Iterator<Item = &Arc<TaskSpec>> {
    let nodes = program.graphs.iter().flat_map(|graph| &graph.nodes);
    let steps = nodes.flat_map(|node| node.middlewares.iter().chain([&node.host]));
    steps.filter_map(|step| match &step.work {
        Work::Task { spec, .. } => Some(spec),
        Work::Container { .. } | Work::Delay | Work::WaitEvent { .. } | Work::Approve { .. } => {
            None
        }
    })
}

impl UnitEnd {
    pub(crate) fn at(self, at: Timestamp) -> NodeEnd {
        let Self { word, result, failure } = self;
        NodeEnd { word, at, result, failure, reused: None, fact: None }
    }
}
