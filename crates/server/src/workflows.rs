//! Workflows that are kept: a new version, those that there are, and what differs between two.
//!
//! A draft may have errors: they are told beside, and keep it from running only.

use std::collections::BTreeMap;

use bytes::Bytes;
use model::ShardId;
use protocol::error_code::ErrorCode;
use protocol::rest::workflows::{
    ChangedNode, DiffEdge, DiffField, DiffNode, SavedWorkflow, WorkflowDiff,
};
use serde::Deserialize;
use serde_json::value::to_raw_value;
use serde_json::{Map, Value};
use shard::DocumentKind;
use shard::documents::{Entry, NewDocument, WORKFLOWS_MAX, WorkflowHead, Written};
use store::{DocumentVersion, Store, StoreError};
use uuid::Uuid;

use crate::app::App;
use crate::handle::ShardHandle;
use crate::runs::view::problem;
use crate::wire_words::problem::ApiError;

/// Limit: a workflow's name, as lists show it, in characters; the rest is cut off.
const WORKFLOW_NAME_CHARS_MAX: usize = 256;
/// Limit: a comment on a version.
pub(crate) const COMMENT_CHARS_MAX: usize = 1_024;

/// A version that someone wants to keep.
pub(crate) struct NewVersion {
    /// The workflow, as authored.
    pub(crate) definition: Bytes,
    /// The version that it builds on; `None` takes what is there.
    pub(crate) base: Option<u64>,
    /// Who saves it.
    pub(crate) author: String,
    /// What changed, in the author's words.
    pub(crate) comment: Option<String>,
}

/// Keeps a version. The same workflow again makes no new one.
pub(crate) async fn save(
    app: &App,
    handle: &ShardHandle,
    new: NewVersion,
) -> Result<SavedWorkflow, ApiError> {
    let (id, name) = head(&new.definition)?;
    let checking = app.programs.check(handle.shard(), new.definition.clone());
    let checked = checking.await.map_err(|error| {
        ApiError::new(ErrorCode::RequestInvalid, error.to_string())
            .with_hint("it nests too deep, or holds something that is no JSON")
    })?;
    let (id, base, hash) = (id.to_string(), new.base, checked.hash);
    let document = NewDocument {
        hash: hash.clone(),
        by: new.author,
        at_ms: app.clock.now().as_millis(),
        head: WorkflowHead { name, comment: new.comment },
        body: new.definition,
    };
    let key = id.clone();
    match handle.change(move |documents| documents.workflows.put(&key, base, document)).await? {
        Written::Saved(version) | Written::Same(version) => {
            let problems = checked.problems.iter().map(problem).collect();
            Ok(SavedWorkflow { workflow_id: id, version, definition_hash: hash, problems })
        }
        Written::Conflict(0) => Err(conflict("there is no such workflow to build on".to_owned())),
        Written::Conflict(newest) => Err(conflict(format!("the newest version is {newest}"))),
        // The doors take no definition that is too long.
        Written::Full | Written::TooLarge(_) => {
            let message = format!("{WORKFLOWS_MAX} workflows are kept already");
            Err(ApiError::new(ErrorCode::LimitWorkflows, message))
        }
    }
}

fn conflict(message: String) -> ApiError {
    ApiError::new(ErrorCode::WorkflowConflict, message)
}

/// The id of a workflow, and its name as lists show it.
fn head(definition: &[u8]) -> Result<(Uuid, String), ApiError> {
    #[derive(Deserialize)]
    struct Wire {
        #[serde(default)]
        id: Value,
        #[serde(default)]
        metadata: Value,
    }
    let no_workflow = |message: &str| {
        ApiError::new(ErrorCode::RequestInvalid, message)
            .with_hint("a workflow is an object with `id`, `nodes` and `edges`")
    };
    let wire: Wire = serde_json::from_slice(definition)
        .map_err(|_| no_workflow("the workflow is not an object"))?;
    let id = wire.id.as_str().and_then(|id| Uuid::try_parse(id).ok());
    let id = id.ok_or_else(|| no_workflow("id must be a UUID"))?;
    let name = wire.metadata.get("name").and_then(Value::as_str).unwrap_or_default();
    Ok((id, name.chars().take(WORKFLOW_NAME_CHARS_MAX).collect()))
}

