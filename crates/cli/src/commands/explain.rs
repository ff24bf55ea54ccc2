//! `astra explain`.

mod of_run;

use std::time::Duration;

use protocol::rest::runs::{NodeExplanation, Run, RunNode};
use protocol::rest::tasks::{Explanation, Reason};

use super::run;
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::output::{self, Show};
use crate::{selector, words, workflow_run};

const EXAMPLES: &str = "\
Examples:
  astra explain last
  astra explain 41                            what a workflow's run waits for
  astra explain 41/transcode                  a node of it
  astra explain 3f2a91bc -o json
";

/// Say why a task, a run or a node is where it is: what it waits for, who holds it, how it ended.
#[derive(Debug, clap::Args)]
#[command(before_help = EXAMPLES)]
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
        return of_run::explain(&run, context).await;
    }
    let id = selector::task(context, &arguments.subject).await?;
    let path = format!("/api/v1/tasks/{id}/explain");
    let explanation: Explanation = context.ask(context.client.get(&path)).await?;
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
    context.ask(context.client.get(&path)).await
}

fn in_words(node: &RunNode, explanation: &NodeExplanation) -> String {
    let (name, told) = (workflow_run::name_of(node), explanation.text());
    format!("node {name} · {}", told.trim_end())
}

impl Show for Explanation {
    fn text(&self) -> String {
        let state = output::styled(words::style(self.state), words::state(self.state));
        let age = words::span(Duration::from_millis(self.age_ms));
        let mut text = format!("task {} · {state} · submitted {age} ago", self.task_id);
        if self.attempt > 0 {
            words::push(&mut text, format_args!(" · attempt {}", self.attempt));
        }
        // The headline has the state already, and the summary most of the first reason.
        let prefix = format!("{}: ", self.state.word());
        let summary = self.summary.strip_prefix(&prefix).unwrap_or(&self.summary);
        push_reasons(&mut text, summary, &self.reasons);
        text
    }

    fn quiet(&self) -> String {
        self.reasons.first().map_or_else(String::new, |reason| reason.code.clone())
    }
}

impl Show for NodeExplanation {
    fn text(&self) -> String {
        let word = words::node_status(self.status);
        let mut text = output::styled(words::node_style(self.status), word);
        let prefix = format!("{}: ", self.status.word());
        let summary = self.summary.strip_prefix(&prefix).unwrap_or(&self.summary);
        push_reasons(&mut text, summary, &self.reasons);
        text
    }

    fn quiet(&self) -> String {
        self.reasons.first().map_or_else(String::new, |reason| reason.code.clone())
    }
}

fn push_reasons(text: &mut String, summary: &str, reasons: &[Reason]) {
    words::push(text, format_args!("\n\n  {summary}\n"));
    for reason in reasons.iter().filter(|reason| !summary.contains(&reason.message)) {
        words::push(text, format_args!("  · {}\n", reason.message));
    }
    for hint in reasons.iter().filter_map(|reason| reason.hint.as_ref()) {
        words::push(text, format_args!("  → {hint}\n"));
    }
}
