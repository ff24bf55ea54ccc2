//! A run of a workflow, shown whole.

use protocol::rest::runs::{NodeCounts, Run};
use serde_json::value::RawValue;

use super::ending;
use super::picture::{Picture, took};
use crate::output::{self, Show};
use crate::words;

/// More lines than this are for programs.
const LINES_MAX: usize = 200;
/// Longer values are cut for people.
const VALUE_CHARS_MAX: usize = 400;

impl Show for Run {
    fn text(&self) -> String {
        let status = words::as_node(self.status);
        let headline = output::styled(words::node_style(status), words::run_status(self.status));
        let rows = output::facts(&facts(self));
        let title = format!("{headline}  run {}  {}", self.number, self.name);
        let mut text = format!("{}\n{rows}", title.trim_end());
        if let Some(nodes) = self.nodes.as_deref().filter(|nodes| !nodes.is_empty()) {
            let picture = Picture::of(nodes, words::now());
            words::push(&mut text, format_args!("\n{}\n", picture.lines(LINES_MAX).join("\n")));
        }
        if let Some(ways_on) = ending::ways_on(self) {
            words::push(&mut text, format_args!("\n{ways_on}\n"));
        }
        text
    }

    fn quiet(&self) -> String {
        self.status.word().into()
    }
}

fn facts(run: &Run) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("id", run.run_id.clone()),
        ("workflow", workflow(run)),
        (
            "started",
            format!("{} ({}) by {}", run.created_at, words::ago(&run.created_at), run.started_by),
        ),
        ("took", took(run)),
    ];
    rows.extend(run.retry_of.iter().map(|before| ("again of", before.clone())));
    rows.extend(run.counts.iter().map(|counts| ("nodes", in_words(counts))));
    rows.extend(value("inputs", run.inputs.as_deref()));
    rows.extend(value("outputs", run.outputs.as_deref()));
    rows.extend(
        run.error.iter().map(|error| ("error", format!("{} ({})", error.message, error.code))),
    );
    let left = run.artifacts.as_ref().map_or(0, Vec::len);
    rows.extend((left > 0).then(|| ("left", words::count(left, "artifact"))));
    let bindings = run.bindings.iter().flatten();
    rows.extend(bindings.map(|bound| ("bound", format!("{} to {}", bound.package, bound.worker))));
    rows
}

fn workflow(run: &Run) -> String {
    match run.workflow_version {
        Some(version) => format!("{} version {version}", run.workflow_id),
        None => run.workflow_id.clone(),
    }
}

fn value(name: &'static str, raw: Option<&RawValue>) -> Option<(&'static str, String)> {
    let text = raw?.get();
    (text != "{}").then(|| (name, short(text)))
}

fn short(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= VALUE_CHARS_MAX {
        return line;
    }
    line.chars().take(VALUE_CHARS_MAX - 1).chain(['…']).collect()
}

fn in_words(counts: &NodeCounts) -> String {
    let all = [
        ("succeeded", counts.succeeded),
        ("running", counts.running),
        ("queued", counts.queued),
        ("failed", counts.failed),
        ("skipped", counts.skipped),
        ("stopped", counts.cancelled),
    ];
    let some = all.into_iter().filter(|(_, n)| *n > 0);
    let some = some.map(|(word, n)| format!("{} {word}", words::thousands(n)));
    format!("{} ({})", words::thousands(counts.total), some.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_is_shown_with_its_nodes() {
        let run = json!({"runId": "r", "number": 41, "status": "succeeded", "name": "Greeting",
            "workflowId": "w", "workflowVersion": 3, "definitionHash": "h",
            "createdAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:03Z",
            "startedBy": "dev", "inputs": {}, "outputs": {"sent": "hello"},
            "counts": {"queued": 0, "running": 0, "succeeded": 1, "failed": 0, "cancelled": 0,
                "skipped": 0, "total": 1},
            "nodes": [{"nodeId": "n1", "alias": "send", "status": "succeeded", "type": "t",
                "attempts": 1, "taskId": "t"}]});
        let run: Run = serde_json::from_str(&run.to_string()).expect("a run");
        let text = anstream::adapter::strip_str(&run.text()).to_string();
        for line in [
            "✓ Succeeded  run 41  Greeting",
            "  workflow  w version 3",
            "  took      3.0s",
            "  nodes     1 (1 succeeded)",
            "  outputs   {\"sent\":\"hello\"}",
            "  ✓ send  Succeeded",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
        }
        assert!(!text.contains("inputs"), "nothing was given\n{text}");
        assert_eq!(run.quiet(), "succeeded");
    }
}
