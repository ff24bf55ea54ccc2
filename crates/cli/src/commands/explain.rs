//! `astra explain`.

use std::time::Duration;

use protocol::rest::runs::{NodeExplanation, NodeStatus, Run, RunNode, RunStatus};
use protocol::rest::tasks::{Explanation, Reason};
use serde::Serialize;

use super::{run, task};
use crate::args::examples;
use crate::context::Context;
use crate::failure::{ExitCode, Result};
use crate::output::Show;
use crate::{format, workflow_run};

/// Say why a task, a run or a node is where it is: what it waits for, who holds it, how it ended.
#[derive(Debug, clap::Args)]
#[command(before_help = examples(&[
    "astra explain last",
    "astra explain 41                            what a workflow's run waits for",
    "astra explain 41/transcode                  a node of it",
    "astra explain 3f2a91bc -o json",
]))]
pub(crate) struct Arguments {
    /// The task: its id, the first letters of it, or `last`. Or a workflow's run by its number, or
    /// a node of it: `RUN/NODE`.
    #[arg(value_name = "TASK|RUN[/NODE]")]
    subject: String,
}

pub(crate) async fn run(arguments: Arguments, context: &Context) -> Result<ExitCode> {
    if let Some((run, node)) = arguments.subject.split_once('/') {
        return explain_node(run, node, context).await;
    }
    if let Some(run) = run::numbered_run(context, &arguments.subject).await? {
        return explain_run(&run, context).await;
    }
    let id = task::select(context, &arguments.subject).await?;
    let path = format!("/api/v1/tasks/{id}/explain");
    let explanation: Explanation = context.get(&path).await?;
    context.output.show(&explanation);
    Ok(ExitCode::Success)
}

async fn explain_node(run: &str, node: &str, context: &Context) -> Result<ExitCode> {
    let run = run::workflow_run(context, run).await?;
    let node = run::node(&run, node)?;
    let explanation = look(&run, node, context).await?;
    if context.output.is_for_people() {
        let text = format!("run {} · {}", run.number, in_words(node, &explanation));
        context.output.line(&text);
    } else {
        context.output.show(&explanation);
    }
    Ok(ExitCode::Success)
}

async fn look(run: &Run, node: &RunNode, context: &Context) -> Result<NodeExplanation> {
    let path = format!("{}/nodes/{}/explain", workflow_run::path(&run.run_id), node.node_id);
    context.get(&path).await
}

fn in_words(node: &RunNode, explanation: &NodeExplanation) -> String {
    let (name, told) = (workflow_run::name_of(node), explanation.text());
    format!("node {name} · {}", told.trim_end())
}

impl Show for Explanation {
    fn text(&self) -> String {
        let look = format::look(self.state);
        let state = look.styled(look.word);
        let age = format::span(Duration::from_millis(self.age_ms));
        let mut text = format!("task {} · {state} · submitted {age} ago", self.task_id);
        if self.attempt > 0 {
            format::push(&mut text, format_args!(" · attempt {}", self.attempt));
        }
        push_reasons(&mut text, self.state.word(), &self.summary, &self.reasons);
        text
    }

    fn quiet(&self) -> String {
        self.reasons.first().map_or_else(String::new, |reason| reason.code.clone())
    }
}

impl Show for NodeExplanation {
    fn text(&self) -> String {
        let look = format::look(self.status);
        let mut text = look.styled(look.word);
        push_reasons(&mut text, self.status.word(), &self.summary, &self.reasons);
        text
    }

    fn quiet(&self) -> String {
        self.reasons.first().map_or_else(String::new, |reason| reason.code.clone())
    }
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

async fn explain_run(run: &Run, context: &Context) -> Result<ExitCode> {
    let telling: Vec<&RunNode> = run.nodes.iter().flatten().filter(|node| tells(node)).collect();
    let mut text = format!("run {} · {} · {}", run.number, run.name, format::look(run.status));
    let mut nodes = Vec::new();
    for node in telling.iter().take(TOLD_MAX) {
        let explanation = look(run, node, context).await?;
        format::push(&mut text, format_args!("\n\n{}", in_words(node, &explanation)));
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
