//! A live run: which nodes have ended, which are being executed, and what is to begin next.
//!
//! Like tasks, runs are written by facts alone: `apply` holds the one writer, for the live system
//! and for a restart. The rules are in `dag`, `subgraph`, `list`, `middleware` and `signal`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use flow::{Graph, Node, NodeFacts, NodesView, Program, Scope};
use model::{CallLink, Failure, IdempotencyKey, NodeLink, NodeWord, RunId, RunName, TaskId};
use serde_json::{Map, Value};

use crate::effect::NextEnd;
use crate::run::change::{FactNumber, RunNumbers};
use crate::run::middleware::Callers;
use crate::task::load::Watches;

/// Live runs that a tenant may have.
pub const LIVE_RUNS_MAX: usize = 10_000;
/// Bytes of definitions that the live runs of a tenant may hold.
pub const LIVE_DEFINITION_BYTES_MAX: usize = 1 << 30;
/// Tasks of one run that stand in the queue or are executed at the same time; further nodes are
/// begun as these end. A run of any size takes so much room, and cannot bury its neighbours.
pub const RUN_TASKS_MAX: u32 = 4_096;
/// Nodes that are begun in one turn; then others have theirs. A run that skips a hundred thousand
/// nodes must not keep everyone waiting.
const BEGUN_PER_TURN_MAX: usize = 8_192;
/// Keys of runs that are remembered in memory; the store knows the older ones.
const KEYS_KEPT: usize = 100_000;

/// The runs of a shard.
#[derive(Debug)]
pub(crate) struct Runs {
    /// The number that the next new run gets.
    pub(crate) next: u64,
    pub(crate) live: BTreeMap<RunId, Run>,
    pub(crate) keys: RunKeys,
    pub(crate) definition_bytes: usize,
    /// Soft: runs that may have something to begin, each once. After a restart all may.
    pub(crate) due: VecDeque<RunId>,
    /// Nodes that one turn may begin.
    pub(crate) begun_per_turn: usize,
    /// Runs whose definition a restart could not read; they fail at once.
    pub(crate) unreadable: Vec<(RunId, &'static str)>,
    /// Runs whose facts a restart has numbered; the next step makes the numbers durable.
    pub(crate) numbered: Vec<(RunId, Box<RunNumbers>)>,
    /// Soft: who waits for the end of a run.
    pub(crate) watches: Watches<RunId>,
    /// Soft: who waits for the answer of a call.
    pub(crate) callers: Callers,
}

impl Default for Runs {
    fn default() -> Self {
        Self {
            next: 1,
            live: BTreeMap::new(),
            keys: RunKeys::default(),
            definition_bytes: 0,
            due: VecDeque::new(),
            begun_per_turn: BEGUN_PER_TURN_MAX,
            unreadable: Vec::new(),
            numbered: Vec::new(),
            watches: Watches::default(),
            callers: Callers::default(),
        }
    }
}

impl Runs {
    /// The run may have something to begin.
    pub(crate) fn set_due(&mut self, run: RunId) {
        if let Some(live) = self.live.get_mut(&run)
            && !live.is_due
        {
            live.is_due = true;
            self.due.push_back(run);
        }
    }
}

/// Recognises repeated starts, also of runs that have ended a moment ago: the store was asked
/// before the command came here, and may not have known them yet.
#[derive(Debug, Default)]
pub(crate) struct RunKeys {
    by_key: BTreeMap<IdempotencyKey, (RunId, u64)>,
    in_order: VecDeque<IdempotencyKey>,
}

impl RunKeys {
    pub(crate) fn get(&self, key: &IdempotencyKey) -> Option<(RunId, u64)> {
        self.by_key.get(key).copied()
    }

    pub(crate) fn add(&mut self, key: IdempotencyKey, run: RunId, fingerprint: u64) {
        self.by_key.insert(key.clone(), (run, fingerprint));
        self.in_order.push_back(key);
        if self.in_order.len() > KEYS_KEPT
            && let Some(oldest) = self.in_order.pop_front()
        {
            self.by_key.remove(&oldest);
        }
    }
}

/// One live run.
#[derive(Debug)]
pub(crate) struct Run {
    /// Its id as text, as its tasks carry it.
    pub(crate) name: RunName,
    pub(crate) program: Arc<Program>,
    pub(crate) inputs: Arc<Value>,
    /// Open frames; 0 is the workflow itself.
    pub(crate) frames: BTreeMap<u32, Frame>,
    pub(crate) next_frame: u32,
    /// What is to begin, by its place in the queue: nodes that wait for nothing more, and lists
    /// with elements that may begin. A fact puts it there, and the fact that it began removes it.
    pub(crate) queue: BTreeMap<u64, Due>,
    pub(crate) next_place: u64,
    /// Soft: whether the run stands in [`Runs::due`].
    pub(crate) is_due: bool,
    /// Whether the first of its nodes began.
    pub(crate) has_begun: bool,
    /// Its live tasks.
    pub(crate) tasks: BTreeMap<TaskId, Arc<NodeLink>>,
    /// How many of them workers execute.
    pub(crate) busy: u32,
    /// Calls of `next`, by the task that called. They are forgotten when it ends or gets its next
    /// lease.
    pub(crate) calls: BTreeMap<TaskId, BTreeMap<CallLink, Child>>,
    /// The number of its newest fact.
    pub(crate) last_fact: Option<FactNumber>,
}

/// What is to be begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// A node: all that it waits for have ended.
    Node { frame: u32, node: u32 },
    /// More elements of a node that is executed once per element.
    Items { frame: u32, node: u32 },
}