/// A version of a workflow that is kept.
pub(crate) struct KeptVersion {
    /// What is known of it without its definition.
    pub(crate) entry: Entry<WorkflowHead>,
    /// As authored; empty in lists.
    pub(crate) definition: Bytes,
    /// Whether the workflow was deleted since.
    pub(crate) is_deleted: bool,
}

impl KeptVersion {
    fn read(id: &str, stored: DocumentVersion) -> Result<Self, StoreError> {
        let read = |json: &str| {
            let damaged = || StoreError::Damaged(format!("workflow {id}"));
            Entry::<WorkflowHead>::read(json).ok_or_else(damaged)
        };
        let is_deleted = read(&stored.newest)?.hidden_ms.is_some();
        Ok(Self { entry: read(&stored.json)?, definition: stored.body, is_deleted })
    }
}

/// A version of a workflow, the newest unless a number says which; also of a deleted one.
pub(crate) async fn any_version(
    store: &dyn Store,
    shard: ShardId,
    id: &str,
    version: Option<u64>,
) -> Result<Option<KeptVersion>, StoreError> {
    let read = store.document_version(shard, DocumentKind::Workflow, id.to_owned(), version);
    read.await?.map(|stored| KeptVersion::read(id, stored)).transpose()
}

/// The same, unless the workflow is deleted.
pub(crate) async fn find(
    store: &dyn Store,
    shard: ShardId,
    id: &str,
    version: Option<u64>,
) -> Result<Option<KeptVersion>, StoreError> {
    Ok(any_version(store, shard, id, version).await?.filter(|kept| !kept.is_deleted))
}

/// Every version of a workflow that is not deleted, newest first, without definitions.
pub(crate) async fn versions(
    store: &dyn Store,
    shard: ShardId,
    id: &str,
) -> Result<Vec<KeptVersion>, StoreError> {
    let stored = store.document_versions(shard, DocumentKind::Workflow, id.to_owned()).await?;
    let versions = stored.into_iter().map(|stored| KeptVersion::read(id, stored));
    let mut versions: Vec<_> = versions.collect::<Result<_, _>>()?;
    versions.retain(|version| !version.is_deleted);
    Ok(versions)
}

/// Limit: values that one comparison lists.
const DIFF_FIELDS_MAX: usize = 10_000;
/// Keys of a graph that are compared piece by piece.
const GRAPH_KEYS: [&str; 3] = ["nodes", "edges", "subgraphs"];

/// Two versions, side by side. The caller adds which workflow, and which versions.
pub(crate) fn diff(from: &Value, to: &Value) -> WorkflowDiff {
    let mut diff = WorkflowDiff::default();
    let mut room = DIFF_FIELDS_MAX;
    let (old, new) = (graphs(from), graphs(to));
    compare_nodes(&old, &new, &mut diff, &mut room);
    compare_edges(&old, &new, &mut diff);
    let mut other = Fields { list: Vec::new(), room: &mut room };
    other.compare("", &without_parts(from), &without_parts(to));
    diff.other = other.list;
    diff
}

/// The workflow itself and its subgraphs, however deep they stand.
fn graphs(workflow: &Value) -> Vec<(Option<String>, &Value)> {
    let mut found = vec![(None, workflow)];
    let mut at = 0;
    while let Some((_, graph)) = found.get(at).cloned() {
        for subgraph in list(graph, "subgraphs") {
            let id = text(subgraph, "id").unwrap_or_default();
            found.push((Some(id), &subgraph["definition"]));
        }
        at += 1;
    }
    found
}

/// Nodes by their graph and id.
type Nodes<'a> = BTreeMap<(Option<String>, String), &'a Value>;

fn nodes<'a>(graphs: &[(Option<String>, &'a Value)]) -> Nodes<'a> {
    let of_graph = |(subgraph, graph): &(Option<String>, &'a Value)| {
        let subgraph = subgraph.clone();
        let nodes = list(graph, "nodes");
        nodes.filter_map(move |node| Some(((subgraph.clone(), text(node, "id")?), node)))
    };
    graphs.iter().flat_map(of_graph).collect()
}

