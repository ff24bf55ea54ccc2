//! Takes an ended run up again: a new run that uses what the old one has done.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use coordinator::{NodeStatus, NodeWord, Reused, TaskState};
use flow::{Graph, Program, Work};
use protocol::error_code::ErrorCode;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::definition::{Object, rewrite};
use super::run_snapshot::{NodeParts, RunSnapshot, place_of};
use crate::wire_words::problem::ApiError;

/// From where a run is taken up again.
pub(crate) struct Again {
    /// Every node, whatever came of it.
    pub(crate) everything: bool,
    /// This node and all behind it.
    pub(crate) node: Option<Uuid>,
    /// Other parameters, by node: each, and all behind it.
    pub(crate) parameters: BTreeMap<Uuid, Map<String, Value>>,
}

fn conflict(message: &str, hint: &str) -> ApiError {
    ApiError::new(ErrorCode::RunConflict, message).with_hint(hint)
}

/// Its definition cannot be changed.
fn unreadable() -> ApiError {
    conflict("the run's definition cannot be read", "start a new run of the workflow")
}

/// What the new run need not execute.
pub(crate) fn reused(snapshot: &RunSnapshot<'_>, again: &Again) -> Result<Vec<Reused>, ApiError> {
    if snapshot.record.end.is_none() {
        let hint = "wait for its end, or stop it with `astra run stop`";
        return Err(conflict("the run has not ended", hint));
    }
    let Some(workflow) = snapshot.frames.first() else { return Err(unreadable()) };
    let mut seeds = BTreeSet::new();
    for id in again.node.iter().chain(again.parameters.keys()) {
        let nodes = nodes_with(snapshot.program, *id);
        if nodes.is_empty() {
            return Err(ApiError::invalid("the workflow", format_args!("has no node {id}"))
                .with_hint("list its nodes with `astra run show`"));
        }
        seeds.extend(nodes);
    }
    let is_done = |parts: &NodeParts<'_>| {
        !again.everything && matches!(parts.status, NodeStatus::Succeeded | NodeStatus::Skipped)
    };
    let open = workflow.nodes.iter().enumerate().filter(|(_, parts)| !is_done(parts));
    seeds.extend(open.map(|(place, _)| place));
    if seeds.is_empty() {
        let hint = "name the node to begin with: `nodeId`; `fromFailed: false` is all";
        return Err(conflict("every node of the run succeeded", hint));
    }
    let again = behind(workflow.graph, &seeds);
    let done = workflow.nodes.iter().enumerate().filter(|(place, _)| !again.contains(place));
    Ok(done.filter_map(|(place, parts)| reuse(place, parts)).collect())
}

/// Nodes of the workflow itself that an id stands for: the node, the one that it is wrapped around,
/// or every container that leads to its subgraph.
fn nodes_with(program: &Program, id: Uuid) -> BTreeSet<usize> {
    let mut nodes = BTreeSet::new();
    let Some(workflow) = program.graphs.first() else { return nodes };
    nodes.extend(place_of(workflow, id).map(|(place, _)| place));
    let inner = program.graphs.iter().enumerate().skip(1);
    for (graph, _) in inner.filter(|(_, graph)| place_of(graph, id).is_some()) {
        nodes.extend(containers_of(program, graph));
    }
    nodes
}

/// Nodes of the workflow itself whose subgraphs lead to this one.
fn containers_of(program: &Program, target: usize) -> BTreeSet<usize> {
    let mut leading = BTreeSet::from([target]);
    // Each round adds the graphs one step further out; there are no more rounds than graphs.
    for _ in 0..program.graphs.len() {
        let around: Vec<usize> = (1..program.graphs.len())
            .filter(|graph| holds_any(&program.graphs[*graph], &leading).next().is_some())
            .collect();
        leading.extend(around);
    }
    program.graphs.first().map_or_else(BTreeSet::new, |top| holds_any(top, &leading).collect())
}

fn holds_any<'a>(
    graph: &'a Graph,
    graphs: &'a BTreeSet<usize>,
) -> impl Iterator<Item = usize> + 'a {
    graph.nodes.iter().enumerate().filter_map(|(place, node)| match &node.host.work {
        Work::Container { graph, .. } if graphs.contains(&(*graph as usize)) => Some(place),
        _ => None,
    })
}

/// These nodes and everything behind them.
fn behind(graph: &Graph, seeds: &BTreeSet<usize>) -> BTreeSet<usize> {
    let mut reached = seeds.clone();
    let mut open: VecDeque<usize> = seeds.iter().copied().collect();
    while let Some(place) = open.pop_front() {
        for follower in &graph.nodes[place].followers {
            let follower = *follower as usize;
            if reached.insert(follower) {
                open.push_back(follower);
            }
        }
    }
    reached
}

