//! The nodes of a run as a tree, one line each: drawn again and again on a terminal, or a line for each
//! change.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use indicatif::ProgressBar;
use model::Timestamp;
use protocol::rest::runs::{MapCounts, NodeStatus, Run, RunNode};

use crate::format;
use crate::output::{self, Output};

/// A place in the tree, with all nodes that share it; at least one.
#[derive(Debug)]
pub(super) struct Place<'a> {
    /// How far in.
    pub(super) depth: usize,
    pub(super) nodes: Vec<&'a RunNode>,
}

/// A graph: the names of the containers on the way there, and the last container's id.
type Graph<'a> = (&'a [String], &'a str);

/// The places of a run, from top to bottom.
pub(super) fn places(nodes: &[RunNode]) -> Vec<Place<'_>> {
    let mut tree = Tree { graphs: BTreeMap::new(), places: Vec::new() };
    for node in nodes {
        tree.graphs.entry(graph_of(node)).or_default().push(node);
    }
    tree.walk((&[], ""), 0);
    // Whatever hangs on nothing that is here is shown all the same.
    while let Some(graph) = tree.graphs.keys().next().copied() {
        tree.walk(graph, 0);
    }
    tree.places
}

fn graph_of(node: &RunNode) -> Graph<'_> {
    match &node.metadata.frame {
        None => (&[], ""),
        Some(frame) => (&frame.alias_chain, &frame.container_node_id),
    }
}

struct Tree<'a> {
    /// What was not placed yet.
    graphs: BTreeMap<Graph<'a>, Vec<&'a RunNode>>,
    places: Vec<Place<'a>>,
}

impl<'a> Tree<'a> {
    fn walk(&mut self, graph: Graph<'a>, depth: usize) {
        let Some(nodes) = self.graphs.remove(&graph) else { return };
        let (hosts, middlewares): (Vec<_>, Vec<_>) =
            nodes.into_iter().partition(|node| node.metadata.host_node_id.is_none());
        let mut around: BTreeMap<&str, Vec<&RunNode>> = BTreeMap::new();
        for middleware in middlewares {
            let host = middleware.metadata.host_node_id.as_deref().unwrap_or_default();
            around.entry(host).or_default().push(middleware);
        }
        for place in shared(hosts) {
            let id = place[0].node_id.as_str();
            self.places.push(Place { depth, nodes: place });
            let mut chain = around.remove(id).unwrap_or_default();
            chain.sort_by_key(|middleware| middleware.metadata.chain_index);
            let chain = shared(chain).into_iter();
            self.places.extend(chain.map(|nodes| Place { depth: depth + 1, nodes }));
            let inner = self.graphs.keys().copied().filter(|inner| is_inside(*inner, id, graph));
            for inner in inner.collect::<Vec<_>>() {
                self.walk(inner, depth + 1);
            }
        }
        let lost = around.into_values().flat_map(shared);
        self.places.extend(lost.map(|nodes| Place { depth: depth + 1, nodes }));
    }
}

fn is_inside(inner: Graph<'_>, container: &str, graph: Graph<'_>) -> bool {
    inner.1 == container && inner.0.len() == graph.0.len() + 1 && inner.0.starts_with(graph.0)
}

/// Nodes with the same id together, in the order of the first of each.
fn shared(nodes: Vec<&RunNode>) -> Vec<Vec<&RunNode>> {
    let mut at: BTreeMap<&str, usize> = BTreeMap::new();
    let mut places: Vec<Vec<&RunNode>> = Vec::new();
    for node in nodes {
        let place = *at.entry(&node.node_id).or_insert_with(|| {
            places.push(Vec::new());
            places.len() - 1
        });
        places[place].push(node);
    }
    places
}

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
            n => format!("{} × {}", name_of(first), format::thousands(n)),
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
        _ => format::look(status).word,
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
            Some(format!("{} {word}", format::thousands(n)))
        });
        let counts = some.collect::<Vec<_>>().join("  ");
        match nodes.iter().find_map(|node| node.error.as_ref()) {
            Some(error) => format!("{counts}  {}", format::one_line(&error.message)),
            None => counts,
        }
    }
}

/// What is worth knowing of one node, the most telling alone.
fn more(node: &RunNode) -> String {
    if let Some(error) = &node.error {
        return format::one_line(&error.message);
    }
    if node.reused {
        return "reused from the run before".into();
    }
    let warning = node.warnings.first().map(|warning| format!("! {}", format::one_line(warning)));
    let reason = node.reason.as_deref().map(format::one_line);
    let state = node.state.as_ref().filter(|_| node.status == NodeStatus::Running);
    let message = state.and_then(|state| state.message.as_deref()).map(format::one_line);
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
    format::span(took)
}

