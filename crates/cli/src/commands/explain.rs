//! `astra explain`.

use std::time::Duration;

use protocol::rest::runs::{NodeExplanation, NodeStatus, Run, RunNode};
use protocol::rest::tasks::{Explanation, Reason};
use serde_json::json;

use super::{run, task};
use crate::context::Context;
use crate::failure::{ExitCode, Result};
use crate::{format, workflow_run};

/// Explain the state of a task, a run or a node: what it waits for, who holds it, how it ended.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The task: its id, the first letters of it, or `last`. Or a workflow's run by its number, or
    /// a node of it: `RUN/NODE`.
    #[arg(value_name = "TASK|RUN[/NODE]")]
    subject: String,
}

pub(crate) async fn run(arguments: Arguments, context: &Context) -> Result<ExitCode> {
    if let Some((run, node)) = arguments.subject.split_once('/') {
        let run = run::workflow_run(context, run).await?;
        let node = run::node(&run, node)?;
        let explanation = look(&run, node, context).await?;
        let text = format!("run {} · {}", run.number, node_in_words(node, &explanation));
        context.output.answer(&explanation, text, code(&explanation.reasons));
    } else if let Some(run) = run::numbered_run(context, &arguments.subject).await? {
        explain_run(&run, context).await?;
    } else {
        let id = task::select(context, &arguments.subject).await?;
        let path = format!("/api/v1/tasks/{id}/explain");
        let explanation: Explanation = context.get(&path).await?;
        context.output.answer(&explanation, in_words(&explanation), code(&explanation.reasons));
    }
    Ok(ExitCode::Success)
}

async fn look(run: &Run, node: &RunNode, context: &Context) -> Result<NodeExplanation> {
    let path = format!("{}/nodes/{}/explain", workflow_run::path(&run.run_id), node.node_id);
    context.get(&path).await
}

/// The first reason, for programs.
fn code(reasons: &[Reason]) -> &str {
    reasons.first().map_or("", |reason| reason.code.as_str())
}

fn in_words(explanation: &Explanation) -> String {
    let Explanation { task_id, state, age_ms, attempt, summary, reasons, .. } = explanation;
    let look = format::look(*state);
    let age = format::span(Duration::from_millis(*age_ms));
    let mut text = format!("task {task_id} · {} · submitted {age} ago", look.styled(look.word));
    if *attempt > 0 {
        format::push(&mut text, format_args!(" · attempt {attempt}"));
    }
    push_reasons(&mut text, state.word(), summary, reasons);
    text
}

fn node_in_words(node: &RunNode, explanation: &NodeExplanation) -> String {
    let NodeExplanation { status, summary, reasons, .. } = explanation;
    let look = format::look(*status);
    let name = workflow_run::name_of(node);
    let mut text = format!("node {name} · {}", look.styled(look.word));
    push_reasons(&mut text, status.word(), summary, reasons);
    text.trim_end().to_owned()
}

/// The headline has the state already, and the summary most of the first reason.
fn push_reasons(text: &mut String, state: &str, summary: &str, reasons: &[Reason]) {
    let summary = summary.strip_prefix(&format!("{state}: ")).unwrap_or(summary);
    format::push(text, format_args!("\n\n  {summary}\n"));
    for reason in reasons.iter().filter(|reason| !summary.contains(&reason.message)) {
        format::push(text, format_args!("  · {}\n", reason.message));
    }
    for hint in reasons.iter().filter_map(|reason| reason.hint.as_ref()) {
        format::push(text, format_args!("  → {hint}\n"));
    }
}

/// Nodes that are told of.
const TOLD_MAX: usize = 5;

async fn explain_run(run: &Run, context: &Context) -> Result<()> {
    let telling: Vec<&RunNode> = run.nodes.iter().flatten().filter(|node| tells(node)).collect();
    let mut text = format!("run {} · {} · {}", run.number, run.name, format::look(run.status));
    let mut nodes = Vec::new();
    for node in telling.iter().take(TOLD_MAX) {
        let explanation = look(run, node, context).await?;
        format::push(&mut text, format_args!("\n\n{}", node_in_words(node, &explanation)));
        nodes.push(explanation);
    }
    match telling.len() {
        0 => text.push_str("\n\n  no node of it waits for anything"),
        told if told > TOLD_MAX => {
            let more = format::count(told - TOLD_MAX, "more node");
            format::push(&mut text, format_args!("\n\nand {more}: astra run show {}", run.number));
        }
        _ => {}
    }
    let answer = json!({ "runId": run.run_id, "status": run.status, "nodes": nodes });
    context.output.answer(&answer, text, run.status.word());
    Ok(())
}

/// Whether a node is one that the others wait for, or that failed.
fn tells(node: &RunNode) -> bool {
    match node.status {
        NodeStatus::Queued | NodeStatus::Running => node.task_id.is_some(),
        NodeStatus::Failed => true,
        NodeStatus::Succeeded | NodeStatus::Cancelled | NodeStatus::Skipped => false,
    }
}
