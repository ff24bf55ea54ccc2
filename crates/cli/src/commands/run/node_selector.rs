//! Which node of a run is meant: its alias, its label, its id or the first letters of that.

use protocol::rest::runs::{Run, RunNode};

use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::workflow_run;

/// The node that `text` selects. One that was executed in several subgraphs is found in the
/// newest of them.
pub(crate) fn node<'a>(run: &'a Run, text: &str) -> Result<&'a RunNode> {
    let nodes = run.nodes.as_deref().unwrap_or_default();
    let by_alias = |node: &RunNode| node.alias.as_deref() == Some(text);
    let by_id = |node: &RunNode| node.node_id.eq_ignore_ascii_case(text);
    let by_label = |node: &RunNode| node.label.eq_ignore_ascii_case(text);
    let prefix = text.to_ascii_lowercase();
    let by_prefix = |node: &RunNode| prefix.len() > 1 && node.node_id.starts_with(&prefix);
    let ways: [&dyn Fn(&RunNode) -> bool; 4] = [&by_alias, &by_id, &by_label, &by_prefix];
    for is_it in ways {
        let found: Vec<&RunNode> = nodes.iter().filter(|node| is_it(node)).collect();
        let Some(last) = found.last() else { continue };
        if found.iter().all(|node| node.node_id == last.node_id) {
            return Ok(last);
        }
        let message = format!("several nodes of run {} go by {text}", run.number);
        let hint = format!("give an id: {} or {}", found[0].node_id, last.node_id);
        return Err(Failure::usage(message, hint));
    }
    let known: Vec<_> = nodes.iter().take(NAMES_SHOWN).map(workflow_run::name_of).collect();
    let message = format!("run {} has no node {text}", run.number);
    let hint = format!("it has {}; see `astra run show {}`", known.join(", "), run.number);
    Err(Failure::new(ExitCode::NotFound, message, hint))
}

/// Enough to see what names look like.
const NAMES_SHOWN: usize = 8;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_is_found_by_what_people_call_it() {
        let node_of = |id: &str, alias: &str, label: &str| {
            json!({"nodeId": id, "alias": alias, "label": label, "status": "queued", "type": "t",
                "attempts": 0})
        };
        let run = json!({"runId": "r", "number": 41, "status": "running", "name": "n",
            "workflowId": "w", "definitionHash": "h", "createdAt": "", "startedBy": "",
            "nodes": [node_of("aa1", "copy", "Copy it"), node_of("aa2", "send", "Send it"),
                node_of("bb3", "Copy it", "Last"), node_of("bb3", "Copy it", "Last")]});
        let run: Run = serde_json::from_value(run).expect("a run");
        let id = |text| node(&run, text).map(|node| node.node_id.clone());
        for (text, expected) in
            [("copy", "aa1"), ("Copy it", "bb3"), ("send it", "aa2"), ("AA2", "aa2"), ("bb", "bb3")]
        {
            assert_eq!(id(text).ok().as_deref(), Some(expected), "{text}");
        }
        assert_eq!(id("aa").expect_err("two").exit, ExitCode::Usage);
        assert_eq!(id("gone").expect_err("none").exit, ExitCode::NotFound);
    }
}
