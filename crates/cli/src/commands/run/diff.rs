//! `astra run diff`.

use std::collections::BTreeMap;
use std::time::Duration;

use model::Timestamp;
use protocol::rest::runs::{NodeStatus, Run, RunNode, RunStatus};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::selector;
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::json_diff::{Difference, differences};
use crate::output::{self, Show};
use crate::words;
use crate::workflow_run::name_of;

const EXAMPLES: &str = "\
Examples:
  astra run diff last~1 last
  astra run diff 40 41
  astra run diff 40 41 -o json
";
/// More differences of one node than this are counted.
const DIFFERENCES_SHOWN: usize = 5;
/// Longer values are cut for people.
const VALUE_CHARS_MAX: usize = 60;

/// Compare two runs of a workflow: inputs, outputs, and each node's end, time and result.
#[derive(Debug, clap::Args)]
#[command(before_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The one run: its number, its id, the first letters of it, `last` or `last~1`.
    a: String,
    /// The other run.
    b: String,
}

pub(super) async fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode> {
    let a = selector::workflow_run(context, &arguments.a).await?;
    let b = selector::workflow_run(context, &arguments.b).await?;
    context.output.show(&RunDiff::of(&a, &b));
    Ok(ExitCode::Success)
}

/// What differs between two runs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RunDiff {
    a: Side,
    b: Side,
    same_definition: bool,
    inputs: Vec<Difference>,
    outputs: Vec<Difference>,
    nodes: Vec<NodeDiff>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Side {
    run_id: String,
    number: u64,
    status: RunStatus,
    took_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeDiff {
    node_id: String,
    name: String,
    /// Absent where the run has no such node.
    a: Option<NodeSide>,
    b: Option<NodeSide>,
    result: Vec<Difference>,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeSide {
    status: NodeStatus,
    took_ms: Option<u64>,
    reused: bool,
}

impl RunDiff {
    fn of(a: &Run, b: &Run) -> Self {
        Self {
            a: Side::of(a),
            b: Side::of(b),
            same_definition: a.definition_hash == b.definition_hash,
            inputs: raw_differences(a.inputs.as_deref(), b.inputs.as_deref()),
            outputs: raw_differences(a.outputs.as_deref(), b.outputs.as_deref()),
            nodes: node_diffs(a, b),
        }
    }
}

impl Side {
    fn of(run: &Run) -> Self {
        let took_ms = took(Some(&run.created_at), run.finished_at.as_ref());
        Self { run_id: run.run_id.clone(), number: run.number, status: run.status, took_ms }
    }
}

/// The nodes of both, in the order of the first; a node of a subgraph that was entered many times
/// is compared round by round.
fn node_diffs(a: &Run, b: &Run) -> Vec<NodeDiff> {
    let (mut of_a, mut of_b) = (by_place(a), by_place(b));
    let mut order: Vec<_> = places(a);
    let known = order.clone();
    order.extend(places(b).into_iter().filter(|place| !known.contains(place)));
    let compared = order.into_iter().filter_map(|place| {
        let (one, other) = (of_a.remove(&place), of_b.remove(&place));
        let first = one.or(other)?;
        let result = |node: Option<&RunNode>| node.and_then(|node| value(node.result.as_deref()));
        // A node that gave nothing came to another end, which says it all.
        let result = match (result(one), result(other)) {
            (Some(one), Some(other)) => differences(Some(&one), Some(&other)),
            _ => Vec::new(),
        };
        Some(NodeDiff {
            node_id: first.node_id.clone(),
            name: name_of(first),
            a: one.map(NodeSide::of),
            b: other.map(NodeSide::of),
            result,
        })
    });
    compared.collect()
}

/// A node, and which of its rounds.
type Place = (String, usize);

fn places(run: &Run) -> Vec<Place> {
    let mut rounds: BTreeMap<&str, usize> = BTreeMap::new();
    let nodes = run.nodes.as_deref().unwrap_or_default();
    let place = |node: &'_ RunNode, round: usize| (node.node_id.clone(), round);
    nodes
        .iter()
        .map(|node| {
            let round = rounds.entry(&node.node_id).or_insert(0);
            *round += 1;
            place(node, *round)
        })
        .collect()
}

fn by_place(run: &Run) -> BTreeMap<Place, &RunNode> {
    places(run).into_iter().zip(run.nodes.as_deref().unwrap_or_default()).collect()
}

impl NodeSide {
    fn of(node: &RunNode) -> Self {
        let took_ms = took(node.started_at.as_ref(), node.finished_at.as_ref());
        Self { status: node.status, took_ms, reused: node.reused }
    }
}

fn took(start: Option<&String>, end: Option<&String>) -> Option<u64> {
    let (start, end): (Timestamp, Timestamp) = (start?.parse().ok()?, end?.parse().ok()?);
    u64::try_from(end.since(start).as_millis()).ok()
}

fn value(raw: Option<&RawValue>) -> Option<Value> {
    serde_json::from_str(raw?.get()).ok()
}

fn raw_differences(a: Option<&RawValue>, b: Option<&RawValue>) -> Vec<Difference> {
    differences(value(a).as_ref(), value(b).as_ref())
}

impl Show for RunDiff {
    fn text(&self) -> String {
        let side = |side: &Side| {
            format!(
                "run {}: {} in {}",
                side.number,
                words::run_status(side.status),
                span(side.took_ms)
            )
        };
        let mut text = format!("{}\n{}\n", side(&self.a), side(&self.b));
        if !self.same_definition {
            text.push_str("the workflow itself differs\n");
        }
        push_all(&mut text, "inputs", &self.inputs);
        push_all(&mut text, "outputs", &self.outputs);
        let rows = self.nodes.iter().map(|node| {
            let (a, b) = (node.a.as_ref(), node.b.as_ref());
            let differs = match node.result.len() {
                0 => String::new(),
                n => format!("result differs in {}", words::count(n, "place")),
            };
            [node.name.clone(), status(a), took_of(a), status(b), took_of(b), differs]
        });
        let a = format!("RUN {}", self.a.number);
        let b = format!("RUN {}", self.b.number);
        let header = ["NODE", a.as_str(), "TOOK", b.as_str(), "TOOK", ""];
        words::push(&mut text, format_args!("\n{}\n", output::table(header, rows.collect())));
        for node in self.nodes.iter().filter(|node| !node.result.is_empty()) {
            push_all(&mut text, &format!("result of {}", node.name), &node.result);
        }
        text
    }

    /// Nodes that came to another end, or gave something else.
    fn quiet(&self) -> String {
        let status = |side: &Option<NodeSide>| side.as_ref().map(|side| side.status);
        let differs =
            |node: &&NodeDiff| status(&node.a) != status(&node.b) || !node.result.is_empty();
        self.nodes
            .iter()
            .filter(differs)
            .map(|node| node.name.clone())
            .collect::<Vec<_>>()
            .join("\n")
    }
}

fn status(side: Option<&NodeSide>) -> String {
    match side {
        Some(side) if side.reused => "○ Reused".into(),
        Some(side) => {
            format!("{} {}", words::node_mark(side.status), words::node_status(side.status))
        }
        None => "-".into(),
    }
}

fn took_of(side: Option<&NodeSide>) -> String {
    span(side.and_then(|side| side.took_ms))
}

fn span(took_ms: Option<u64>) -> String {
    took_ms.map_or_else(|| "-".into(), |ms| words::span(Duration::from_millis(ms)))
}

fn push_all(text: &mut String, what: &str, differences: &[Difference]) {
    if differences.is_empty() {
        return;
    }
    words::push(text, format_args!("\n{what}\n"));
    for one in differences.iter().take(DIFFERENCES_SHOWN) {
        let path = if one.path.is_empty() { "all of it" } else { &one.path };
        let (a, b) = (shown(one.a.as_ref()), shown(one.b.as_ref()));
        words::push(text, format_args!("  {path}: {a} → {b}\n"));
    }
    if differences.len() > DIFFERENCES_SHOWN {
        let more = differences.len() - DIFFERENCES_SHOWN;
        words::push(text, format_args!("  and {more} more; see -o json\n"));
    }
}

fn shown(value: Option<&Value>) -> String {
    let Some(value) = value else { return "nothing".into() };
    let text = value.to_string();
    if text.chars().count() <= VALUE_CHARS_MAX {
        return text;
    }
    text.chars().take(VALUE_CHARS_MAX - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn two_runs_are_compared_node_by_node() {
        let a = run(40, "failed", &[node("copy", "succeeded", 10), node("send", "failed", 0)]);
        let b = run(41, "succeeded", &[node("copy", "succeeded", 12), node("new", "succeeded", 1)]);
        let diff = RunDiff::of(&a, &b);
        let names: Vec<_> = diff.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["copy", "send", "new"]);
        assert_eq!(diff.nodes[0].result.len(), 1);
        assert!(diff.nodes[1].b.is_none() && diff.nodes[2].a.is_none());
        assert_eq!(diff.inputs[0].path, "n");
        let text = diff.text();
        assert!(
            text.starts_with("run 40: ✗ Failed in 1.0s\nrun 41: ✓ Succeeded in 1.0s\n"),
            "{text}"
        );
        assert!(text.contains("inputs\n  n: 40 → 41\n"), "{text}");
        assert!(text.contains("result of copy\n  size: 10 → 12\n"), "{text}");
        assert_eq!(diff.quiet(), "copy\nsend\nnew");
    }

    fn run(number: u64, status: &str, nodes: &[Value]) -> Run {
        let run = json!({"runId": "r", "number": number, "status": status, "name": "n",
            "workflowId": "w", "definitionHash": "h", "createdAt": "2026-01-01T00:00:00Z",
            "finishedAt": "2026-01-01T00:00:01Z", "startedBy": "", "inputs": {"n": number},
            "nodes": nodes});
        serde_json::from_str(&run.to_string()).expect("a run")
    }

    fn node(name: &str, status: &str, size: u64) -> Value {
        json!({"nodeId": name, "status": status, "type": "t", "attempts": 1,
            "result": {"size": size}})
    }
}