/// What a call of `next` made.
#[derive(Clone, Debug)]
pub(crate) enum Child {
    Task(TaskId),
    Frame(u32),
    /// It has ended; the answer is kept until the caller ends, for one that asks again.
    Ended(NextEnd),
}

/// A graph under way: the workflow itself, or a subgraph that was entered.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) graph: u32,
    /// Where it was entered; `None` for the workflow itself.
    pub(crate) place: Option<Place>,
    pub(crate) inputs: Arc<Value>,
    pub(crate) nodes: Vec<NodeState>,
    /// Nodes that have not ended.
    pub(crate) open: u32,
    /// Nodes that have.
    pub(crate) ended: u32,
    /// What nodes were given, where someone looks at it.
    pub(crate) parameters: BTreeMap<u32, Value>,
    /// Values that flow from the container into nodes of the frame, by node.
    pub(crate) poured: BTreeMap<u32, Vec<(Vec<String>, Value)>>,
}

/// Where in a run something is executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) frame: u32,
    pub(crate) node: u32,
    pub(crate) item: Option<u32>,
    pub(crate) level: usize,
    pub(crate) call: Option<Box<CallLink>>,
}

impl Place {
    pub(crate) fn of(link: &NodeLink) -> Self {
        Self {
            frame: link.frame,
            node: link.node,
            item: link.item,
            level: usize::from(link.level),
            call: link.call.clone(),
        }
    }
}

/// One node of a frame.
#[derive(Debug)]
pub(crate) struct NodeState {
    /// Nodes that it still waits for.
    pub(crate) unmet: u32,
    pub(crate) phase: Phase,
}

/// How far a node is.
///
/// ```text
///  Waiting -> Due -> One | Many -> Ended
///               \____________________^   skipped, or its expressions failed
/// ```
#[derive(Debug)]
pub(crate) enum Phase {
    /// Others must end first.
    Waiting,
    /// It stands in the run's queue, at this place.
    Due(u64),
    /// It is under way; what its chain of middlewares has given so far.
    One(Option<Box<Gathered>>),
    /// It is under way, once per element.
    Many(Box<Many>),
    /// It has ended; what others may look at.
    Ended(NodeWord, Option<Box<Kept>>),
}

/// What a chain of middlewares has given so far.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    host: Option<Value>,
    over: Map<String, Value>,
    middlewares: Vec<Value>,
}

impl Gathered {
    /// One of the chain has ended.
    pub(crate) fn take(&mut self, level: usize, is_host: bool, result: Value) {
        if is_host {
            self.host = Some(result);
            return;
        }
        if self.middlewares.len() <= level {
            self.middlewares.resize(level + 1, Value::Null);
        }
        self.middlewares[level] = result.clone();
        if let Value::Object(keys) = result {
            self.over.extend(keys);
        }
    }

    /// The node's own last result, with what the middlewares gave laid over it.
    pub(crate) fn result(&self) -> Value {
        let mut result = match &self.host {
            Some(Value::Object(keys)) => keys.clone(),
            Some(other) if self.over.is_empty() => return other.clone(),
            Some(other) => Map::from_iter([("value".to_owned(), other.clone())]),
            None => Map::new(),
        };
        result.extend(self.over.clone());
        Value::Object(result)
    }
}

/// A node that is executed once per element.
#[derive(Debug)]
pub(crate) struct Many {
    pub(crate) items: Arc<Vec<Value>>,
    /// How each element ended, in order.
    pub(crate) ends: Vec<Option<UnitEnd>>,
    /// Elements that are being executed.
    pub(crate) active: BTreeSet<u32>,
    /// The first element that has not begun.
    pub(crate) next: u32,
    pub(crate) ended: u32,
    /// The first element that failed.
    pub(crate) failed: Option<u32>,
    pub(crate) gathered: BTreeMap<u32, Gathered>,
    /// Its place in the run's queue, while elements may begin.
    pub(crate) place: Option<u64>,
}

impl Many {
    pub(crate) fn new(items: Arc<Vec<Value>>) -> Self {
        Self {
            ends: vec![None; items.len()],
            items,
            active: BTreeSet::new(),
            next: 0,
            ended: 0,
            failed: None,
            gathered: BTreeMap::new(),
            place: None,
        }
    }
}

/// How one execution of a node, or of one element, ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UnitEnd {
    pub(crate) word: NodeWord,
    pub(crate) result: Option<Bytes>,
    pub(crate) failure: Option<Failure>,
}

/// What others may look at.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    result: Option<Value>,
    parameters: Option<Value>,
    middlewares: Vec<Value>,
    error: Option<Value>,
    order: u32,
}

