//! Workflows that a server keeps: which one is meant, and what can be done to it.

use protocol::rest::workflows::{
    ChangedNode, DiffField, DiffNode, RestoreWorkflow, SavedWorkflow, WorkflowDiff, WorkflowPage,
    WorkflowSummary, WorkflowVersions,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::document::{Checked, Document, is_file};
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::output::{Columns, Show};
use crate::pages::Pages;
use crate::{format, selector};

/// Shorter beginnings are guesses.
const PREFIX_MIN: usize = 2;

pub(super) async fn list(limit: usize, context: &Context) -> Result<()> {
    let pages = Pages::<WorkflowPage>::of("/api/v1/workflows");
    let (workflows, is_more) = pages.take(context, limit).await?;
    context.output.list(
        &json!({ "workflows": workflows }),
        &workflows,
        &Columns {
            none: "no workflows; save one with `astra flow import FILE`",
            id: |one| one.workflow_id.clone(),
            header: ["NAME", "VERSION", "CHANGED", "BY", "ID"],
            row: |one| {
                [
                    label(one),
                    one.version.to_string(),
                    format::ago(&one.updated_at),
                    one.updated_by.clone(),
                    one.workflow_id.clone(),
                ]
            },
        },
    );
    if is_more {
        context.output.note("there are more; see them with a larger -n");
    }
    Ok(())
}

pub(super) async fn import(
    files: &[String],
    base_version: Option<u64>,
    context: &Context,
) -> Result<()> {
    let base_version = base_version.map(|version| version.to_string());
    let path = format::query("/api/v1/workflows", &[("baseVersion", base_version.as_deref())]);
    for file in files {
        let document = Document::of_file(file)?;
        let saved: SavedWorkflow = context.post(&path, &document.raw()?).await?;
        show_saved(&saved, context);
        if !saved.problems.is_empty() {
            context.output.note(Checked::new(&document, saved.problems).text());
        }
    }
    Ok(())
}

pub(super) async fn export(workflow: &str, version: Option<u64>, context: &Context) -> Result<()> {
    if is_file(workflow) {
        let hint = "name a workflow that the server keeps; see `astra flow list`";
        return Err(Failure::usage(format!("{workflow} is a file already"), hint));
    }
    let document = Document::kept(workflow, version, context).await?;
    context.output.line(document.source.trim_end());
    Ok(())
}

pub(super) async fn rm(workflows: &[String], context: &Context) -> Result<()> {
    for text in workflows {
        let found = find(context, text).await?;
        context.delete::<Value>(&path(&found)).await?;
        let text = format!("workflow {} is deleted", label(&found));
        let id = found.workflow_id;
        context.output.answer(&json!({ "workflowId": id }), text, &id);
    }
    Ok(())
}

pub(super) async fn versions(workflow: &str, context: &Context) -> Result<()> {
    let path = format!("{}/versions", path(&find(context, workflow).await?));
    let versions: WorkflowVersions = context.get(&path).await?;
    context.output.list(
        &versions,
        &versions.items,
        &Columns {
            none: "",
            id: |one| one.version.to_string(),
            header: ["VERSION", "NAME", "SAVED", "BY", "COMMENT"],
            row: |one| {
                [
                    one.version.to_string(),
                    one.name.clone(),
                    format::ago(&one.saved_at),
                    one.author.clone(),
                    one.comment.clone().unwrap_or_default(),
                ]
            },
        },
    );
    Ok(())
}

pub(super) async fn rollback(workflow: &str, version: u64, context: &Context) -> Result<()> {
    let path = format!("{}/restore", path(&find(context, workflow).await?));
    let saved: SavedWorkflow = context.post(&path, &RestoreWorkflow { version }).await?;
    show_saved(&saved, context);
    Ok(())
}

pub(super) async fn diff(
    workflow: &str,
    (from, to): (Option<u64>, Option<u64>),
    context: &Context,
) -> Result<()> {
    let found = find(context, workflow).await?;
    let to = to.unwrap_or(found.version);
    let from = from.unwrap_or(to.saturating_sub(1));
    if from == 0 {
        let message = format!("version {to} is the first; there is nothing to compare it with");
        return Err(Failure::usage(message, "see `astra flow versions`"));
    }
    let path = format!("{}/diff?from={from}&to={to}", path(&found));
    context.output.show(&context.get::<WorkflowDiff>(&path).await?);
    Ok(())
}

pub(super) fn path(workflow: &WorkflowSummary) -> String {
    format!("/api/v1/workflows/{}", format::percent_encoded(&workflow.workflow_id))
}

fn show_saved(saved: &SavedWorkflow, context: &Context) {
    let text = format!("workflow {} is saved as version {}", saved.workflow_id, saved.version);
    context.output.answer(saved, text, &saved.workflow_id);
}

impl Show for WorkflowDiff {
    fn text(&self) -> String {
        let mut lines = vec![format!("version {} → {}", self.from, self.to)];
        lines.extend(self.added.iter().map(|node| format!("  + node {}", node_name(node))));
        lines.extend(self.removed.iter().map(|node| format!("  - node {}", node_name(node))));
        for node in &self.changed {
            lines.push(format!("  ~ node {}", changed_name(node)));
            lines.extend(node.fields.iter().map(|field| format!("      {}", field_line(field))));
        }
        let edge = |edge: &protocol::rest::workflows::DiffEdge| {
            format!("{} → {}", edge.source, edge.target)
        };
        lines.extend(self.edges_added.iter().map(|one| format!("  + edge {}", edge(one))));
        lines.extend(self.edges_removed.iter().map(|one| format!("  - edge {}", edge(one))));
        lines.extend(self.other.iter().map(|field| format!("  ~ {}", field_line(field))));
        if lines.len() == 1 {
            lines.push("  nothing differs".into());
        }
        lines.join("\n")
    }

    /// What differs, by node and path.
    fn quiet(&self) -> String {
        let nodes = self.added.iter().chain(&self.removed).map(|node| node.node_id.clone());
        let changed = self.changed.iter().map(|node| node.node_id.clone());
        let other = self.other.iter().map(|field| field.path.clone());
        nodes.chain(changed).chain(other).collect::<Vec<_>>().join("\n")
    }
}

fn node_name(node: &DiffNode) -> String {
    let kind = node.node_type.as_deref().unwrap_or("?");
    match &node.label {
        Some(label) => format!("{label} ({kind}, {})", node.node_id),
        None => format!("{} ({kind})", node.node_id),
    }
}

fn changed_name(node: &ChangedNode) -> String {
    match &node.label {
        Some(label) => format!("{label} ({})", node.node_id),
        None => node.node_id.clone(),
    }
}

fn field_line(field: &DiffField) -> String {
    let shown = |raw: Option<&RawValue>| match raw {
        Some(raw) => raw.get().split_whitespace().collect::<Vec<_>>().join(" "),
        None => "nothing".into(),
    };
    let (from, to) = (shown(field.from.as_deref()), shown(field.to.as_deref()));
    format!("{}: {from} → {to}", field.path)
}

/// The workflow that `text` selects.
pub(crate) async fn find(context: &Context, text: &str) -> Result<WorkflowSummary> {
    let all = Pages::<WorkflowPage>::of("/api/v1/workflows").all(context).await?;
    choose(text, &all).cloned()
}

fn choose<'a>(text: &str, all: &'a [WorkflowSummary]) -> Result<&'a WorkflowSummary> {
    let prefix = text.to_ascii_lowercase();
    let ways: [selector::Way<'_, WorkflowSummary>; 3] = [
        &|one| one.workflow_id.eq_ignore_ascii_case(text),
        &|one| one.name.eq_ignore_ascii_case(text),
        &|one| {
            text.len() >= PREFIX_MIN && one.workflow_id.to_ascii_lowercase().starts_with(&prefix)
        },
    ];
    let hint = "look at `astra flow list`; a file is named by its path, like ./flow.json";
    selector::choose(("workflow", text), all, &ways, |one| &one.workflow_id, hint)
}

