//! A workflow at a glance: its nodes, and what each waits for.

use serde::Serialize;
use serde_json::Value;

use super::document::Document;
use super::problems::Checked;
use crate::output::{self, Show};
use crate::words;

/// What people read at a glance of an id that has no other name.
const ID_LETTERS: usize = 8;

/// A workflow at a glance.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Outline {
    workflow_id: String,
    name: String,
    description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    valid: bool,
    nodes: Vec<OutlineNode>,
    subgraphs: Vec<OutlineGraph>,
    #[serde(skip)]
    checked: Checked,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OutlineGraph {
    name: String,
    nodes: Vec<OutlineNode>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OutlineNode {
    node_id: String,
    name: String,
    label: String,
    #[serde(rename = "type")]
    node_type: String,
    middlewares: Vec<String>,
    /// Names of the nodes that it waits for; empty too while the workflow cannot run.
    after: Vec<String>,
}

impl Outline {
    pub(super) fn of(document: &Document) -> Self {
        let (checked, value) = (Checked::here(document), document.value());
        let program = flow::compile(document.bytes()).ok().map(|compiled| compiled.program);
        let graphs = program.as_ref().map_or(&[][..], |program| &program.graphs);
        let graph_of = |id: &str| graphs.iter().find(|graph| graph.id.to_string() == id);
        let metadata = |key: &str| text(value.get("metadata").unwrap_or(&Value::Null), key);
        let subgraphs = items(&value, "subgraphs").iter().map(|subgraph| {
            let definition = subgraph.get("definition").unwrap_or(&Value::Null);
            let name = text(subgraph.get("metadata").unwrap_or(&Value::Null), "label");
            let id = text(subgraph, "id");
            let nodes = nodes(definition, graph_of(&id.to_lowercase()));
            OutlineGraph { name: if name.is_empty() { id } else { name }, nodes }
        });
        Self {
            workflow_id: text(&value, "id"),
            name: metadata("name"),
            description: metadata("description"),
            version: document.version,
            valid: checked.valid,
            nodes: nodes(&value, graphs.first()),
            subgraphs: subgraphs.collect(),
            checked,
        }
    }
}

fn nodes(workflow: &Value, graph: Option<&flow::Graph>) -> Vec<OutlineNode> {
    let outline = |(index, node): (usize, &Value)| {
        let compiled = graph.and_then(|graph| graph.nodes.get(index).map(|node| (graph, node)));
        let after = compiled.map_or_else(Vec::new, |(graph, node)| {
            let name = |place: &u32| graph.nodes.get(*place as usize).map(flow::Node::name);
            node.waits_for.iter().filter_map(name).collect()
        });
        let middlewares = items(node, "middlewares").iter().map(|one| text(one, "type")).collect();
        OutlineNode {
            node_id: text(node, "id"),
            name: name(node),
            label: text(node, "label"),
            node_type: text(node, "type"),
            middlewares,
            after,
        }
    };
    items(workflow, "nodes").iter().enumerate().map(outline).collect()
}

fn name(node: &Value) -> String {
    let known = ["alias", "label"].map(|key| text(node, key));
    let known = known.into_iter().find(|name| !name.is_empty());
    known.unwrap_or_else(|| text(node, "id").chars().take(ID_LETTERS).collect())
}

fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

impl Show for Outline {
    fn text(&self) -> String {
        let version = self.version.map_or_else(String::new, |n| format!(" · version {n}"));
        let mut shown = format!("{} · {}{version}\n", self.name, self.workflow_id);
        if !self.description.is_empty() {
            words::push(&mut shown, format_args!("  {}\n", self.description));
        }
        words::push(&mut shown, format_args!("\n{}\n", table(&self.nodes)));
        for graph in &self.subgraphs {
            let (name, table) = (&graph.name, table(&graph.nodes));
            words::push(&mut shown, format_args!("\nsubgraph {name}\n\n{table}\n"));
        }
        if !self.checked.problems.is_empty() {
            words::push(&mut shown, format_args!("\n{}\n", self.checked.text()));
        }
        shown
    }

    fn quiet(&self) -> String {
        self.workflow_id.clone()
    }
}

fn table(nodes: &[OutlineNode]) -> String {
    let rows = nodes.iter().map(|node| {
        let kind = match node.middlewares.as_slice() {
            [] => node.node_type.clone(),
            around => format!("{} in {}", node.node_type, around.join(", ")),
        };
        let after = if node.after.is_empty() { "-".into() } else { node.after.join(", ") };
        [node.name.clone(), kind, after, node.label.clone()]
    });
    output::table(["NODE", "TYPE", "AFTER", "LABEL"], rows.collect())
}
