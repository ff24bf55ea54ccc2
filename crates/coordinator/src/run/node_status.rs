//! The status of a node, decided in one place: the REST views, the events and the explanations all
//! show what is said here.

use flow::{Graph, Node, OnError, OnSkip, Work};
use model::{Failure, NodeWord};
use serde_json::Value;

use super::dag::expression_failed;
use super::run_state::{Frame, Run, UnitEnd};
use crate::change::{Outcome, Progress, Settlement, TaskRecord, TaskState, WaitReason};

/// A worker's own word that it gave the work up.
const GIVEN_UP: &str = "E.RUNNER.CANCELLED";

/// The status of a node, of one of its middlewares, of one element or of a whole subgraph.
///
/// ```text
///  Waiting -> Queued <-> Running -> Succeeded | Failed | Skipped | Cancelled
///     \____________________________________^
///      \__ NotRun
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeStatus {
    /// Nothing of it has begun: other nodes go first, or the run has enough tasks.
    Waiting,
    /// It has begun, and no worker has it.
    Queued,
    /// A worker has it, or time or a signal is all that it waits for.
    Running,
    /// Done.
    Succeeded,
    /// Failed for good.
    Failed,
    /// There was nothing to do.
    Skipped,
    /// It was stopped while it was queued or running.
    Cancelled,
    /// Its run or its subgraph ended before it could begin.
    NotRun,
}

/// What the stored facts say of one node.
#[derive(Clone, Copy, Debug)]
pub struct NodeSeen<'a> {
    /// Its definition.
    pub node: &'a Node,
    /// Its end, where no single task tells it.
    pub end: Option<NodeWord>,
    /// Its tasks and those of its middlewares, oldest first.
    pub tasks: &'a [&'a TaskRecord],
    /// Whether a subgraph was entered through it.
    pub has_subgraph: bool,
    /// Whether nothing begins any more in the run or subgraph that it stands in.
    pub is_over: bool,
}

impl NodeStatus {
    /// The status of a node.
    pub fn of_node(seen: &NodeSeen<'_>) -> Self {
        if let Some(end) = seen.end {
            return Self::of_end(end);
        }
        let open = if is_plain(seen.node) {
            seen.tasks.last().map(|task| Self::of_task(&task.progress))
        } else if seen.has_subgraph || seen.tasks.iter().any(|task| has_begun(&task.progress)) {
            // It goes on until its own end is told.
            Some(Self::Running)
        } else {
            (!seen.tasks.is_empty()).then_some(Self::Queued)
        };
        match open {
            Some(status) if status.is_terminal() || !seen.is_over => status,
            Some(_) => Self::Cancelled,
            None if seen.is_over => Self::NotRun,
            None => Self::Waiting,
        }
    }

    /// The status of a middleware, by its newest task and the status of its node.
    pub fn of_middleware(newest: Option<&Progress>, node: Self) -> Self {
        match newest.map(Self::of_task) {
            Some(open) if node.is_terminal() && !open.is_terminal() => Self::Cancelled,
            Some(status) => status,
            None => match node {
                Self::Waiting | Self::Queued | Self::Running => Self::Waiting,
                Self::Succeeded | Self::Skipped => Self::Skipped,
                Self::Failed | Self::Cancelled | Self::NotRun => Self::NotRun,
            },
        }
    }

    /// The status of a subgraph, by those of its nodes.
    pub fn of_subgraph(nodes: impl Iterator<Item = Self>, is_over: bool) -> Self {
        let (mut is_stopped, mut has_failed) = (false, false);
        for node in nodes {
            match node {
                Self::Waiting | Self::Queued | Self::Running => return Self::Running,
                Self::Cancelled | Self::NotRun => is_stopped = true,
                Self::Failed => has_failed = true,
                Self::Succeeded | Self::Skipped => {}
            }
        }
        if is_stopped || (is_over && has_failed) { Self::Failed } else { Self::Succeeded }
    }

    /// What a task says of the step that it executes.
    pub fn of_task(progress: &Progress) -> Self {
        match &progress.state {
            TaskState::Waiting { why: WaitReason::Delay | WaitReason::Signal, .. }
            | TaskState::Leased(_) => Self::Running,
            TaskState::Waiting { .. } | TaskState::Ready => Self::Queued,
            TaskState::Settled(settlement) => Self::of_end(settlement.node_word()),
        }
    }

    /// What an end says.
    pub fn of_end(word: NodeWord) -> Self {
        match word {
            NodeWord::Succeeded => Self::Succeeded,
            NodeWord::Failed => Self::Failed,
            NodeWord::Skipped | NodeWord::Blocked => Self::Skipped,
            NodeWord::Cancelled => Self::Cancelled,
        }
    }

