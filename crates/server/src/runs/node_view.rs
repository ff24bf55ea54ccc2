//! One node of a run, in words.

use coordinator::{NodeEnd, NodeStatus, TaskRecord, TaskState, has_begun};
use flow::{Node, Work};
use model::{Failure, LeaseId, Timestamp};
use protocol::rest::runs::{
    self as wire, Artifact, FrameMark, MapCounts, NodeMetadata, RunError, RunNode, StageState,
};
use serde_json::value::RawValue;

use super::run_snapshot::{NodeParts, RunSnapshot, SubgraphSnapshot};
use super::view;
use crate::logs::FeedbackHub;

/// What a container is called where its author's word is not kept.
const CONTAINER_TYPE: &str = "workflow.container";

/// Makes the words.
pub(crate) struct Painter<'a> {
    /// The run.
    pub(crate) snapshot: &'a RunSnapshot<'a>,
    /// What workers say about tasks that go on.
    pub(crate) feedback: &'a FeedbackHub,
}

impl Painter<'_> {
    /// A node, then its middlewares, outermost first.
    pub(crate) fn node(
        &self,
        snapshot: &SubgraphSnapshot<'_>,
        place: usize,
        mark: Option<&FrameMark>,
    ) -> Vec<RunNode> {
        let (node, parts) = snapshot.node(place);
        let mut host = self.host(snapshot, place);
        host.metadata = NodeMetadata {
            middlewares: node.middlewares.iter().map(|step| step.id.to_string()).collect(),
            role: is_container(node).then(|| "container".to_owned()),
            frame: mark.cloned(),
            ..NodeMetadata::default()
        };
        let mut rows = vec![host];
        for level in 0..node.middlewares.len() {
            let mut row = self.middleware(node, parts, level);
            row.metadata.frame = mark.cloned();
            rows.push(row);
        }
        rows
    }

    fn host(&self, snapshot: &SubgraphSnapshot<'_>, place: usize) -> RunNode {
        let (node, parts) = snapshot.node(place);
        let task = if node.map.is_some() { None } else { parts.newest(node.host_level()) };
        let mut row = RunNode {
            node_id: node.id.to_string(),
            status: view::wire_word(parts.status),
            node_type: type_of(&node.host.work),
            label: node.label.clone(),
            alias: node.alias.clone(),
            reason: view::reason(snapshot, place),
            reused: self.is_reused(parts.end),
            map: node.map.as_ref().map(|map| self.map_counts(parts, node, &map.over)),
            started_at: self.began(parts).map(|at| at.to_string()),
            ..RunNode::default()
        };
        for task in parts.of_level(node.host_level()) {
            row.artifacts.extend(artifacts(task, &row.node_id));
        }
        if let Some(task) = task {
            self.add_task(&mut row, task);
        }
        if let Some(end) = parts.end {
            add_end(&mut row, end);
        }
        add_stage(&mut row);
        row
    }

    fn middleware(&self, node: &Node, parts: &NodeParts<'_>, level: usize) -> RunNode {
        let step = &node.middlewares[level];
        let task = parts.newest(level);
        let newest = task.map(|task| &task.progress);
        let status = NodeStatus::of_middleware(newest, parts.status);
        let metadata = NodeMetadata {
            host_node_id: Some(node.id.to_string()),
            chain_index: u32::try_from(level).ok(),
            role: Some("middleware".to_owned()),
            ..NodeMetadata::default()
        };
        let mut row = RunNode {
            node_id: step.id.to_string(),
            status: view::wire_word(status),
            node_type: type_of(&step.work),
            started_at: parts.of_level(level).next().map(|task| began_at(task).to_string()),
            metadata,
            ..RunNode::default()
        };
        for task in parts.of_level(level) {
            row.artifacts.extend(artifacts(task, &row.node_id));
        }
        if let Some(task) = task {
            self.add_task(&mut row, task);
        }
        add_stage(&mut row);
        row
    }

    /// What its newest task tells.
    fn add_task(&self, row: &mut RunNode, task: &TaskRecord) {
        row.task_id = Some(task.id.to_string());
        row.attempts = task.progress.attempt;
        match &task.progress.state {
            TaskState::Waiting { .. } => row.awaited_event = view::awaited_event(task),
            TaskState::Ready => {}
            TaskState::Leased(lease) => {
                row.worker_name = Some(lease.holder.to_string());
                let dispatch = LeaseId { task: task.id, epoch: task.progress.epoch };
                row.dispatch_id = Some(dispatch.to_string());
                row.state = self.feedback.snapshot(task.id).map(|said| StageState {
                    stage: said.stage.unwrap_or_else(|| row.status.word().to_owned()),
                    progress: said.progress,
                    message: said.message,
                    last_updated_at: Some(said.at.to_string()),
                    error: None,
                });
            }
            TaskState::Settled(settlement) => {
                row.worker_name = settlement.holder.as_ref().map(ToString::to_string);
                row.finished_at = Some(settlement.at.to_string());
                row.result = settlement.result.as_deref().and_then(raw);
                if row.status != wire::NodeStatus::Skipped {
                    row.error = settlement.failure.as_ref().map(error);
                }
            }
        }
    }

    /// When the first of its parts began.
    fn began(&self, parts: &NodeParts<'_>) -> Option<Timestamp> {
        let tasks = parts.tasks.iter().filter(|task| has_begun(&task.progress));
        let frames = parts.frames.iter().filter_map(|place| self.snapshot.frames[*place].entered);
        let tasks = tasks.map(|task| began_at(task));
        tasks.chain(frames.map(|(record, _)| record.opened_at)).min()
    }

    /// An earlier run did it: it was there when this one began.
    fn is_reused(&self, end: Option<&NodeEnd>) -> bool {
        let record = self.snapshot.record;
        let from_start = |end: &NodeEnd| end.at == record.created_at;
        end.is_some_and(|end| {
            end.reused.is_some() || (record.about.retry_of.is_some() && from_start(end))
        })
    }

    fn map_counts(
        &self,
        parts: &NodeParts<'_>,
        node: &Node,
        over: &serde_json::Value,
    ) -> MapCounts {
        let mut counts = MapCounts::default();
        let mut seen = 0;
        let mut count = |item: u32, status: NodeStatus| {
            seen = seen.max(u64::from(item) + 1);
            counts.done += u64::from(status.is_terminal());
            let is_bad =
                matches!(status, NodeStatus::Failed | NodeStatus::Cancelled | NodeStatus::NotRun);
            counts.failed += u64::from(is_bad);
        };
        if is_container(node) && node.middlewares.is_empty() {
            for frame in parts.frames.iter().map(|place| &self.snapshot.frames[*place]) {
                let item = frame.entered.and_then(|(record, _)| record.item).unwrap_or(0);
                let nodes = frame.nodes.iter().map(|parts| parts.status);
                count(item, NodeStatus::of_subgraph(nodes, frame.is_over));
            }
        } else {
            for task in parts.of_level(0) {
                let item = task.link.as_ref().and_then(|link| link.item).unwrap_or(0);
                count(item, NodeStatus::of_task(&task.progress));
            }
        }
        for item in &parts.items {
            count(item.item, NodeStatus::of_end(item.end.word));
        }
        let authored = over.as_array().map_or(0, |list| list.len() as u64);
        counts.total = parts.length.map_or_else(|| seen.max(authored), u64::from);
        counts
    }

    /// Where in the run a frame stands; nothing for the workflow itself.
    pub(crate) fn mark(&self, frame: usize) -> Option<FrameMark> {
        let snapshot = &self.snapshot.frames[frame];
        let (record, around) = snapshot.entered?;
        let container = &self.snapshot.frames[around].graph.nodes[record.node as usize];
        let (mut chain, mut ids) = (Vec::new(), Vec::new());
        let mut inner = snapshot;
        while let Some((record, around)) = inner.entered {
            let outer = &self.snapshot.frames[around];
            let container = &outer.graph.nodes[record.node as usize];
            chain.push(container.name());
            ids.extend([inner.graph.id.to_string(), container.id.to_string()]);
            inner = outer;
        }
        ids.push(inner.graph.id.to_string());
        chain.reverse();
        ids.reverse();
        Some(FrameMark {
            frame_id: ids.join("::"),
            frame: snapshot.number,
            container_node_id: container.id.to_string(),
            subgraph_id: snapshot.graph.id.to_string(),
            alias_chain: chain,
            subgraph_name: snapshot.graph.name.clone(),
            index: record.item,
        })
    }
}

