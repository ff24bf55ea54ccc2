//! Tells what became of nodes where no picture can be drawn again: a line for each change.

use std::collections::BTreeMap;

use protocol::rest::runs::NodeStatus;

use super::picture::Picture;
use crate::output::Output;

/// What was told.
#[derive(Default)]
pub(super) struct Teller {
    told: BTreeMap<String, NodeStatus>,
}

impl Teller {
    pub(super) fn tell(&mut self, picture: &Picture, output: Output) {
        for line in self.news(picture) {
            output.note(line);
        }
    }

    fn news(&mut self, picture: &Picture) -> Vec<String> {
        let mut news = Vec::new();
        for row in picture.rows() {
            // What never began is no news.
            let is_news = row.status != NodeStatus::Queued && row.word != "Not run";
            if is_news && self.told.insert(row.key.clone(), row.status) != Some(row.status) {
                news.push(picture.line(row));
            }
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use model::Timestamp;
    use protocol::rest::runs::RunNode;
    use serde_json::json;

    use super::*;

    #[test]
    fn each_change_is_told_once() {
        let mut teller = Teller::default();
        let mut news = |statuses: [&str; 2]| -> Vec<String> {
            let nodes = [node("a", statuses[0]), node("b", statuses[1])];
            let lines = teller.news(&Picture::of(&nodes, Timestamp::default()));
            lines.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect()
        };
        assert_eq!(news(["running", "queued"]), ["  ▸ a  Running"]);
        assert_eq!(news(["running", "queued"]), [""; 0]);
        assert_eq!(news(["succeeded", "running"]), ["  ✓ a  Succeeded", "  ▸ b  Running"]);
    }

    fn node(name: &str, status: &str) -> RunNode {
        let node = json!({"nodeId": name, "alias": name, "status": status, "type": "core.noop",
            "attempts": 1, "taskId": "t"});
        serde_json::from_value(node).expect("a node")
    }
}
