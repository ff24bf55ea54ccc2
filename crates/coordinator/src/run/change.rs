//! Every fact that can become true of a run. What a run's tasks do are facts of their own.
//!
//! One counter per run numbers all facts that its state depends on, those of its tasks included. A
//! restart replays them in the order of their numbers.

use std::num::NonZeroU64;
use std::sync::Arc;

use bytes::Bytes;
use model::{
    CallLink, Failure, IdempotencyMark, NodeWord, RunId, RunWord, TaskId, Timestamp, WorkerId,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::change::TaskFacts;

/// The number of a fact within its run, from 1. Numbers rise, and may have gaps: of the grants of a
/// task only the newest keeps its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FactNumber(NonZeroU64);

impl FactNumber {
    /// The number that the first fact of a run gets.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// `None` for 0, which numbers no fact.
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }

    /// The number itself.
    pub fn get(self) -> u64 {
        self.0.get()
    }

    pub(crate) fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// A fact. The store must keep it, together with the facts of tasks of the same turn.
#[derive(Clone, Debug, PartialEq)]
pub enum RunChange {
    /// A run came into being.
    RunStarted(Box<RunRecord>),
    /// The first of the run's nodes began: a worker got it, or all that it takes is under way.
    RunBegan {
        /// Which run.
        run: RunId,
        /// When.
        at: Timestamp,
    },
    /// A subgraph was entered.
    SubgraphOpened {
        /// Whose.
        run: RunId,
        /// The author's id of its container.
        step_id: Uuid,
        /// The frame.
        frame: Box<SubgraphRecord>,
    },
    /// A subgraph that a middleware called for came to its end. Where the run itself entered it,
    /// the end of its container node says so.
    SubgraphClosed {
        /// Whose.
        run: RunId,
        /// Which frame.
        frame: u32,
        /// How.
        end: Box<NodeEnd>,
    },
    /// A node that is executed once per element began.
    ListBegun {
        /// Whose.
        run: RunId,
        /// Which node, and how many elements.
        list: ListRecord,
        /// The elements. The store keeps how many there are; a restart evaluates them again, from
        /// what their expression saw then.
        items: Arc<Vec<Value>>,
    },
    /// An element could not be begun, because its expressions failed.
    ItemEnded {
        /// Whose.
        run: RunId,
        /// Which element, and how it ended.
        item: Box<ItemEnd>,
    },
    /// A call of `next` came to an end that neither a task nor a subgraph tells.
    CallEnded {
        /// Whose.
        run: RunId,
        /// Which call, and how it ended.
        call: Box<EndedCall>,
    },
    /// A node came to an end that no single task tells: it was skipped, it is a container, a list
    /// or a chain of middlewares, its expressions failed, or an earlier run did it.
    NodeEnded {
        /// Whose.
        run: RunId,
        /// In which frame.
        frame: u32,
        /// Which node of the frame's graph.
        node: u32,
        /// The author's id of the node.
        step_id: Uuid,
        /// How.
        end: Box<NodeEnd>,
    },
    /// A person said which workers have the work of the run. It carries the whole of it, so the
    /// last one wins.
    Rebound {
        /// Whose.
        run: RunId,
        /// How the run is bound from here on.
        bindings: Box<RunBindings>,
    },
    /// The facts of a run that an older version wrote got their numbers.
    Numbered {
        /// Whose.
        run: RunId,
        /// Which fact has which number.
        numbers: Box<RunNumbers>,
    },
    /// The run came to its end.
    RunSettled {
        /// Which run.
        run: RunId,
        /// How.
        end: Box<RunEnd>,
    },
}

impl RunChange {
    /// The run that the fact is about.
    pub fn run(&self) -> RunId {
        match self {
            Self::RunStarted(record) => record.id,
            Self::RunBegan { run, .. }
            | Self::SubgraphOpened { run, .. }
            | Self::SubgraphClosed { run, .. }
            | Self::ListBegun { run, .. }
            | Self::ItemEnded { run, .. }
            | Self::CallEnded { run, .. }
            | Self::NodeEnded { run, .. }
            | Self::Rebound { run, .. }
            | Self::Numbered { run, .. }
            | Self::RunSettled { run, .. } => *run,
        }
    }
}

/// All that is known of a run but for its nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// Its name.
    pub id: RunId,
    /// The workflow, byte for byte as authored.
    pub definition: Bytes,
    /// What it was given: a JSON object.
    pub inputs: Bytes,
    /// Recognises a repeated start.
    pub idempotency: Option<IdempotencyMark>,
    /// When it was started.
    pub created_at: Timestamp,
    /// When the first of its nodes began, if one has.
    pub began_at: Option<Timestamp>,
    /// What the starter said about it; no rule looks at it.
    pub about: Arc<RunAbout>,
    /// How it ended, if it did.
    pub end: Option<Box<RunEnd>>,
}

/// What a run carries for people and programs; no rule looks at it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunAbout {
    /// The workflow's name.
    pub name: String,
    /// The workflow's id, as authored.
    pub workflow_id: String,
    /// The kept version of the workflow, if it was started from one.
    pub workflow_version: Option<u64>,
    /// SHA-256 of the canonical definition, in hexadecimal.
    pub definition_hash: String,
    /// The browser or program that wants to hear of it.
    pub client_id: Option<String>,
    /// The run that this one takes up again.
    pub retry_of: Option<RunId>,
    /// Who started it: a token's name, `schedule <id>`, `hook <id>`.
    pub started_by: String,
    /// How many nodes the workflow has, subgraphs not counted.
    pub nodes: u32,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct RunEnd {
    /// The end.
    pub word: RunWord,
    /// When.
    pub at: Timestamp,
    /// The node that made it fail, as authored.
    pub node: Option<String>,
    /// Why it did not succeed.
    pub failure: Option<Failure>,
    /// What it gives: a JSON object.
    pub outputs: Option<Bytes>,
}