fn reuse(place: usize, parts: &NodeParts<'_>) -> Option<Reused> {
    let node = u32::try_from(place).ok()?;
    let word = match parts.status {
        NodeStatus::Succeeded => NodeWord::Succeeded,
        NodeStatus::Skipped => NodeWord::Skipped,
        _ => return None,
    };
    let task =
        parts.tasks.iter().rev().find(|task| NodeStatus::of_task(&task.progress).is_terminal());
    if let Some(end) = parts.end {
        let task = end.reused.or_else(|| task.map(|task| task.id));
        return Some(Reused { node, word, result: end.result.clone(), task });
    }
    let task = task?;
    let TaskState::Settled(settlement) = &task.progress.state else { return None };
    Some(Reused { node, word, result: settlement.result.clone(), task: Some(task.id) })
}

/// The definition with other parameters: their fields are laid over the authored ones.
pub(crate) fn patched(
    definition: &Bytes,
    parameters: &BTreeMap<Uuid, Map<String, Value>>,
) -> Result<Bytes, ApiError> {
    if parameters.is_empty() {
        return Ok(definition.clone());
    }
    let text = std::str::from_utf8(definition).map_err(|_| unreadable())?;
    let mut is_readable = true;
    let made = rewrite(text, &mut |node| {
        let done = match parameters.get(&node.id) {
            Some(over) => lay_over(node.object, over),
            None => patch_middlewares(node.object, parameters),
        };
        is_readable &= done.is_some();
    });
    match made {
        Some(made) if is_readable => Ok(Box::<str>::from(made).into_boxed_bytes().into()),
        Some(_) | None => Err(unreadable()),
    }
}

/// Lays fields over the parameters of a node or a middleware.
fn lay_over(step: &mut Object<'_>, over: &Map<String, Value>) -> Option<()> {
    let authored = step.get("parameters").map_or_else(|| "{}".to_owned(), |raw| raw.get().into());
    let mut parameters = Object::read(if authored == "null" { "{}" } else { &authored })?;
    for (key, value) in over {
        parameters.set(key, serde_json::value::to_raw_value(value).ok()?);
    }
    let text = parameters.text()?;
    step.set("parameters", text);
    Some(())
}

fn patch_middlewares(
    node: &mut Object<'_>,
    parameters: &BTreeMap<Uuid, Map<String, Value>>,
) -> Option<()> {
    let Some(list) = node.get("middlewares").map(|raw| raw.get().to_owned()) else {
        return Some(());
    };
    let mut steps: Vec<Object<'_>> = match serde_json::from_str(&list) {
        Ok(steps) => steps,
        // It compiled as it stands, so there is nothing in it to change.
        Err(_) => return Some(()),
    };
    let mut is_changed = false;
    for step in &mut steps {
        let id = step.get("id").and_then(|raw: &RawValue| serde_json::from_str(raw.get()).ok());
        if let Some(over) = id.and_then(|id: Uuid| parameters.get(&id)) {
            lay_over(step, over)?;
            is_changed = true;
        }
    }
    if is_changed {
        node.set("middlewares", serde_json::value::to_raw_value(&steps).ok()?);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ONE: &str = "11111111-1111-4111-8111-111111111111";
    const TWO: &str = "22222222-2222-4222-8222-222222222222";

    #[test]
    fn parameters_are_laid_over_the_authored_ones() {
        let definition = format!(
            r#"{{"nodes":[{{"id":"{ONE}","parameters":{{"a": 1,"b":[1, 2]}},"ui":{{}}}},{{"id":"{TWO}","k":1}}]}}"#
        );
        let check = |id: &str, over: Value, expected: String| {
            let over = over.as_object().expect("an object").clone();
            let parameters = BTreeMap::from([(id.parse().expect("an id"), over)]);
            let made = patched(&definition.clone().into(), &parameters).expect("a workflow");
            assert_eq!(String::from_utf8(made.to_vec()).expect("text"), expected);
        };
        check(
            ONE,
            json!({"a": 2, "c": null}),
            format!(
                r#"{{"nodes":[{{"id":"{ONE}","parameters":{{"a":2,"b":[1, 2],"c":null}},"ui":{{}}}},{{"id":"{TWO}","k":1}}]}}"#
            ),
        );
        check(
            TWO,
            json!({"a": 2}),
            format!(
                r#"{{"nodes":[{{"id":"{ONE}","parameters":{{"a": 1,"b":[1, 2]}},"ui":{{}}}},{{"id":"{TWO}","k":1,"parameters":{{"a":2}}}}]}}"#
            ),
        );
    }

    #[test]
    fn a_middleware_has_parameters_too() {
        let definition =
            format!(r#"{{"nodes":[{{"id":"{ONE}","middlewares":[{{"id":"{TWO}"}}]}}]}}"#);
        let over = json!({"times": 3}).as_object().expect("an object").clone();
        let parameters = BTreeMap::from([(TWO.parse().expect("an id"), over)]);
        let made = patched(&definition.into(), &parameters).expect("a workflow");
        let expected = format!(
            r#"{{"nodes":[{{"id":"{ONE}","middlewares":[{{"id":"{TWO}","parameters":{{"times":3}}}}]}}]}}"#
        );
        assert_eq!(String::from_utf8(made.to_vec()).expect("text"), expected);
    }
}