impl Kept {
    pub(crate) fn new(end: &UnitEnd, order: u32) -> Self {
        let error = end
            .failure
            .as_ref()
            .map(|failure| serde_json::json!({ "code": failure.code, "message": failure.reason }));
        Self { result: end.result.as_ref().map(parsed), error, order, ..Self::default() }
    }

    pub(crate) fn with(mut self, parameters: Option<Value>, gathered: Option<Gathered>) -> Self {
        self.parameters = parameters;
        self.middlewares = gathered.map(|gathered| gathered.middlewares).unwrap_or_default();
        self
    }
}

/// JSON that a door has checked.
pub(crate) fn parsed(json: &Bytes) -> Value {
    serde_json::from_slice(json).unwrap_or(Value::Null)
}

pub(crate) fn bytes_of(value: &Value) -> Bytes {
    Bytes::from(serde_json::to_vec(value).expect("values are JSON"))
}

impl Frame {
    pub(crate) fn new(
        graph_number: u32,
        graph: &Graph,
        place: Option<Place>,
        inputs: Arc<Value>,
    ) -> Self {
        let state = |node: &Node| NodeState {
            unmet: u32::try_from(node.waits_for.len()).expect("fewer nodes than 2^32"),
            phase: Phase::Waiting,
        };
        Self {
            graph: graph_number,
            place,
            inputs,
            open: u32::try_from(graph.nodes.len()).expect("fewer nodes than 2^32"),
            ended: 0,
            nodes: graph.nodes.iter().map(state).collect(),
            parameters: BTreeMap::new(),
            poured: BTreeMap::new(),
        }
    }

    pub(crate) fn word(&self, node: u32) -> Option<NodeWord> {
        match self.nodes[node as usize].phase {
            Phase::Ended(word, _) => Some(word),
            Phase::Waiting | Phase::Due(_) | Phase::One(_) | Phase::Many(_) => None,
        }
    }

    pub(crate) fn many_mut(&mut self, node: u32) -> Option<&mut Many> {
        match &mut self.nodes[node as usize].phase {
            Phase::Many(many) => Some(many),
            Phase::Waiting | Phase::Due(_) | Phase::One(_) | Phase::Ended(..) => None,
        }
    }

    pub(crate) fn many(&self, node: u32) -> Option<&Many> {
        match &self.nodes[node as usize].phase {
            Phase::Many(many) => Some(many),
            Phase::Waiting | Phase::Due(_) | Phase::One(_) | Phase::Ended(..) => None,
        }
    }
}

impl NodesView for Frame {
    fn facts(&self, node: u32) -> Option<NodeFacts<'_>> {
        let Phase::Ended(word, kept) = &self.nodes[node as usize].phase else { return None };
        let kept = kept.as_deref();
        Some(NodeFacts {
            status: word.text(),
            results: kept.and_then(|kept| kept.result.as_ref()),
            parameters: kept.and_then(|kept| kept.parameters.as_ref()),
            middlewares: kept.map_or(&[], |kept| &kept.middlewares),
            error: kept.and_then(|kept| kept.error.as_ref()),
            order: kept.map_or(0, |kept| kept.order),
        })
    }
}

impl Run {
    pub(crate) fn graph(&self, frame: &Frame) -> &Graph {
        &self.program.graphs[frame.graph as usize]
    }

    /// The node that stands at a place, if its frame is open.
    pub(crate) fn node(&self, frame: u32, node: u32) -> Option<&Node> {
        let frame = self.frames.get(&frame)?;
        self.graph(frame).nodes.get(node as usize)
    }

    /// The number that its next fact gets.
    pub(crate) fn next_fact(&self) -> FactNumber {
        self.last_fact.map_or(FactNumber::FIRST, FactNumber::next)
    }

    /// All that its facts say, as text; what a restart may forget is left out.
    pub(crate) fn rendered(&self) -> String {
        let Self { frames, queue, tasks, calls, .. } = self;
        let counters = (self.next_frame, self.next_place, self.has_begun, self.busy);
        let last_fact = self.last_fact;
        format!("{:#?}", (last_fact, counters, queue, tasks, calls, frames))
    }

    /// What the steps of a frame see.
    pub(crate) fn scope<'a>(&'a self, frame: &'a Frame) -> Scope<'a> {
        Scope {
            graph: self.graph(frame),
            run_id: self.name.as_str(),
            run_inputs: &self.inputs,
            inputs: &frame.inputs,
            nodes: frame,
            item: None,
            payload: None,
        }
    }

    /// The live tasks in a frame and in those within it.
    pub(crate) fn tasks_within(&self, frame: u32) -> Vec<TaskId> {
        let own = self.tasks.iter().filter(|(_, link)| self.lies_within(link.frame, frame));
        own.map(|(task, _)| *task).collect()
    }

    /// Whether a frame is, or lies within, another one.
    pub(crate) fn lies_within(&self, mut frame: u32, outer: u32) -> bool {
        loop {
            if frame == outer {
                return true;
            }
            match self.frames.get(&frame).and_then(|frame| frame.place.as_ref()) {
                Some(place) => frame = place.frame,
                None => return false,
            }
        }
    }
}