/// Its name, where it has one.
fn label(workflow: &WorkflowSummary) -> String {
    let WorkflowSummary { name, workflow_id, .. } = workflow;
    if name.is_empty() { workflow_id.clone() } else { name.clone() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::failure::ExitCode;

    #[test]
    fn differences_are_listed_node_by_node() {
        let diff = json!({"workflowId": "w", "from": 1, "to": 2,
            "added": [{"nodeId": "n2", "label": "Send", "type": "core.echo"}], "removed": [],
            "changed": [{"nodeId": "n1", "label": "Make",
                "fields": [{"path": "parameters.size", "from": 1, "to": 2},
                    {"path": "alias", "to": "make"}]}],
            "edgesAdded": [{"source": "n1:out", "target": "n2:in"}], "edgesRemoved": [],
            "other": []});
        let diff: WorkflowDiff = serde_json::from_str(&diff.to_string()).expect("a diff");
        let expected = "version 1 → 2\n  + node Send (core.echo, n2)\n  ~ node Make (n1)\n      \
                        parameters.size: 1 → 2\n      alias: nothing → \"make\"\n  + edge n1:out \
                        → n2:in";
        assert_eq!(diff.text(), expected);
    }

    #[test]
    fn ids_go_before_names_and_names_before_beginnings() {
        let all = [one("aa11", "Nightly"), one("aa22", "Weekly"), one("bb33", "aa22")];
        let id = |text| choose(text, &all).map(|found| found.workflow_id.clone());
        assert_eq!(id("aa22").ok().as_deref(), Some("aa22"));
        assert_eq!(id("nightly").ok().as_deref(), Some("aa11"));
        assert_eq!(id("bb").ok().as_deref(), Some("bb33"));
        assert_eq!(id("aa").expect_err("two").exit, ExitCode::Usage);
        assert_eq!(id("b").expect_err("a guess").exit, ExitCode::NotFound);
    }

    fn one(id: &str, name: &str) -> WorkflowSummary {
        WorkflowSummary {
            workflow_id: id.into(),
            name: name.into(),
            version: 1,
            definition_hash: String::new(),
            updated_at: String::new(),
            updated_by: String::new(),
        }
    }
}
