//! What a workflow's run waits for, or what it failed by.

use protocol::rest::runs::{NodeExplanation, NodeStatus, Run, RunNode, RunStatus};
use serde::Serialize;

use super::{in_words, look};
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::output::Show;
use crate::words;

/// Nodes that are told of.
const TOLD_MAX: usize = 5;

pub(super) async fn explain(run: &Run, context: &Context) -> Result<ExitCode> {
    let telling: Vec<&RunNode> = run.nodes.iter().flatten().filter(|node| tells(node)).collect();
    let mut text = format!("run {} · {} · {}", run.number, run.name, words::run_status(run.status));
    let mut nodes = Vec::new();
    for node in telling.iter().take(TOLD_MAX) {
        let explanation = look(run, node, context).await?;
        words::push(&mut text, format_args!("\n\n{}", in_words(node, &explanation)));
        nodes.push(explanation);
    }
    match telling.len() {
        0 => text.push_str("\n\n  no node of it waits for anything"),
        told if told > TOLD_MAX => {
            let more = words::count(told - TOLD_MAX, "more node");
            words::push(&mut text, format_args!("\n\nand {more}: astra run show {}", run.number));
        }
        _ => {}
    }
    let (run_id, status) = (run.run_id.clone(), run.status);
    context.output.show(&RunExplanation { run_id, status, nodes, text });
    Ok(ExitCode::Success)
}

/// Whether a node is one that the others wait for, or that failed.
fn tells(node: &RunNode) -> bool {
    match node.status {
        NodeStatus::Queued | NodeStatus::Running => node.task_id.is_some(),
        NodeStatus::Failed => true,
        NodeStatus::Succeeded | NodeStatus::Cancelled | NodeStatus::Skipped => false,
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RunExplanation {
    run_id: String,
    status: RunStatus,
    nodes: Vec<NodeExplanation>,
    #[serde(skip)]
    text: String,
}

impl Show for RunExplanation {
    fn text(&self) -> String {
        self.text.clone()
    }

    fn quiet(&self) -> String {
        self.status.word().to_owned()
    }
}
