//! The tree of a run's nodes, as lines of text.

use model::Timestamp;
use protocol::rest::runs::{NodeStatus, Run, RunNode};

use super::row::Row;
use super::tree;
use crate::{output, words};

/// Spaces for each step inwards.
const INDENT: usize = 2;
/// Longer names push the rest of their own line alone.
const NAME_WIDTH_MAX: usize = 36;
const WORD_WIDTH: usize = 9;
const TOOK_WIDTH: usize = 7;

/// The rows of a run, from top to bottom.
pub(crate) struct Picture {
    rows: Vec<Row>,
}

impl Picture {
    pub(crate) fn of(nodes: &[RunNode], now: Timestamp) -> Self {
        let rows = tree::places(nodes).iter().map(|place| Row::of(place, now)).collect();
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
        lines.push(format!("  … and {}", words::count(self.rows.len() - shown, "more node")));
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
        let mark = words::node_mark(*status);
        // Outside of the colour, so that a line can end with the word.
        let gap = " ".repeat(WORD_WIDTH.saturating_sub(word.chars().count()));
        let styled = |text: &str| output::styled(words::node_style(*status), text);
        let line = format!(
            "  {indent}{} {name}{padding}  {}{gap} {took:>TOOK_WIDTH$}  {more}",
            styled(mark),
            styled(word),
        );
        line.trim_end().to_owned()
    }
}

fn name_width(row: &Row) -> usize {
    row.depth * INDENT + row.name.chars().count()
}

/// How long a run took, or has taken so far.
pub(super) fn took(run: &Run) -> String {
    let now = words::now().to_string();
    let end = run.finished_at.as_deref().unwrap_or(&now);
    words::between(&run.created_at, end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_are_aligned_and_cut_to_what_matters() {
        let nodes = [
            node("a", "succeeded", &json!({})),
            node("b", "running", &json!({"host_node_id": "a", "chain_index": 0})),
            node("long one", "failed", &json!({})),
            node("c", "queued", &json!({})),
        ];
        let picture = Picture::of(&nodes, Timestamp::default());
        let lines = |limit| -> Vec<String> {
            picture
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

    fn node(name: &str, status: &str, metadata: &serde_json::Value) -> RunNode {
        let node = json!({"nodeId": name, "alias": name, "status": status, "type": "core.noop",
            "attempts": 1, "taskId": "t", "metadata": metadata});
        serde_json::from_value(node).expect("a node")
    }
}