fn is_container(node: &Node) -> bool {
    matches!(node.host.work, Work::Container { .. })
}

fn type_of(work: &Work) -> String {
    match work {
        Work::Task { spec, .. } => spec.demand.task_type.to_string(),
        Work::Container { .. } => CONTAINER_TYPE.to_owned(),
        Work::Delay => "core.delay".to_owned(),
        Work::WaitEvent { .. } => "core.wait_event".to_owned(),
        Work::Approve { .. } => "core.approve".to_owned(),
    }
}

/// When its worker got it; when its turn came, where no worker has or had it.
fn began_at(task: &TaskRecord) -> Timestamp {
    match &task.progress.state {
        TaskState::Leased(lease) => lease.granted_at,
        TaskState::Settled(settlement) => settlement.granted_at.unwrap_or(task.created_at),
        TaskState::Waiting { .. } | TaskState::Ready => task.created_at,
    }
}

/// What the node's own end tells, where no single task does.
fn add_end(row: &mut RunNode, end: &NodeEnd) {
    row.finished_at = Some(end.at.to_string());
    row.result = end.result.as_deref().and_then(raw);
    row.error = match row.status {
        wire::NodeStatus::Skipped => None,
        _ => end.failure.as_ref().map(error),
    };
    if let Some(task) = end.reused {
        row.task_id = Some(task.to_string());
    }
}

