//! One line of the tree: a mark, a name, a word, a time, and what else is worth knowing.

use std::collections::BTreeMap;
use std::time::Duration;

use model::Timestamp;
use protocol::rest::runs::{MapCounts, NodeStatus, RunNode};

use super::tree::Place;
use crate::words;

/// The width of a progress bar.
const BAR: usize = 10;
/// What people read at a glance of an id that has no other name.
const ID_LETTERS: usize = 8;

/// A line, before it is aligned with the others.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Names the place while others come and go.
    pub(super) key: String,
    pub(super) depth: usize,
    pub(super) status: NodeStatus,
    pub(super) name: String,
    pub(super) word: &'static str,
    pub(super) took: String,
    pub(super) more: String,
}

impl Row {
    pub(super) fn of(place: &Place<'_>, now: Timestamp) -> Self {
        let first = place.nodes[0];
        let counts = Counts::of(&place.nodes);
        let status = counts.status();
        let n_nodes = counts.total;
        let name = match n_nodes {
            1 if first.map.is_none() => name_of(first),
            n => format!("{} × {}", name_of(first), words::thousands(n)),
        };
        let more = if n_nodes > 1 || first.map.is_some() {
            counts.in_words(&place.nodes)
        } else {
            more(first)
        };
        let word = word(status, place.nodes.iter().any(|node| node.task_id.is_some()));
        let container = first.metadata.frame.as_ref().map(|frame| frame.container_node_id.as_str());
        let key = format!("{}/{}", container.unwrap_or_default(), first.node_id);
        Self { key, depth: place.depth, status, name, word, took: took(&place.nodes, now), more }
    }
}

/// What people call a node. Middlewares are known by what they do.
pub(crate) fn name_of(node: &RunNode) -> String {
    match &node.alias {
        Some(alias) => alias.clone(),
        None if !node.label.is_empty() => node.label.clone(),
        None if node.metadata.host_node_id.is_some() => node.node_type.clone(),
        None => node.node_id.chars().take(ID_LETTERS).collect(),
    }
}

/// A node whose turn has not come waits; one that no worker has stands in a queue.
fn word(status: NodeStatus, has_task: bool) -> &'static str {
    match status {
        NodeStatus::Queued if !has_task => "Waiting",
        NodeStatus::Cancelled if !has_task => "Not run",
        _ => words::node_status(status),
    }
}

/// How many nodes of a place stand where; the elements of a fan-out count each.
struct Counts {
    total: u64,
    by_status: BTreeMap<NodeStatus, u64>,
}

impl Counts {
    fn of(nodes: &[&RunNode]) -> Self {
        let mut counts = Self { total: 0, by_status: BTreeMap::new() };
        for node in nodes {
            match node.map {
                Some(map) => counts.add_elements(map, node.status),
                None => counts.add(node.status, 1),
            }
        }
        counts
    }

    fn add(&mut self, status: NodeStatus, n: u64) {
        if n > 0 {
            self.total += n;
            *self.by_status.entry(status).or_insert(0) += n;
        }
    }

    fn add_elements(&mut self, map: MapCounts, status: NodeStatus) {
        let MapCounts { total, done, failed } = map;
        self.add(NodeStatus::Failed, failed);
        self.add(NodeStatus::Succeeded, done.saturating_sub(failed));
        let rest = if status.is_terminal() { NodeStatus::Cancelled } else { NodeStatus::Running };
        self.add(rest, total.saturating_sub(done));
        if total == 0 {
            self.by_status.insert(status, 0);
        }
    }

    /// Of the whole: what goes on comes before what is over, and what is bad before what is good.
    fn status(&self) -> NodeStatus {
        let order = [
            NodeStatus::Running,
            NodeStatus::Queued,
            NodeStatus::Failed,
            NodeStatus::Cancelled,
            NodeStatus::Succeeded,
            NodeStatus::Skipped,
        ];
        let has = |status: &NodeStatus| self.by_status.contains_key(status);
        order.into_iter().find(has).unwrap_or(NodeStatus::Queued)
    }

    fn in_words(&self, nodes: &[&RunNode]) -> String {
        let order = [
            (NodeStatus::Succeeded, "done"),
            (NodeStatus::Running, "running"),
            (NodeStatus::Queued, "queued"),
            (NodeStatus::Failed, "failed"),
            (NodeStatus::Skipped, "skipped"),
            (NodeStatus::Cancelled, "stopped"),
        ];
        let some = order.into_iter().filter_map(|(status, word)| {
            let n = self.by_status.get(&status).copied().filter(|n| *n > 0)?;
            Some(format!("{} {word}", words::thousands(n)))
        });
        let counts = some.collect::<Vec<_>>().join("  ");
        match nodes.iter().find_map(|node| node.error.as_ref()) {
            Some(error) => format!("{counts}  {}", one_line(&error.message)),
            None => counts,
        }
    }
}