    /// Whether nothing follows.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Waiting | Self::Queued | Self::Running => false,
            Self::Succeeded | Self::Failed | Self::Skipped | Self::Cancelled | Self::NotRun => true,
        }
    }
}

/// Whether the end of its one task is the node's own end.
pub fn is_plain(node: &Node) -> bool {
    let is_container = matches!(node.host.work, Work::Container { .. });
    node.middlewares.is_empty() && node.map.is_none() && !is_container
}

/// Whether a worker had a task, or time or a signal is all that it waits for.
pub fn has_begun(progress: &Progress) -> bool {
    match &progress.state {
        TaskState::Leased(_)
        | TaskState::Settled(_)
        | TaskState::Waiting { why: WaitReason::Delay | WaitReason::Signal, .. } => true,
        TaskState::Waiting { .. } | TaskState::Ready => progress.attempt > 0,
    }
}

impl Settlement {
    /// What the end of a task means to the node that it executes.
    pub(crate) fn node_word(&self) -> NodeWord {
        let is_skipped = self.extra.as_ref().is_some_and(|extra| extra.is_skipped);
        let gave_up = self.failure.as_ref().is_some_and(|failure| failure.code == GIVEN_UP);
        match self.outcome {
            Outcome::Completed if is_skipped => NodeWord::Skipped,
            Outcome::Completed => NodeWord::Succeeded,
            Outcome::Failed if gave_up => NodeWord::Cancelled,
            Outcome::Failed | Outcome::Dead => NodeWord::Failed,
            Outcome::Stopped => NodeWord::Cancelled,
        }
    }
}

/// What a node does when its turn has come.
pub(crate) enum NodeDecision {
    /// It ends at once.
    Ends(UnitEnd),
    /// It is executed once per element.
    Many(Vec<Value>),
    /// It is executed.
    One,
}

pub(crate) fn node_decision(run: &Run, frame: u32, node: u32) -> NodeDecision {
    let state = &run.frames[&frame];
    let graph = run.graph(state);
    let definition = &graph.nodes[node as usize];
    if let Some(end) = passed_on(state, graph, definition) {
        return NodeDecision::Ends(end);
    }
    let scope = run.scope(state);
    if let Some(when) = &definition.when {
        match flow::says_yes(when, &scope) {
            Ok(true) => {}
            Ok(false) => {
                let reason = format!("its condition `{}` says no", when.source);
                return NodeDecision::Ends(UnitEnd::skipped(NodeWord::Skipped, reason));
            }
            Err(error) => return NodeDecision::Ends(expression_failed(&error)),
        }
    }
    let Some(map) = &definition.map else { return NodeDecision::One };
    match flow::list_of(map, &scope) {
        Ok(items) => NodeDecision::Many(items),
        Err(error) => NodeDecision::Ends(expression_failed(&error)),
    }
}

/// How a node ends without its turn, because of those before it. A failure counts more than a skip,
/// whichever edge was drawn first: `onSkip` lets a node run after a skip, never after a failure.
fn passed_on(state: &Frame, graph: &Graph, node: &Node) -> Option<UnitEnd> {
    let earlier = || node.waits_for.iter().map(|place| &graph.nodes[*place as usize]);
    let words = || node.waits_for.iter().map(|place| state.word(*place));
    let mut blocks = earlier().zip(words()).filter_map(|(earlier, word)| match word? {
        NodeWord::Failed | NodeWord::Cancelled if earlier.on_error == OnError::Skip => {
            Some(format!("`{}` failed, and says that those after it are skipped", earlier.name()))
        }
        NodeWord::Blocked => {
            Some(format!("`{}` was skipped because of a failure before it", earlier.name()))
        }
        _ => None,
    });
    if let Some(reason) = blocks.next() {
        return Some(UnitEnd::skipped(NodeWord::Blocked, reason));
    }
    if node.on_skip != OnSkip::Skip {
        return None;
    }
    let mut skipped = earlier().zip(words()).filter(|(_, word)| *word == Some(NodeWord::Skipped));
    let (earlier, _) = skipped.next()?;
    let reason = format!("`{}` was skipped, and it says to be skipped then", earlier.name());
    Some(UnitEnd::skipped(NodeWord::Skipped, reason))
}

impl UnitEnd {
    fn skipped(word: NodeWord, reason: String) -> Self {
        let failure = Some(Failure::new("E.NODE.SKIPPED", reason));
        Self { word, result: None, failure }
    }
}