fn compare_nodes(
    old: &[(Option<String>, &Value)],
    new: &[(Option<String>, &Value)],
    diff: &mut WorkflowDiff,
    room: &mut usize,
) {
    let (old, new) = (nodes(old), nodes(new));
    for ((subgraph_id, node_id), node) in &new {
        let key = (subgraph_id.clone(), node_id.clone());
        let Some(before) = old.get(&key) else {
            diff.added.push(one_sided(&key, node));
            continue;
        };
        let mut fields = Fields { list: Vec::new(), room };
        fields.compare("", before, node);
        if !fields.list.is_empty() {
            diff.changed.push(ChangedNode {
                node_id: node_id.clone(),
                label: text(node, "label"),
                subgraph_id: subgraph_id.clone(),
                fields: fields.list,
            });
        }
    }
    let gone = old.iter().filter(|(key, _)| !new.contains_key(*key));
    diff.removed.extend(gone.map(|(key, node)| one_sided(key, node)));
}

fn one_sided(key: &(Option<String>, String), node: &Value) -> DiffNode {
    DiffNode {
        node_id: key.1.clone(),
        label: text(node, "label"),
        node_type: text(node, "type"),
        subgraph_id: key.0.clone(),
    }
}

/// An edge is what it connects; a new id alone makes no difference.
fn compare_edges(
    old: &[(Option<String>, &Value)],
    new: &[(Option<String>, &Value)],
    diff: &mut WorkflowDiff,
) {
    let (old, new) = (edges(old), edges(new));
    let only = |these: &BTreeMap<EdgeKey, DiffEdge>, others: &BTreeMap<EdgeKey, DiffEdge>| {
        let missing = these.iter().filter(|(key, _)| !others.contains_key(*key));
        missing.map(|(_, edge)| edge.clone()).collect::<Vec<_>>()
    };
    diff.edges_added = only(&new, &old);
    diff.edges_removed = only(&old, &new);
}

/// Graph, source, target.
type EdgeKey = (Option<String>, String, String);

fn edges(graphs: &[(Option<String>, &Value)]) -> BTreeMap<EdgeKey, DiffEdge> {
    let mut found = BTreeMap::new();
    for (subgraph_id, graph) in graphs {
        for edge in list(graph, "edges") {
            let (source, target) = (end(&edge["source"]), end(&edge["target"]));
            let key = (subgraph_id.clone(), source.clone(), target.clone());
            let edge_id = text(edge, "id");
            let subgraph_id = subgraph_id.clone();
            found.insert(key, DiffEdge { edge_id, source, target, subgraph_id });
        }
    }
    found
}

fn end(side: &Value) -> String {
    let part = |key| text(side, key).unwrap_or_default();
    format!("{}:{}", part("node"), part("port"))
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn without_parts(workflow: &Value) -> Value {
    let mut rest: Map<String, Value> = workflow.as_object().cloned().unwrap_or_default();
    rest.retain(|key, _| !GRAPH_KEYS.contains(&key.as_str()));
    Value::Object(rest)
}

/// Values that differ, by path.
struct Fields<'r> {
    list: Vec<DiffField>,
    /// How many more may be listed.
    room: &'r mut usize,
}