/// What is worth knowing of one node, the most telling alone.
fn more(node: &RunNode) -> String {
    if let Some(error) = &node.error {
        return one_line(&error.message);
    }
    if node.reused {
        return "reused from the run before".into();
    }
    let warning = node.warnings.first().map(|warning| format!("! {}", one_line(warning)));
    let reason = node.reason.as_deref().map(one_line);
    let state = node.state.as_ref().filter(|_| node.status == NodeStatus::Running);
    let message = state.and_then(|state| state.message.as_deref()).map(one_line);
    let bar = state.and_then(|state| state.progress).map(bar);
    let tries = (node.attempts > 1).then(|| format!("attempt {}", node.attempts));
    let all = [bar, message.or(reason), tries, warning].into_iter().flatten();
    all.collect::<Vec<_>>().join("  ")
}

fn bar(progress: f64) -> String {
    let share = progress.clamp(0.0, 1.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 100")]
    let percent = (share * 100.0).round() as usize;
    let full = percent * BAR / 100;
    format!("{}{} {percent:>3}%", "█".repeat(full), "░".repeat(BAR - full))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// From the first beginning to the last end, or until now.
fn took(nodes: &[&RunNode], now: Timestamp) -> String {
    let moments = |of: fn(&RunNode) -> Option<&String>| {
        nodes.iter().filter_map(move |node| of(node)?.parse::<Timestamp>().ok())
    };
    let Some(begin) = moments(|node| node.started_at.as_ref()).min() else {
        return String::new();
    };
    let is_over = nodes.iter().all(|node| node.status.is_terminal());
    let end = moments(|node| node.finished_at.as_ref()).max().filter(|_| is_over);
    let took: Duration = end.unwrap_or(now).since(begin);
    words::span(took)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_row_says_what_matters_of_its_node() {
        check(&[json!({"status": "queued"})], "copy|Waiting||");
        check(
            &[json!({"status": "queued", "taskId": "t", "reason": "no worker"})],
            "copy|Queued||no worker",
        );
        check(&[json!({"status": "cancelled"})], "copy|Not run||");
        let running = json!({"status": "running", "taskId": "t", "attempts": 2,
            "startedAt": "2026-01-01T00:00:00Z",
            "state": {"stage": "copying", "progress": 0.42, "message": "page\n3"}});
        check(&[running], "copy|Running|5.0s|████░░░░░░  42%  page 3  attempt 2");
        let failed = json!({"status": "failed", "taskId": "t", "startedAt": "2026-01-01T00:00:00Z",
            "finishedAt": "2026-01-01T00:00:00.25Z",
            "error": {"code": "E", "message": "no such file"}});
        check(&[failed], "copy|Failed|250ms|no such file");
        let odd = json!({"status": "succeeded", "taskId": "t", "warnings": ["results is text"]});
        check(&[odd], "copy|Succeeded||! results is text");
        check(
            &[json!({"status": "succeeded", "reused": true, "taskId": "t"})],
            "copy|Succeeded||reused from the run before",
        );
    }

    #[test]
    fn fan_outs_and_rounds_are_one_row() {
        let map = json!({"status": "running", "taskId": "t",
            "map": {"total": 240, "done": 236, "failed": 1}});
        check(&[map], "copy × 240|Running||235 done  4 running  1 failed");
        let rounds = [json!({"status": "succeeded"}), json!({"status": "running", "taskId": "t"})];
        check(&rounds, "copy × 2|Running||1 done  1 running");
        let none = json!({"status": "succeeded", "map": {"total": 0, "done": 0, "failed": 0}});
        check(&[none], "copy × 0|Succeeded||");
    }

    fn check(fields: &[Value], expected: &str) {
        let nodes: Vec<RunNode> = fields.iter().map(node).collect();
        let place = Place { depth: 0, nodes: nodes.iter().collect() };
        let row = Row::of(&place, "2026-01-01T00:00:05Z".parse().expect("a moment"));
        assert_eq!(format!("{}|{}|{}|{}", row.name, row.word, row.took, row.more), expected);
    }

    fn node(fields: &Value) -> RunNode {
        let mut node = json!({"nodeId": "n", "alias": "copy", "type": "core.noop", "attempts": 1});
        let whole = node.as_object_mut().expect("an object");
        whole.extend(fields.as_object().expect("an object").clone());
        serde_json::from_value(node).expect("a node")
    }
}
