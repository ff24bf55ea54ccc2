//! Facts become the state of runs: the only code that writes it, live and at recovery.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use flow::{NodesView, Program};
use model::{CallLink, Failure, NodeLink, NodeWord, RunId, TaskId};
use serde_json::Value;

use crate::change::Settlement;
use crate::effect::NextEnd;
use crate::run::change::{
    EndedCall, FactNumber, ItemEnd, ListRecord, NodeEnd, RunChange, RunRecord, SubgraphRecord,
};
use crate::run::node_status::is_plain;
use crate::run::run_state::{
    Child, Due, Frame, Gathered, Kept, Many, Phase, Place, RUN_TASKS_MAX, Run, UnitEnd, bytes_of,
    parsed,
};
use crate::state::State;
use crate::task::record::Task;

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
        let word = settlement.node_word();
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

/// A fact that the state of a run depends on.
#[derive(Clone, Copy)]
pub(crate) enum RunFact<'a> {
    /// A task of it came into being.
    TaskBegun { task: TaskId, link: &'a Arc<NodeLink>, parameters: &'a Bytes },
    /// A task of it was granted to a worker.
    TaskGranted { task: TaskId, epoch: u32 },
    /// A task of it came to its end.
    TaskSettled { task: TaskId, settlement: &'a Settlement },
    /// A subgraph was entered.
    SubgraphOpened(&'a SubgraphRecord),
    /// A subgraph came to its end, and with it everything inside.
    SubgraphClosed { frame: u32, end: &'a NodeEnd },
    /// A list began; without its elements they are evaluated from what is known at this point.
    ListBegun { list: &'a ListRecord, items: Option<&'a Arc<Vec<Value>>> },
    /// An element could not be begun.
    ItemEnded(&'a ItemEnd),
    /// A call ended, whatever becomes of what it called for.
    CallEnded(&'a EndedCall),
    /// A node came to an end that no single task tells.
    NodeEnded { frame: u32, node: u32, end: &'a NodeEnd },
    /// A person said which workers have its work; only the number belongs to the run's own state.
    Rebound,
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
            queue: BTreeMap::new(),
            next_place: 0,
            is_due: false,
            has_begun: record.began_at.is_some(),
            tasks: BTreeMap::new(),
            busy: 0,
            calls: BTreeMap::new(),
            last_fact: None,
        };
        run.queue_roots(0);
        if let Some(mark) = &record.idempotency {
            self.runs.keys.add(mark.key.clone(), record.id, mark.fingerprint);
        }
        self.runs.definition_bytes += run.program.source.len();
        self.runs.next = self.runs.next.max(record.id.number() + 1);
        let before = self.runs.live.insert(record.id, run);
        assert!(before.is_none(), "a run is inserted once");
        self.runs.set_due(record.id);
    }

    /// Makes a fact about a run true. Gives what follows from it.
    pub(crate) fn apply_run(&mut self, change: &RunChange) -> After {
        let run = change.run();
        match change {
            // A run is inserted with its program, which is no part of the fact, and the restart
            // that numbered facts has applied them with these numbers.
            RunChange::RunStarted(_) | RunChange::Numbered { .. } => {}
            RunChange::RunBegan { .. } => {
                if let Some(live) = self.runs.live.get_mut(&run) {
                    live.has_begun = true;
                }
            }
            RunChange::SubgraphOpened { frame, .. } => {
                return self.apply_to_run(run, frame.fact, RunFact::SubgraphOpened(frame));
            }
            RunChange::SubgraphClosed { frame, end, .. } => {
                let closed = RunFact::SubgraphClosed { frame: *frame, end };
                return self.apply_to_run(run, end.fact, closed);
            }
            RunChange::ListBegun { list, items, .. } => {
                let begun = RunFact::ListBegun { list, items: Some(items) };
                return self.apply_to_run(run, list.fact, begun);
            }
            RunChange::ItemEnded { item, .. } => {
                return self.apply_to_run(run, item.end.fact, RunFact::ItemEnded(item));
            }
            RunChange::CallEnded { call, .. } => {
                return self.apply_to_run(run, call.fact, RunFact::CallEnded(call));
            }
            RunChange::NodeEnded { frame, node, end, .. } => {
                let ended = RunFact::NodeEnded { frame: *frame, node: *node, end };
                return self.apply_to_run(run, end.fact, ended);
            }
            RunChange::Rebound { bindings, .. } => {
                self.apply_to_run(run, bindings.fact, RunFact::Rebound);
                self.apply_bindings(run, bindings);
            }
            RunChange::RunSettled { .. } => self.remove_run(run),
        }
        After::Nothing
    }

    pub(crate) fn remove_run(&mut self, run: RunId) {
        if let Some(run) = self.runs.live.remove(&run) {
            self.runs.definition_bytes -= run.program.source.len();
        }
    }

    /// What happens to a task after its run has ended means nothing to anyone.
    pub(crate) fn apply_to_run(
        &mut self,
        run: RunId,
        number: Option<FactNumber>,
        fact: RunFact<'_>,
    ) -> After {
        let Some(run) = self.runs.live.get_mut(&run) else { return After::Nothing };
        run.apply(number.expect("the facts of a live run are numbered"), fact)
    }

    /// The number that the next fact of a task gets within its run, if that is live.
    pub(crate) fn next_fact_of(&self, task: &Task) -> Option<FactNumber> {
        Some(self.runs.live.get(&task.link()?.run)?.next_fact())
    }
}

impl Run {
    /// Makes a fact true: the only code that writes the state of a run, live and at recovery.
    pub(crate) fn apply(&mut self, number: FactNumber, fact: RunFact<'_>) -> After {
        assert!(self.last_fact.is_none_or(|last| last < number), "the numbers of facts rise");
        self.last_fact = Some(number);
        match fact {
            RunFact::TaskBegun { task, link, parameters } => {
                self.begin_task(task, link, parameters);
            }
            RunFact::TaskGranted { task, epoch } => self.drop_calls_before(task, epoch),
            RunFact::TaskSettled { task, settlement } => return self.end_task(task, settlement),
            RunFact::SubgraphOpened(record) => self.open_frame(record),
            RunFact::SubgraphClosed { frame, end } => return self.close_frame(frame, &end.into()),
            RunFact::ListBegun { list, items } => self.begin_list(list, items),
            RunFact::ItemEnded(item) => {
                self.end_item((item.frame, item.node), item.item, (&item.end).into());
            }
            RunFact::CallEnded(ended) => {
                let calls = self.calls.entry(ended.call.caller.task).or_default();
                calls.insert(ended.call.clone(), Child::Ended(ended.answer()));
            }
            RunFact::NodeEnded { frame, node, end } => self.end_node(frame, node, &end.into()),
            RunFact::Rebound => {}
        }
        After::Nothing
    }

    // ----- the queue

    fn queue_roots(&mut self, number: u32) {
        let Some(frame) = self.frames.get_mut(&number) else { return };
        for node in &self.program.graphs[frame.graph as usize].roots {
            let root = &mut frame.nodes[*node as usize];
            assert!(root.unmet == 0, "a root waits for nothing");
            root.phase = Phase::Due(self.next_place);
            self.queue.insert(self.next_place, Due::Node { frame: number, node: *node });
            self.next_place += 1;
        }
    }

    /// A list stands in the queue while it has elements that may begin.
    fn queue_list(&mut self, (number, node): (u32, u32)) {
        let definition = self.node(number, node);
        let max = definition.and_then(|node| node.map.as_ref()?.max_parallel);
        // Elements that no worker executes, such as subgraphs, do not count as busy.
        let max = max.map_or(RUN_TASKS_MAX, |max| max.min(RUN_TASKS_MAX)) as usize;
        let Some(frame) = self.frames.get_mut(&number) else { return };
        let Some(many) = frame.many_mut(node) else { return };
        let may_begin = many.has_more() && many.active.len() < max;
        match many.place {
            None if may_begin => {
                many.place = Some(self.next_place);
                self.queue.insert(self.next_place, Due::Items { frame: number, node });
                self.next_place += 1;
            }
            Some(place) if !may_begin => {
                many.place = None;
                self.queue.remove(&place);
            }
            None | Some(_) => {}
        }
    }

    // ----- beginnings

    pub(crate) fn is_executed(&self, link: &NodeLink) -> bool {
        let node = self.node(link.frame, link.node);
        let step = node.map(|node| node.step(usize::from(link.level)));
        step.is_none_or(|step| matches!(step.work, flow::Work::Task { .. }))
    }

    fn begin_task(&mut self, id: TaskId, link: &Arc<NodeLink>, parameters: &Bytes) {
        let before = self.tasks.insert(id, Arc::clone(link));
        assert!(before.is_none(), "a task begins once");
        self.busy += u32::from(self.is_executed(link));
        if let Some(call) = &link.call {
            self.add_call(call, Child::Task(id));
        }
        self.begin_unit(&Place::of(link), || parsed(parameters));
    }

    fn add_call(&mut self, call: &CallLink, child: Child) {
        let calls = self.calls.entry(call.caller.task).or_default();
        calls.entry(call.clone()).or_insert(child);
    }

    /// A later attempt calls anew.
    fn drop_calls_before(&mut self, task: TaskId, epoch: u32) {
        let Some(calls) = self.calls.get_mut(&task) else { return };
        calls.retain(|call, _| call.caller.epoch >= epoch);
        if calls.is_empty() {
            self.calls.remove(&task);
        }
    }

    /// Something is being executed at a place.
    fn begin_unit(&mut self, place: &Place, parameters: impl FnOnce() -> Value) {
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
                many.skip_begun();
                if has_chain {
                    many.gathered.entry(item).or_default();
                }
                self.queue_list((place.frame, place.node));
            }
            (Phase::Waiting | Phase::Due(_), None) => {
                let begun = Phase::One(has_chain.then(Box::default));
                if let Phase::Due(place) = std::mem::replace(&mut state.phase, begun) {
                    self.queue.remove(&place);
                }
            }
            _ => {}
        }
    }

    fn begin_list(&mut self, list: &ListRecord, items: Option<&Arc<Vec<Value>>>) {
        let items = items.map_or_else(|| self.evaluated(list), Arc::clone);
        let Some(frame) = self.frames.get_mut(&list.frame) else { return };
        let phase = &mut frame.nodes[list.node as usize].phase;
        if !matches!(phase, Phase::Waiting | Phase::Due(_)) {
            return;
        }
        let mut many = Many::new(items);
        // Its elements take the place of the node.
        if let Phase::Due(place) = *phase {
            many.place = Some(place);
            self.queue.insert(place, Due::Items { frame: list.frame, node: list.node });
        }
        *phase = Phase::Many(Box::new(many));
        self.queue_list((list.frame, list.node));
    }

    /// The elements of a list, from what its expression sees.
    fn evaluated(&self, list: &ListRecord) -> Arc<Vec<Value>> {
        let map = self.node(list.frame, list.node).and_then(|node| node.map.as_ref());
        let frame = self.frames.get(&list.frame);
        let items =
            map.zip(frame).and_then(|(map, frame)| flow::list_of(map, &self.scope(frame)).ok());
        let mut items = items.unwrap_or_default();
        // The stored length counts: a version that evaluates the expression in another way must
        // not lose elements that were begun.
        items.resize(list.length as usize, Value::Null);
        Arc::new(items)
    }

    fn open_frame(&mut self, record: &SubgraphRecord) {
        let place = Place {
            frame: record.parent,
            node: record.node,
            item: record.item,
            level: self.node(record.parent, record.node).map_or(0, flow::Node::host_level),
            call: record.call.clone(),
        };
        if let Some(call) = &record.call {
            self.add_call(call, Child::Frame(record.number));
        }
        let inputs = Arc::new(parsed(&record.inputs));
        self.begin_unit(&place, || parsed(&record.inputs));
        let graph = &self.program.graphs[record.graph as usize];
        let mut frame = Frame::new(record.graph, graph, Some(place), Arc::clone(&inputs));
        frame.pour(self.container_ports(record));
        let before = self.frames.insert(record.number, frame);
        assert!(before.is_none(), "a subgraph is opened once");
        self.next_frame = self.next_frame.max(record.number + 1);
        self.queue_roots(record.number);
    }

    fn container_ports(&self, record: &SubgraphRecord) -> &[(Vec<String>, u32, Vec<String>)] {
        match self.node(record.parent, record.node).map(|node| &node.host.work) {
            Some(flow::Work::Container { ports, .. }) => &ports.inputs,
            _ => &[],
        }
    }

    // ----- ends

    fn end_task(&mut self, id: TaskId, settlement: &Settlement) -> After {
        self.calls.remove(&id);
        let Some(link) = self.tasks.remove(&id) else { return After::Nothing };
        let executed = u32::from(self.is_executed(&link));
        assert!(self.busy >= executed, "a task that ends was counted");
        self.busy -= executed;
        self.end_unit(&Place::of(&link), &UnitEnd::of(settlement))
    }

    /// A subgraph came to its end: what is inside is no longer the run's.
    fn close_frame(&mut self, number: u32, end: &UnitEnd) -> After {
        if !self.frames.contains_key(&number) {
            return After::Nothing;
        }
        for task in self.tasks_within(number) {
            let link = self.tasks.remove(&task).expect("just found");
            self.busy -= u32::from(self.is_executed(&link));
            self.calls.remove(&task);
        }
        let inner = self.frames.keys().copied().filter(|inner| *inner != number);
        let inner: Vec<u32> = inner.filter(|inner| self.lies_within(*inner, number)).collect();
        for inner in inner {
            self.remove_frame(inner);
        }
        match self.remove_frame(number).and_then(|frame| frame.place) {
            Some(place) => self.end_unit(&place, end),
            None => After::Nothing,
        }
    }

    fn remove_frame(&mut self, number: u32) -> Option<Frame> {
        let frame = self.frames.remove(&number)?;
        for node in &frame.nodes {
            match &node.phase {
                Phase::Due(place) => drop(self.queue.remove(place)),
                Phase::Many(many) => drop(many.place.and_then(|place| self.queue.remove(&place))),
                Phase::Waiting | Phase::One(_) | Phase::Ended(..) => {}
            }
        }
        Some(frame)
    }

    fn end_unit(&mut self, place: &Place, end: &UnitEnd) -> After {
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
            return self.end_call(call, end.answer());
        }
        let mut end = end.clone();
        if !node.middlewares.is_empty()
            && end.word == NodeWord::Succeeded
            && let Some(gathered) = frame.gathered(place)
        {
            end.result = Some(bytes_of(&gathered.result()));
        }
        let Some(item) = place.item else {
            if is_plain(node) {
                self.end_node(place.frame, place.node, &end);
                return After::NodeEnded(end.failure);
            }
            return After::NodeEnds(end);
        };
        self.end_item((place.frame, place.node), item, end);
        After::ItemEnded
    }

    /// The first end of a call counts: its caller may have stopped waiting for it before.
    fn end_call(&mut self, call: &CallLink, answer: NextEnd) -> After {
        let calls = self.calls.get_mut(&call.caller.task);
        match calls.and_then(|calls| calls.get_mut(call)) {
            Some(child @ (Child::Task(_) | Child::Frame(_))) => {
                *child = Child::Ended(answer.clone());
                After::CallEnded(answer)
            }
            Some(Child::Ended(_)) | None => After::Nothing,
        }
    }

    fn end_item(&mut self, (number, node): (u32, u32), item: u32, end: UnitEnd) {
        let Some(frame) = self.frames.get_mut(&number) else { return };
        frame.end_item(node, item, end);
        self.queue_list((number, node));
    }

    /// A node has ended: those that waited for it alone enter the queue.
    fn end_node(&mut self, number: u32, node: u32, end: &UnitEnd) {
        let program = Arc::clone(&self.program);
        let Some(frame) = self.frames.get_mut(&number) else { return };
        let graph = &program.graphs[frame.graph as usize];
        let definition = &graph.nodes[node as usize];
        let state = &mut frame.nodes[node as usize];
        if matches!(state.phase, Phase::Ended(..)) {
            return;
        }
        let former = std::mem::replace(&mut state.phase, Phase::Ended(end.word, None));
        let gathered = match former {
            Phase::One(gathered) => gathered.map(|gathered| *gathered),
            Phase::Due(place) => self.queue.remove(&place).and(None),
            Phase::Many(many) => many.place.and_then(|place| self.queue.remove(&place)).and(None),
            Phase::Waiting | Phase::Ended(..) => None,
        };
        if definition.readers > 0 {
            let parameters = frame.parameters.get(&node).cloned();
            let kept = Kept::new(end, frame.ended).with(parameters, gathered);
            frame.nodes[node as usize].phase = Phase::Ended(end.word, Some(Box::new(kept)));
        }
        frame.ended += 1;
        assert!(frame.open > 0, "a node that ends was open");
        frame.open -= 1;
        for follower in &definition.followers {
            let state = &mut frame.nodes[*follower as usize];
            assert!(state.unmet > 0, "a follower waits for each node before it once");
            state.unmet -= 1;
            if state.unmet == 0 && matches!(state.phase, Phase::Waiting) {
                state.phase = Phase::Due(self.next_place);
                self.queue.insert(self.next_place, Due::Node { frame: number, node: *follower });
                self.next_place += 1;
            }
        }
    }
}