impl Fields<'_> {
    fn compare(&mut self, path: &str, from: &Value, to: &Value) {
        match (from, to) {
            (from, to) if from == to => {}
            (Value::Object(from), Value::Object(to)) => self.compare_objects(path, from, to),
            (Value::Array(from), Value::Array(to)) if from.len() == to.len() => {
                for (index, (from, to)) in from.iter().zip(to).enumerate() {
                    self.compare(&format!("{path}[{index}]"), from, to);
                }
            }
            (from, to) => self.push(path, Some(from), Some(to)),
        }
    }

    fn compare_objects(&mut self, path: &str, from: &Map<String, Value>, to: &Map<String, Value>) {
        let below = |key: &str| if path.is_empty() { key.into() } else { format!("{path}.{key}") };
        for (key, before) in from {
            match to.get(key) {
                Some(after) => self.compare(&below(key), before, after),
                None => self.push(&below(key), Some(before), None),
            }
        }
        for (key, after) in to.iter().filter(|(key, _)| !from.contains_key(*key)) {
            self.push(&below(key), None, Some(after));
        }
    }

    fn push(&mut self, path: &str, from: Option<&Value>, to: Option<&Value>) {
        if *self.room == 0 {
            return;
        }
        *self.room -= 1;
        let raw = |value: Option<&Value>| value.and_then(|value| to_raw_value(value).ok());
        self.list.push(DiffField { path: path.to_owned(), from: raw(from), to: raw(to) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workflow_has_an_id_at_least() {
        let read = |text: &str| head(text.as_bytes()).map(|(id, name)| (id.to_string(), name));
        let id = "ba55c67a-9ad4-4b6f-a719-b84e774c2d11";
        let whole = format!(r#"{{"id":"{}","metadata":{{"name":"Smoke"}}}}"#, id.to_uppercase());
        assert_eq!(read(&whole).ok(), Some((id.to_owned(), "Smoke".to_owned())));
        let bare = format!(r#"{{"id":"{id}","metadata":7}}"#);
        assert_eq!(read(&bare).ok(), Some((id.to_owned(), String::new())));
        for wrong in ["[]", "7", "{}", r#"{"id":7}"#, r#"{"id":"smoke"}"#] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}

#[cfg(test)]
mod diff_tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nodes_fields_and_edges_are_told_apart() {
        let from = json!({
            "metadata": {"name": "A", "tags": ["x"]},
            "nodes": [
                {"id": "1", "label": "One", "type": "t", "parameters": {"url": "a", "n": [1, 2]}},
                {"id": "2", "label": "Two", "type": "t"},
            ],
            "edges": [{"id": "e", "source": {"node": "1", "port": "o"},
                "target": {"node": "2", "port": "i"}}],
        });
        let to = json!({
            "metadata": {"name": "B", "tags": ["x"]},
            "nodes": [
                {"id": "3", "label": "Three", "type": "u"},
                {"id": "1", "label": "One", "type": "t",
                    "parameters": {"url": "b", "n": [1, 3], "k": null}},
            ],
            "edges": [],
        });
        let made = diff(&from, &to);
        let ids =
            |nodes: &[DiffNode]| nodes.iter().map(|node| node.node_id.clone()).collect::<Vec<_>>();
        assert_eq!((ids(&made.added), ids(&made.removed)), (vec!["3".into()], vec!["2".into()]));
        assert_eq!(
            fields(&made.changed[0].fields),
            [
                "parameters.n[1]: 2 -> 3",
                "parameters.url: \"a\" -> \"b\"",
                "parameters.k: - -> null",
            ]
        );
        assert_eq!(made.changed.len(), 1);
        assert_eq!((made.edges_added.len(), made.edges_removed.len()), (0, 1));
        assert_eq!(made.edges_removed[0].source, "1:o");
        assert_eq!(fields(&made.other), ["metadata.name: \"A\" -> \"B\""]);
    }

    #[test]
    fn a_subgraph_s_nodes_are_compared_with_its_own() {
        let with = |value: u32| {
            json!({"nodes": [], "subgraphs": [{"id": "s", "definition":
                {"nodes": [{"id": "1", "parameters": {"v": value}}]}}]})
        };
        let made = diff(&with(1), &with(2));
        assert_eq!(made.changed[0].subgraph_id.as_deref(), Some("s"));
        assert_eq!(fields(&made.changed[0].fields), ["parameters.v: 1 -> 2"]);
        assert!(diff(&with(1), &with(1)).changed.is_empty());
    }

    #[test]
    fn a_long_list_of_differences_ends() {
        let list = |value: u32| json!({"nodes": [{"id": "1", "v": vec![value; 20_000]}]});
        assert_eq!(diff(&list(1), &list(2)).changed[0].fields.len(), DIFF_FIELDS_MAX);
    }

    fn fields(fields: &[DiffField]) -> Vec<String> {
        let word = |raw: &Option<Box<serde_json::value::RawValue>>| {
            raw.as_ref().map_or("-".to_owned(), |raw| raw.get().to_owned())
        };
        let line = |field: &DiffField| {
            format!("{}: {} -> {}", field.path, word(&field.from), word(&field.to))
        };
        fields.iter().map(line).collect()
    }
}
