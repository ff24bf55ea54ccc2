//! `astra run diff`.

use std::collections::BTreeMap;
use std::time::Duration;

use model::Timestamp;
use protocol::rest::runs::{NodeStatus, Run, RunNode, RunStatus};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;

use super::selector;
use crate::context::Context;
use crate::failure::{ExitCode, Result};
use crate::format;
use crate::output::{self, Show};
use crate::workflow_run::name_of;

/// More differences of one node than this are counted.
const DIFFERENCES_SHOWN: usize = 5;
/// Longer values are cut for people.
const VALUE_CHARS_MAX: usize = 60;

pub(super) async fn diff(a: &str, b: &str, context: &Context) -> Result<ExitCode> {
    let a = selector::workflow_run(context, a).await?;
    let b = selector::workflow_run(context, b).await?;
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
            format!("run {}: {} in {}", side.number, format::look(side.status), span(side.took_ms))
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
                n => format!("result differs in {}", format::count(n, "place")),
            };
            [node.name.clone(), status(a), took_of(a), status(b), took_of(b), differs]
        });
        let a = format!("RUN {}", self.a.number);
        let b = format!("RUN {}", self.b.number);
        let header = ["NODE", a.as_str(), "TOOK", b.as_str(), "TOOK", ""];
        format::push(&mut text, format_args!("\n{}\n", output::table(header, rows)));
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
        Some(side) => format::look(side.status).to_string(),
        None => "-".into(),
    }
}

fn took_of(side: Option<&NodeSide>) -> String {
    span(side.and_then(|side| side.took_ms))
}

fn span(took_ms: Option<u64>) -> String {
    took_ms.map_or_else(|| "-".into(), |ms| format::span(Duration::from_millis(ms)))
}

fn push_all(text: &mut String, what: &str, differences: &[Difference]) {
    if differences.is_empty() {
        return;
    }
    format::push(text, format_args!("\n{what}\n"));
    for one in differences.iter().take(DIFFERENCES_SHOWN) {
        let path = if one.path.is_empty() { "all of it" } else { &one.path };
        let (a, b) = (shown(one.a.as_ref()), shown(one.b.as_ref()));
        format::push(text, format_args!("  {path}: {a} → {b}\n"));
    }
    if differences.len() > DIFFERENCES_SHOWN {
        let more = differences.len() - DIFFERENCES_SHOWN;
        format::push(text, format_args!("  and {more} more; see -o json\n"));
    }
}

fn shown(value: Option<&Value>) -> String {
    let Some(value) = value else { return "nothing".into() };
    format::short(&value.to_string(), VALUE_CHARS_MAX)
}

/// More differences than this are not told apart.
const DIFFERENCES_MAX: usize = 1_000;

/// A value that differs.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Difference {
    /// Where, like `sizes.0.width`; empty for the whole.
    pub(crate) path: String,
    /// What it is on the one side; absent where there is nothing.
    pub(crate) a: Option<Value>,
    /// And on the other.
    pub(crate) b: Option<Value>,
}

/// All differences, in the order of their paths.
pub(crate) fn differences(a: Option<&Value>, b: Option<&Value>) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(String::new(), a, b, &mut found);
    found
}

fn compare(path: String, a: Option<&Value>, b: Option<&Value>, found: &mut Vec<Difference>) {
    if a == b || found.len() >= DIFFERENCES_MAX {
        return;
    }
    let below = |key: &str| if path.is_empty() { key.into() } else { format!("{path}.{key}") };
    match (a, b) {
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            let mut keys: Vec<_> = one.keys().chain(other.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                compare(below(key), one.get(key), other.get(key), found);
            }
        }
        (Some(Value::Array(one)), Some(Value::Array(other))) => {
            for index in 0..one.len().max(other.len()) {
                compare(below(&index.to_string()), one.get(index), other.get(index), found);
            }
        }
        _ => found.push(Difference { path, a: a.cloned(), b: b.cloned() }),
    }
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

    #[test]
    fn only_what_differs_is_told() {
        let a = json!({"same": 1, "list": [1, 2], "gone": true, "deep": {"x": "a"}});
        let b = json!({"same": 1, "list": [1, 3, 4], "deep": {"x": "b"}, "new": null});
        let shown: Vec<_> = differences(Some(&a), Some(&b))
            .into_iter()
            .map(|one| (one.path, one.a.unwrap_or_default(), one.b.unwrap_or_default()))
            .collect();
        let expected = [
            ("deep.x", json!("a"), json!("b")),
            ("gone", json!(true), json!(null)),
            ("list.1", json!(2), json!(3)),
            ("list.2", json!(null), json!(4)),
            ("new", json!(null), json!(null)),
        ];
        assert_eq!(shown, expected.map(|(path, a, b)| (path.to_owned(), a, b)));
        assert_eq!(differences(Some(&a), Some(&a)), []);
        let whole = differences(None, Some(&json!(1)));
        assert_eq!(whole, [Difference { path: String::new(), a: None, b: Some(json!(1)) }]);
    }
}