impl EndedCall {
    fn answer(&self) -> NextEnd {
        match &self.failure {
            None => NextEnd::TimedOut,
            Some(failure) => {
                let failure = Some(failure.clone());
                NextEnd::Ended { word: NodeWord::Failed, failure, result: None }
            }
        }
    }
}

impl Many {
    /// Whether an element has not begun.
    pub(crate) fn has_more(&self) -> bool {
        (self.next as usize) < self.items.len()
    }

    fn skip_begun(&mut self) {
        while self.has_more()
            && (self.active.contains(&self.next) || self.ends[self.next as usize].is_some())
        {
            self.next += 1;
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
        let Some(place) = many.ends.get_mut(item as usize) else { return };
        if place.is_none() {
            if is_bad {
                many.failed.get_or_insert(item);
            }
            *place = Some(end);
            many.ended += 1;
        }
        many.skip_begun();
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
            if let Some(value) = source.and_then(|value| flow::value_at(value, from)) {
                flow::put_value(&mut drawn, to, value.clone());
            }
        }
        drawn
    }

    fn pour(&mut self, ports: &[(Vec<String>, u32, Vec<String>)]) {
        for (from, node, to) in ports {
            if let Some(value) = flow::value_at(&self.inputs, from).cloned() {
                self.poured.entry(*node).or_default().push((to.clone(), value));
            }
        }
    }
}