/// A subgraph that was entered.
#[derive(Clone, Debug, PartialEq)]
pub struct SubgraphRecord {
    /// Its number within the run, from 1; 0 is the workflow itself.
    pub number: u32,
    /// Which graph of the program.
    pub graph: u32,
    /// The frame that its container stands in.
    pub parent: u32,
    /// The container.
    pub node: u32,
    /// Which element of the list, where the container is executed once per element.
    pub item: Option<u32>,
    /// The middleware that called for it; `None` where the run itself did.
    pub call: Option<Box<CallLink>>,
    /// What the subgraph was given: a JSON object.
    pub inputs: Bytes,
    /// When it was entered.
    pub opened_at: Timestamp,
    /// The number of the fact.
    pub fact: Option<FactNumber>,
}

/// A node that is executed once per element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListRecord {
    /// The frame that it stands in.
    pub frame: u32,
    /// Which node of the frame's graph.
    pub node: u32,
    /// How many elements it has.
    pub length: u32,
    /// The number of the fact that it began.
    pub fact: Option<FactNumber>,
}

/// An element that could not be begun.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemEnd {
    /// The frame that its node stands in.
    pub frame: u32,
    /// Which node of the frame's graph.
    pub node: u32,
    /// Which element.
    pub item: u32,
    /// How it ended.
    pub end: NodeEnd,
}

/// A call of `next` that ended while what it called for did not, or never began.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedCall {
    /// Which call.
    pub call: CallLink,
    /// Why nothing could be begun; `None` when the caller stopped waiting for the answer.
    pub failure: Option<Failure>,
    /// When it ended.
    pub at: Timestamp,
    /// The number of the fact.
    pub fact: Option<FactNumber>,
}

/// The numbers that the facts of a run get which an older version wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunNumbers {
    /// The facts of its tasks.
    pub tasks: Vec<(TaskId, TaskFacts)>,
    /// Subgraphs that were entered: frame, number.
    pub opened: Vec<(u32, FactNumber)>,
    /// Subgraphs that were closed: frame, number.
    pub closed: Vec<(u32, FactNumber)>,
    /// Ends of nodes: frame, node, number.
    pub ended: Vec<(u32, u32, FactNumber)>,
    /// Lists that had begun; the older version did not store them.
    pub lists: Vec<ListRecord>,
}

/// How a node ended.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeEnd {
    /// The end.
    pub word: NodeWord,
    /// When.
    pub at: Timestamp,
    /// JSON; what it gave.
    pub result: Option<Bytes>,
    /// Why it failed, or why it was skipped.
    pub failure: Option<Failure>,
    /// The task of an earlier run that gave the result.
    pub reused: Option<TaskId>,
    /// The number of the fact.
    pub fact: Option<FactNumber>,
}

/// Which workers have the work of a run, as a person's word left it. An unknown field may be a
/// condition, so it is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunBindings {
    /// By package, in order; each once.
    pub bound: Vec<BoundPackage>,
    /// Workers that get nothing more of the run, in order.
    pub kept_from: Vec<WorkerId>,
    /// The number of the fact.
    #[serde(deserialize_with = "Option::deserialize")]
    pub fact: Option<FactNumber>,
}

/// Who has the work of a run that belongs to one package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoundPackage {
    /// The package, or the type of tasks that need none.
    pub package: String,
    /// Who has the work; `None` where the next grant says it.
    #[serde(deserialize_with = "Option::deserialize")]
    pub worker: Option<WorkerId>,
    /// Since when.
    #[serde(with = "model::stored::moment")]
    pub since: Timestamp,
    /// A person took the work away from this worker: others are asked first.
    #[serde(deserialize_with = "Option::deserialize")]
    pub moved_from: Option<WorkerId>,
}

/// A run as a restart brings it back.
#[derive(Clone, Debug, PartialEq)]
pub struct RestoredRun {
    /// The run; it has no end.
    pub record: RunRecord,
    /// What belongs to it; of its tasks the settled ones, as the live ones are among the shard's.
    pub parts: RunParts,
}

/// What belongs to a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunParts {
    /// Every frame that was opened, by number.
    pub frames: Vec<SubgraphRecord>,
    /// Frames that came to their end, by number.
    pub closed: Vec<(u32, NodeEnd)>,
    /// Nodes whose end no single task tells: frame, node, end.
    pub ended: Vec<(u32, u32, NodeEnd)>,
    /// Lists that began, by frame and node.
    pub lists: Vec<ListRecord>,
    /// Elements that could not be begun, by frame, node and element.
    pub items: Vec<ItemEnd>,
    /// Calls that ended before what they called for, by caller and request.
    pub calls: Vec<EndedCall>,
    /// What a person said last of the workers that have its work; gone when the run has ended.
    pub rebound: Option<Box<RunBindings>>,
    /// The tasks that it made, oldest first. A task that a person submitted under its name has no
    /// link and is not among them.
    pub tasks: Vec<crate::change::TaskRecord>,
}