fn add_stage(row: &mut RunNode) {
    let message = row.error.as_ref().map(|error| error.message.clone());
    let plain = || StageState {
        stage: row.status.word().to_owned(),
        progress: None,
        message: row.reason.clone(),
        last_updated_at: row.finished_at.clone().or_else(|| row.started_at.clone()),
        error: message,
    };
    let said = row.state.take();
    row.state = Some(said.unwrap_or_else(plain));
}

/// Why something did not succeed.
pub(crate) fn error(failure: &Failure) -> RunError {
    RunError {
        code: failure.code.clone(),
        message: failure.reason.clone(),
        node_id: None,
        details: failure.details.as_deref().and_then(raw),
    }
}

/// Bytes that were checked when they came in, as JSON.
pub(crate) fn raw(bytes: &[u8]) -> Option<Box<RawValue>> {
    let text = String::from_utf8(bytes.to_vec()).ok()?;
    RawValue::from_string(text).ok()
}

/// What a task left behind. What its worker said about it is not ours to refuse any more, so a
/// description that makes no sense is passed over.
fn artifacts(task: &TaskRecord, node_id: &str) -> Vec<Artifact> {
    let TaskState::Settled(settlement) = &task.progress.state else { return Vec::new() };
    let list = settlement.extra.as_ref().and_then(|extra| extra.artifacts.as_deref());
    let list: Vec<&RawValue> =
        list.and_then(|json| serde_json::from_slice(json).ok()).unwrap_or_default();
    let read = list.into_iter().filter_map(|one| serde_json::from_str(one.get()).ok());
    let known = read.map(|artifact: Artifact| Artifact {
        node_id: Some(node_id.to_owned()),
        task_id: Some(task.id.to_string()),
        worker_name: artifact
            .worker_name
            .clone()
            .or_else(|| settlement.holder.as_ref().map(ToString::to_string)),
        ..artifact
    });
    known.collect()
}