/// Spaces for each step inwards.
const INDENT: usize = 2;
/// Longer names push the rest of their own line alone.
const NAME_WIDTH_MAX: usize = 36;
const WORD_WIDTH: usize = 9;
const TOOK_WIDTH: usize = 7;

/// The rows of a run, from top to bottom.
pub(crate) struct NodeTree {
    rows: Vec<Row>,
}

impl NodeTree {
    pub(crate) fn of(nodes: &[RunNode], now: Timestamp) -> Self {
        let rows = places(nodes).iter().map(|place| Row::of(place, now)).collect();
        Self { rows }
    }

    /// All lines, or as many as are asked for: then what goes on and what went wrong is kept.
    pub(crate) fn lines(&self, limit: usize) -> Vec<String> {
        if self.rows.len() <= limit {
            return self.rows.iter().map(|row| self.line(row)).collect();
        }
        let is_telling =
            |row: &&Row| matches!(row.status, NodeStatus::Running | NodeStatus::Failed);
        let room = limit.saturating_sub(1);
        let mut lines: Vec<_> =
            self.rows.iter().filter(is_telling).take(room).map(|row| self.line(row)).collect();
        let shown = lines.len();
        lines.push(format!("  … and {}", format::count(self.rows.len() - shown, "more node")));
        lines
    }

    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    pub(super) fn line(&self, row: &Row) -> String {
        let width = self.rows.iter().map(name_width).max().unwrap_or(0).min(NAME_WIDTH_MAX);
        let Row { depth, status, name, word, took, more, .. } = row;
        let indent = " ".repeat(depth * INDENT);
        let padding = " ".repeat(width.saturating_sub(name_width(row)));
        let look = format::look(*status);
        // Outside of the colour, so that a line can end with the word.
        let gap = " ".repeat(WORD_WIDTH.saturating_sub(word.chars().count()));
        let line = format!(
            "  {indent}{} {name}{padding}  {}{gap} {took:>TOOK_WIDTH$}  {more}",
            look.styled_mark(),
            look.styled(word),
        );
        line.trim_end().to_owned()
    }
}

fn name_width(row: &Row) -> usize {
    row.depth * INDENT + row.name.chars().count()
}

/// How long a run took, or has taken so far.
pub(super) fn run_took(run: &Run) -> String {
    let now = format::now().to_string();
    let end = run.finished_at.as_deref().unwrap_or(&now);
    format::between(&run.created_at, end).unwrap_or_default()
}

/// Where the terminal does not say how high it is.
const HEIGHT_DEFAULT: u16 = 24;
/// Lines that are left for the prompt and for what was said before.
const LINES_SPARED: usize = 2;

/// Draws on stderr, over what it drew before; what was drawn last stays.
pub(super) struct Screen(ProgressBar);

impl Screen {
    /// Where somebody watches, and not otherwise.
    pub(super) fn new(output: Output) -> Option<Self> {
        let bar = output::progress_bar(output.is_for_people(), None, "{msg}");
        (!bar.is_hidden()).then_some(Self(bar))
    }

    /// So many lines can be drawn.
    pub(super) fn height() -> usize {
        let size = rustix::termios::tcgetwinsize(io::stderr());
        let rows = size.map_or(0, |size| size.ws_row);
        let rows = if rows == 0 { HEIGHT_DEFAULT } else { rows };
        usize::from(rows).saturating_sub(LINES_SPARED).max(1)
    }

    pub(super) fn draw(&self, lines: &[String]) {
        self.0.set_message(plain_if_wanted(&lines.join("\n")));
    }

    /// Says something above the picture.
    pub(super) fn note(&self, line: &str) {
        self.0.println(plain_if_wanted(line));
    }
}

/// Movements are no colours: they stay where colours are not wanted.
fn plain_if_wanted(text: &str) -> String {
    match anstream::AutoStream::choice(&io::stderr()) {
        anstream::ColorChoice::Never => anstream::adapter::strip_str(text).to_string(),
        _ => text.to_owned(),
    }
}

/// What was told.
#[derive(Default)]
pub(super) struct NodeChanges {
    told: BTreeMap<String, NodeStatus>,
}

impl NodeChanges {
    pub(super) fn tell(&mut self, node_tree: &NodeTree, output: Output) {
        for line in self.news(node_tree) {
            output.note(line);
        }
    }

