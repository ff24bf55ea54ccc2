//! How a run of a workflow ended.

use protocol::rest::runs::{Run, RunNode, RunStatus};

use super::picture::took;
use super::row::name_of;
use crate::exit_code::ExitCode;
use crate::{output, words};

/// What the shell is told.
pub(super) fn exit_code(status: RunStatus) -> ExitCode {
    match status {
        RunStatus::Succeeded => ExitCode::Success,
        RunStatus::Queued | RunStatus::Running | RunStatus::Failed | RunStatus::Cancelled => {
            ExitCode::Failed
        }
    }
}

/// The last line about a run.
pub(super) fn headline(run: &Run) -> String {
    let status = words::as_node(run.status);
    let mark = output::styled(words::node_style(status), words::node_mark(status));
    let number = run.number;
    match run.status {
        RunStatus::Succeeded => format!("{mark} run {number} succeeded in {}", took(run)),
        RunStatus::Cancelled => format!("{mark} run {number} was stopped after {}", took(run)),
        RunStatus::Failed => format!("{mark} run {number} failed: {}", why(run)),
        RunStatus::Queued | RunStatus::Running => format!("{mark} run {number} goes on"),
    }
}

/// What to do next.
pub(super) fn ways_on(run: &Run) -> Option<String> {
    let number = run.number;
    match run.status {
        RunStatus::Failed | RunStatus::Cancelled => Some(format!(
            "  more: astra run show {number}   again from there: astra run retry {number}"
        )),
        RunStatus::Queued | RunStatus::Running | RunStatus::Succeeded => None,
    }
}

fn why(run: &Run) -> String {
    let Some(error) = &run.error else { return "nobody said why".into() };
    let is_it = |node: &&RunNode| Some(&node.node_id) == error.node_id.as_ref();
    match run.nodes.iter().flatten().find(is_it) {
        Some(node) => format!("{}: {}", name_of(node), error.message),
        None => error.message.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_line_names_the_node_that_failed() {
        let run = json!({"runId": "r", "number": 41, "status": "failed", "name": "n",
            "workflowId": "w", "definitionHash": "h", "createdAt": "2026-01-01T00:00:00Z",
            "finishedAt": "2026-01-01T00:00:03Z", "startedBy": "t",
            "error": {"code": "E", "message": "no such file", "nodeId": "n1"},
            "nodes": [{"nodeId": "n1", "alias": "copy", "status": "failed", "type": "t",
                "attempts": 1}]});
        let mut run: Run = serde_json::from_value(run).expect("a run");
        let said = |run: &Run| anstream::adapter::strip_str(&headline(run)).to_string();
        assert_eq!(said(&run), "✗ run 41 failed: copy: no such file");
        assert_eq!(exit_code(run.status), ExitCode::Failed);
        run.status = RunStatus::Succeeded;
        assert_eq!(said(&run), "✓ run 41 succeeded in 3.0s");
        assert_eq!(exit_code(run.status), ExitCode::Success);
    }
}
