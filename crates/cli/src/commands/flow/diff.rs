//! `astra flow diff`.

use protocol::rest::workflows::{ChangedNode, DiffField, DiffNode, WorkflowDiff};
use serde_json::value::RawValue;

use super::selector;
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::Show;
use crate::words;

const EXAMPLES: &str = "\
Examples:
  astra flow diff nightly                     what the newest version changed
  astra flow diff nightly 3 5
  astra flow diff nightly 3 5 -o json
";

/// Say what differs between two versions of a workflow.
#[derive(Debug, clap::Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Its name, its id or the first letters of it.
    workflow: String,
    /// The version that is compared with. Default: the one before the other.
    from: Option<u64>,
    /// The version that is looked at. Default: the newest.
    to: Option<u64>,
}

pub(super) async fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode> {
    let found = selector::workflow(context, &arguments.workflow).await?;
    let to = arguments.to.unwrap_or(found.version);
    let from = arguments.from.unwrap_or(to.saturating_sub(1));
    if from == 0 {
        let message = format!("version {to} is the first; there is nothing to compare it with");
        return Err(Failure::usage(message, "see `astra flow versions`"));
    }
    let id = words::percent_encoded(&found.workflow_id);
    let path = format!("/api/v1/workflows/{id}/diff?from={from}&to={to}");
    let diff: WorkflowDiff = context.ask(context.client.get(&path)).await?;
    context.output.show(&diff);
    Ok(ExitCode::Success)
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
}