    fn news(&mut self, node_tree: &NodeTree) -> Vec<String> {
        let mut news = Vec::new();
        for row in node_tree.rows() {
            // What never began is no news.
            let is_news = row.status != NodeStatus::Queued && row.word != "Not run";
            if is_news && self.told.insert(row.key.clone(), row.status) != Some(row.status) {
                news.push(node_tree.line(row));
            }
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use model::Timestamp;
    use protocol::rest::runs::RunNode;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn middlewares_and_subgraphs_hang_below_their_node() {
        let frame = |chain: &[&str], container: &str, number: u32| {
            json!({"__frame": {"frameId": number.to_string(), "frame": number,
                "containerNodeId": container, "subgraphId": "s", "aliasChain": chain,
                "subgraphName": "inner"}})
        };
        let nodes = [
            node("first", &json!({})),
            node("loop", &json!({"host_node_id": "box", "chain_index": 1})),
            node("retry", &json!({"host_node_id": "box", "chain_index": 0})),
            node("box", &json!({"role": "container"})),
            node("work", &frame(&["box"], "box", 1)),
            node("work", &frame(&["box"], "box", 2)),
            node("deep", &frame(&["box", "inner box"], "work", 3)),
            node("last", &json!({})),
            node("stray", &frame(&["gone"], "gone", 4)),
        ];
        let shown: Vec<_> = places(&nodes)
            .iter()
            .map(|place| (place.depth, place.nodes[0].node_id.clone(), place.nodes.len()))
            .collect();
        let expected = [
            (0, "first", 1),
            (0, "box", 1),
            (1, "retry", 1),
            (1, "loop", 1),
            (1, "work", 2),
            (2, "deep", 1),
            (0, "last", 1),
            (0, "stray", 1),
        ];
        assert_eq!(shown, expected.map(|(depth, id, n)| (depth, id.to_owned(), n)));
    }

    fn node(id: &str, metadata: &serde_json::Value) -> RunNode {
        let node = json!({"nodeId": id, "status": "queued", "type": "core.noop", "attempts": 0,
            "metadata": metadata});
        serde_json::from_value(node).expect("a node")
    }

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
        let nodes: Vec<RunNode> = fields.iter().map(node_row).collect();
        let place = Place { depth: 0, nodes: nodes.iter().collect() };
        let row = Row::of(&place, "2026-01-01T00:00:05Z".parse().expect("a moment"));
        assert_eq!(format!("{}|{}|{}|{}", row.name, row.word, row.took, row.more), expected);
    }

    fn node_row(fields: &Value) -> RunNode {
        let mut node = json!({"nodeId": "n", "alias": "copy", "type": "core.noop", "attempts": 1});
        let whole = node.as_object_mut().expect("an object");
        whole.extend(fields.as_object().expect("an object").clone());
        serde_json::from_value(node).expect("a node")
    }

    #[test]
    fn lines_are_aligned_and_cut_to_what_matters() {
        let nodes = [
            node_named("a", "succeeded", &json!({})),
            node_named("b", "running", &json!({"host_node_id": "a", "chain_index": 0})),
            node_named("long one", "failed", &json!({})),
            node_named("c", "queued", &json!({})),
        ];
        let node_tree = NodeTree::of(&nodes, Timestamp::default());
        let lines = |limit| -> Vec<String> {
            node_tree
                .lines(limit)
                .iter()
                .map(|line| anstream::adapter::strip_str(line).to_string())
                .collect()
        };
        assert_eq!(
            lines(4),
            [
                "  ✓ a         Succeeded",
                "    ▸ b       Running",
                "  ✗ long one  Failed",
                "  · c         Queued",
            ]
        );
        assert_eq!(
            lines(3),
            ["    ▸ b       Running", "  ✗ long one  Failed", "  … and 2 more nodes"]
        );
    }

    fn node_named(name: &str, status: &str, metadata: &serde_json::Value) -> RunNode {
        let node = json!({"nodeId": name, "alias": name, "status": status, "type": "core.noop",
            "attempts": 1, "taskId": "t", "metadata": metadata});
        serde_json::from_value(node).expect("a node")
    }

    #[test]
    fn each_change_is_told_once() {
        let mut changes = NodeChanges::default();
        let mut news = |statuses: [&str; 2]| -> Vec<String> {
            let nodes = [node_teller("a", statuses[0]), node_teller("b", statuses[1])];
            let lines = changes.news(&NodeTree::of(&nodes, Timestamp::default()));
            lines.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect()
        };
        assert_eq!(news(["running", "queued"]), ["  ▸ a  Running"]);
        assert_eq!(news(["running", "queued"]), [""; 0]);
        assert_eq!(news(["succeeded", "running"]), ["  ✓ a  Succeeded", "  ▸ b  Running"]);
    }

    fn node_teller(name: &str, status: &str) -> RunNode {
        let node = json!({"nodeId": name, "alias": name, "status": status, "type": "core.noop",
            "attempts": 1, "taskId": "t"});
        serde_json::from_value(node).expect("a node")
    }
}
